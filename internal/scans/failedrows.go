package scans

import (
	"encoding/json"

	"tablesweep/internal/action"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
)

// FailedRow is a row that could not be written.
type FailedRow struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey"`
	Reason       string `json:"reason"`
}

// maxFailedRows is the maximum number of failed rows that are stored with a step. If the rows are long, fewer are
// stored.
const maxFailedRows = 1000

// KeptRows is the stored record of a step's failed rows. A status shows the rows, and a retry reads them again.
type KeptRows struct {
	Rows   []FailedRow    `json:"rows"`   // only the first ones if there are many
	Failed int64          `json:"failed"` // how many rows failed
	Pages  []ReadPage     `json:"pages"`  // the pages that may contain failed rows
	Ends   []scan.PageEnd `json:"ends"`   // the ends of the pages that contain failed rows, each with the page's number of failed rows
}

// packFailed adds the failed rows to r, and returns the form in which r is stored. If the rows are too many or too
// long, it adds only the first ones. The second result is the number of added rows.
func packFailed(failed []action.Failure, r KeptRows) (packed []byte, kept int64) {
	for most := maxFailedRows; len(failed) > 0; most /= 2 {
		r.Rows, r.Failed = make([]FailedRow, 0, min(len(failed), most)), int64(len(failed))
		for _, f := range failed[:min(len(failed), most)] {
			r.Rows = append(r.Rows, FailedRow{f.Key.Partition, f.Key.Row, Shortened(f.Reason)})
		}
		if packed = Pack(JSON(r)); len(packed) <= ledger.MaxFailed || most == 0 {
			return packed, int64(len(r.Rows))
		}
	}
	return nil, 0
}

// KeepFailed adds a step's failed rows to the step's commit.
func KeepFailed(done *ledger.Done, failed []action.Failure, r KeptRows) {
	done.FailedRows, done.Kept = packFailed(failed, r)
	if len(failed) > 0 {
		done.FirstFailed = failed[0].String()
	}
}

// ParseFailed reads the form that packFailed returns. For a form that this version does not know, it returns no rows.
func ParseFailed(packed []byte) (KeptRows, error) {
	var r KeptRows
	text, err := Unpack(packed)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}
