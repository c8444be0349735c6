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

// If a table is deleted during the export of its group, the group leaves the table out, and names it in the group's note. The table's scan fails
// permanently, and its exported blobs are deleted. The claim is deleted first, so that a reader of the group's export does not find the table. A
// late process may write another blob afterwards. Maintain deletes this blob a day later, unless the whole backup was removed before.

// GoneError means that a source's table does not exist.
type GoneError struct{ error }

func (g *GoneError) Unwrap() error { return g.error }

// Gone returns err as the error of a table that does not exist.
func Gone(err error) error { return &GoneError{err} }

// LeavesOut reports whether a group leaves out a scan that has failed with this error. An export leaves out tables that are gone. A copy leaves out tables
// of the app and its host.
func LeavesOut(id ledger.ScanID, r scans.Request, err error) bool {
	if !id.IsMember() {
		return false
	}
	return r.Exports() && errors.As(err, new(*GoneError)) || r.Action.Type == scans.Copy && errors.As(err, new(*scans.OwnError))
}

// noteOf returns the given text, followed by the names of the scans' tables, or "" if there are no scans.
func noteOf(text string, out []ledger.Scan) string {
	if len(out) == 0 {
		return ""
	}
	var names []string
	for i, m := range out {
		if i == namedMembers {
			names = append(names, fmt.Sprintf("and %d more", len(out)-i))
			break
		}
		r, _ := scans.RequestOf(m) // never fails, because the request was read before
		names = append(names, cmp.Or(r.Source.Table, path.Base(r.Source.Prefix)))
	}
	return text + ": " + strings.Join(names, ", ")
}
