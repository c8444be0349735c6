package status

import (
	"context"
	"errors"

	"tablesweep/internal/scans/ledger"
)

// Differences counts the rows that differ in a comparison, by kind.
type Differences struct {
	Missing   int64 `json:"missing"`   // only the source has them
	Extra     int64 `json:"extra"`     // only the destination has them
	Different int64 `json:"different"` // the content differs
	// If the request sets proof, Tables counts the tables that are no longer in the source. Otherwise, such a table is
	// an error.
	Tables int64 `json:"tables,omitempty"`
}

// Verification is the outcome of a copy's verification.
type Verification struct {
	ID    ledger.ScanID `json:"id"`
	State ledger.State  `json:"state,omitempty"` // absent until the scan is started
	Error string        `json:"error,omitempty"`
}

func (rd *Reader) addVerification(ctx context.Context, st *Status) error {
	if !st.Verify || st.State != ledger.Succeeded {
		return nil
	}
	v := Verification{ID: st.ID.Verification()}
	s, err := rd.ledger.Scan(ctx, v.ID)
	if v.State, v.Error = s.State, s.Error; errors.Is(err, ledger.ErrNotFound) {
		var a ledger.StartRequest
		a, _, err = rd.ledger.StartRequest(ctx, v.ID)
		v.Error = a.Refused
	}
	st.Verification = &v
	return err
}
