package engine

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"tablesweep/internal/scans/ledger"
)

// Tables that are deleted while a group exports the others. The group leaves such a table out, and names it. Its scan has failed for good: what it
// has exported is deleted, its claim first, because whoever reads the export of the group must not meet it. A late process may put something there
// afterwards. Maintain deletes that a day later, and so does the removal of the backup.

// goneError is the error of a source's table that is not there.
type goneError struct{ error }

func (g *goneError) Unwrap() error { return g.error }

// gone returns the error of a table that is not there.
func gone(err error) error { return &goneError{err} }

// leavesOut reports whether an error of a scan has its group go on without it: an export without a table that is gone, a copy without those that
// the app keeps for itself.
func leavesOut(id string, r Request, err error) bool {
	if _, _, member := ledger.MemberOf(id); !member {
		return false
	}
	return r.exports() && errors.As(err, new(*goneError)) || r.Action.Type == Copy && errors.As(err, new(*ownError))
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
		r, _ := requestOf(m) // it was read before
		names = append(names, cmp.Or(r.Source.Table, path.Base(r.Source.Prefix)))
	}
	return what + ": " + strings.Join(names, ", ")
}
