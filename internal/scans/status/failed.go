package status

import (
	"cmp"
	"context"
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// FailedRows is a page of a scan's failed rows.
type FailedRows struct {
	Rows   []scans.FailedRow `json:"rows"`
	Total  int64             `json:"total"` // failed rows; in a comparison, also rows that differ
	Kept   int64             `json:"kept"`  // listed rows: the first thousand of each step
	Cursor string            `json:"cursor,omitempty"`
	// Groups describes the listed rows (see Kept) of the newest groupSteps steps, grouped by the code in their reasons. The
	// largest group comes first. Only the first page has groups.
	Groups  []FailedGroup `json:"groups,omitempty"`
	Grouped int64         `json:"grouped,omitempty"` // the rows in groups
}

// FailedGroup describes failed rows whose reasons have the same code.
type FailedGroup struct {
	Code  string            `json:"code"` // the service's code; without a code, the whole reason
	Count int64             `json:"count"`
	First []scans.FailedRow `json:"first"` // up to firstRows of these rows: those that come first in the list of failed rows
}

// groupSteps is the number of steps whose failed rows are grouped. One query reads the failed rows of ten steps, so ten
// queries are enough.
const groupSteps = 100

// An answer has at most maxGroups groups, each with at most firstRows rows.
const maxGroups, firstRows = 50, 5

// Failed returns at most top failed rows of a scan. Rows of the newest steps come first. The cursor comes from an
// earlier answer, or is "" for the first page.
func (rd *Reader) Failed(ctx context.Context, id ledger.ScanID, top int, cursor string) (FailedRows, error) {
	found, err := rd.detail(ctx, id)
	if err != nil {
		return FailedRows{}, err
	}
	f := FailedRows{Rows: []scans.FailedRow{}, Total: max(0, found.Sums.Failed+found.Sums.Differences()), Kept: max(0, found.Sums.Kept)}
	position, listed, err := parseFailedCursor(cursor)
	if err != nil {
		return f, err
	}
	groups, left := map[string]*FailedGroup{}, 0
	if cursor == "" {
		left = groupSteps
	}
	full := false
	err = rd.ledger.FailedRows(ctx, id, position, func(at string, packed []byte) bool {
		listing, _ := scans.ParseFailed(packed)
		rows := listing.Rows
		from := 0
		if at == position {
			from = min(listed, len(rows))
		}
		if !full {
			n := min(len(rows)-from, top-len(f.Rows))
			f.Rows = append(f.Rows, rows[from:from+n]...)
			f.Cursor = failedCursor(at, from+n)
			full = len(f.Rows) == top
		}
		if left > 0 {
			left--
			f.Grouped += int64(len(rows))
			group(groups, rows)
		}
		return !full || left > 0
	})
	if err != nil {
		return f, err
	}
	if !full {
		f.Cursor = ""
	}
	for _, g := range groups {
		f.Groups = append(f.Groups, *g)
	}
	slices.SortFunc(f.Groups, func(a, b FailedGroup) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code)) })
	f.Groups = f.Groups[:min(len(f.Groups), maxGroups)]
	return f, nil
}

func group(groups map[string]*FailedGroup, rows []scans.FailedRow) {
	for _, row := range rows {
		code := codeOf(row.Reason)
		g := groups[code]
		if g == nil {
			g = &FailedGroup{Code: code}
			groups[code] = g
		}
		if g.Count++; len(g.First) < firstRows {
			g.First = append(g.First, row)
		}
	}
}

// serviceCode finds a service's code in a reason. The code is before the service's message.
var serviceCode = regexp.MustCompile(`(?:^|: )([A-Z][A-Za-z]+): `)

func codeOf(reason string) string {
	if m := serviceCode.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	return reason
}

// failedCursor returns a cursor. It contains the position of the step whose row was listed last, and the number of
// listed rows of this step.
func failedCursor(position string, listed int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(position + " " + strconv.Itoa(listed)))
}

func parseFailedCursor(cursor string) (position string, listed int, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	position, number, _ := strings.Cut(string(text), " ")
	if err == nil {
		if listed, err = strconv.Atoi(number); err == nil && listed >= 0 {
			return position, listed, nil
		}
	}
	return "", 0, foreignCursor()
}
