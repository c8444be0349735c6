package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
)

// FailedRow is a row that could not be written.
type FailedRow struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey"`
	Reason       string `json:"reason"`
}

// FailedRows is a page of a scan's failed rows.
type FailedRows struct {
	Rows   []FailedRow `json:"rows"`
	Total  int64       `json:"total"` // failed rows of the scan
	Kept   int64       `json:"kept"`  // failed rows that are listed; each step keeps its first thousand
	Cursor string      `json:"cursor,omitempty"`
}

// maxFailedRows is how many failed rows a step keeps. It keeps fewer if they are too long.
const maxFailedRows = 1000

// Failed returns up to top failed rows of a scan. The steps that ended last come first. cursor
// comes from an earlier answer; an empty one starts at the beginning.
func (e *Engine) Failed(ctx context.Context, id string, top int, cursor string) (FailedRows, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return FailedRows{}, err
	}
	f := FailedRows{Rows: []FailedRow{}, Total: found.Sums.Failed, Kept: found.Sums.Kept}
	position, listed, err := parseFailedCursor(cursor)
	if err != nil {
		return f, err
	}
	err = e.ledger.Refused(ctx, id, position, func(at string, refused []byte) bool {
		rows := parseRefused(refused)
		from := 0
		if at == position {
			from = min(listed, len(rows))
		}
		n := min(len(rows)-from, top-len(f.Rows))
		f.Rows = append(f.Rows, rows[from:from+n]...)
		f.Cursor = failedCursor(at, from+n)
		return len(f.Rows) < top
	})
	if err != nil {
		return f, err
	}
	if len(f.Rows) < top {
		f.Cursor = ""
	}
	return f, nil
}

// failedCursor names the last step that was listed, and how many of its rows were.
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
	return "", 0, problem.Invalidf("cursor", "does not come from an answer of this call; leave it out to start from the beginning")
}

// packRefused returns what a step keeps of its failed rows, and how many rows that is.
func packRefused(failed []action.Failure) (packed []byte, kept int) {
	for most := maxFailedRows; len(failed) > 0; most /= 2 {
		rows := make([]FailedRow, 0, min(len(failed), most))
		for _, f := range failed[:min(len(failed), most)] {
			rows = append(rows, FailedRow{f.Key.Partition, f.Key.Row, shortened(f.Reason)})
		}
		if packed = pack(jsonOf(rows)); len(packed) <= ledger.MaxRefused {
			return packed, len(rows)
		}
	}
	return nil, 0
}

func parseRefused(packed []byte) []FailedRow {
	var rows []FailedRow
	text, err := unpack(packed)
	if err != nil || json.Unmarshal(text, &rows) != nil {
		return nil // this version does not know the form
	}
	return rows
}
