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

// If a table is deleted during its group's export, the group leaves the table out, and names the table in its note. The
// table's scan fails permanently, and its exported blobs are deleted. The claim of the table's export is deleted before
// the blobs, so readers of the group's export do not find this table. If a process writes a further blob after that,
// Maintain deletes this blob a day later.

// GoneError means that a source's table does not exist.
type GoneError struct{ error }

func (g *GoneError) Unwrap() error { return g.error }

// Gone returns err as a [GoneError].
func Gone(err error) error { return &GoneError{err} }

// LeavesOut reports whether a group leaves out a scan that has failed with err. An export leaves out tables that are
// gone. A copy leaves out tables of the app and its host.
func LeavesOut(id ledger.ScanID, r scans.Request, err error) bool {
	if !id.IsMember() {
		return false
	}
	return r.Exports() && errors.As(err, new(*GoneError)) || r.Action.Type == scans.Copy && errors.As(err, new(*scans.OwnError))
}

// noteOf returns the text, followed by the names of the scans' tables. If there are no scans, noteOf returns "".
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
		r, _ := scans.RequestOf(m) // no error, because the request was read before
		names = append(names, cmp.Or(r.Source.Table, path.Base(r.Source.Prefix)))
	}
	return text + ": " + strings.Join(names, ", ")
}
