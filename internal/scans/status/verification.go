package status

import (
	"context"
	"errors"

	"tablesweep/internal/scans/ledger"
)

// Differences is the number of rows that differ between the places of a comparison, by kind.
type Differences struct {
	Missing   int64 `json:"missing"`   // rows that only the source has
	Extra     int64 `json:"extra"`     // rows that only the destination has
	Different int64 `json:"different"` // rows with different content in the two places
	// Tables is the number of tables that are no longer in the source. Only a verification of an export continues without them.
	Tables int64 `json:"tables,omitempty"`
}

// Verification is the outcome of the scan that verifies a copy.
type Verification struct {
	ID    ledger.ScanID `json:"id"`
	State ledger.State  `json:"state,omitempty"` // absent until the scan is started
	Error string        `json:"error,omitempty"`
}

// addVerification adds the outcome of the scan that verifies a copy to the copy's status.
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
