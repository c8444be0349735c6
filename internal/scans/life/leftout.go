package life

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// Tables that are deleted during the export of their group. The group leaves such a table out, and names it in its note. The table's scan fails
// permanently. Its exported blobs are deleted, the claim first, so that a reader of the group's export does not find it. A late process may
// write a blob there afterwards. Maintain deletes that blob a day later, and so does the removal of the backup.

// GoneError means that a source's table does not exist.
type GoneError struct{ error }

func (g *GoneError) Unwrap() error { return g.error }

// Gone returns err as the error of a table that does not exist.
func Gone(err error) error { return &GoneError{err} }

// LeavesOut reports whether a scan's error makes its group leave the scan out. An export leaves out tables that are gone. A copy leaves out tables
// of the app and its host.
func LeavesOut(id ledger.ScanID, r scans.Request, err error) bool {
	if !id.IsMember() {
		return false
	}
	return r.Exports() && errors.As(err, new(*GoneError)) || r.Action.Type == scans.Copy && errors.As(err, new(*scans.OwnError))
}

// noteOf returns the text what, followed by the names of the scans' tables, or "" if there are no scans.
func noteOf(what string, out []ledger.Scan) string {
	if len(out) == 0 {
		return ""
	}
	var names []string
	for i, m := range out {
		if i == namedMembers {
			names = append(names, fmt.Sprintf("and %d more", len(out)-i))
			break
		}
		r, _ := scans.RequestOf(m) // it was read before
		names = append(names, cmp.Or(r.Source.Table, path.Base(r.Source.Prefix)))
	}
	return what + ": " + strings.Join(names, ", ")
}
