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

// maxFailedRows is how many failed rows a step keeps. It keeps fewer if they are too long.
const maxFailedRows = 1000

// KeptRows is what a step keeps of its failed rows, to show them and to do them again.
type KeptRows struct {
	Rows   []FailedRow    `json:"rows"`   // the first of them
	Failed int64          `json:"failed"` // all of them
	Pages  []ReadPage     `json:"pages"`  // that have them
	Ends   []scan.PageEnd `json:"ends"`   // of pages, as the step's note blames them
}

// packFailed returns the stored form of what is kept, with failed rows, and how many of them it lists.
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

// KeepFailed has the ledger keep the failed rows of a step.
func KeepFailed(done *ledger.Done, failed []action.Failure, r KeptRows) {
	done.FailedRows, done.Kept = packFailed(failed, r)
	if len(failed) > 0 {
		done.FirstFailed = failed[0].String()
	}
}

// ParseFailed reads what packFailed returned. A form that this version does not know has no rows.
func ParseFailed(packed []byte) (KeptRows, error) {
	var r KeptRows
	text, err := Unpack(packed)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}
