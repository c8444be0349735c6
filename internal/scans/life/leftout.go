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

// Tables that are deleted while a group exports the others. The group leaves such a table out, and names it. Its scan has failed for good: what it
// has exported is deleted, its claim first, because whoever reads the export of the group must not meet it. A late process may put something there
// afterwards. Maintain deletes that a day later, and so does the removal of the backup.

// GoneError is the error of a source's table that is not there.
type GoneError struct{ error }

func (g *GoneError) Unwrap() error { return g.error }

// Gone returns the error of a table that is not there.
func Gone(err error) error { return &GoneError{err} }

// LeavesOut reports whether an error of a scan has its group go on without it: an export without a table that is gone, a copy without those that
// the app keeps for itself.
func LeavesOut(id ledger.ScanID, r scans.Request, err error) bool {
	if !id.IsMember() {
		return false
	}
	return r.Exports() && errors.As(err, new(*GoneError)) || r.Action.Type == scans.Copy && errors.As(err, new(*scans.OwnError))
}

// noteOf names the tables of scans, if there are any, behind what is to be said of them.
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
