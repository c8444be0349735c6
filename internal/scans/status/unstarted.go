package status

import (
	"context"
	"errors"

	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
)

// unstartedStatus returns the status of a group's member that was refused. Of other scans that do not exist, the error says whether they were
// asked for.
func (rd *Reader) unstartedStatus(ctx context.Context, id ledger.ScanID) (Status, error) {
	if id.IsMember() {
		m, found, err := rd.ledger.Member(ctx, id)
		if err != nil {
			return Status{}, err
		}
		if found && m.Summarized {
			return rd.summarized(m)
		}
	}
	a, found, err := rd.ledger.StartRequest(ctx, id)
	switch {
	case err != nil:
		return Status{}, err
	case !found || a.Kind.Retry():
		return Status{}, NotFound(id, ledger.ErrNotFound)
	case a.Refused != "":
		return Status{}, problem.NotFoundf("id", "the scan %s was not started: %s", id, a.Refused)
	}
	return Status{}, problem.NotFoundf("id", "the scan %s is about to start; ask again in a minute", id)
}

// addRetry adds to the status of a scan that was canceled or has failed whether a retry was requested, and why that was refused.
func (rd *Reader) addRetry(ctx context.Context, st *Status) error {
	if st.State != ledger.Canceled && st.State != ledger.Failed {
		return nil
	}
	a, found, err := rd.ledger.StartRequest(ctx, st.ID)
	switch {
	case err != nil || !found || !a.Kind.Retry() || a.Attempt != st.attempt:
		return err
	case a.Refused != "":
		st.add("its retry was refused: " + a.Refused)
	default:
		st.add("its retry is about to start")
	}
	return nil
}

// ExplainAbsent turns the ledger's error for a missing scan into one that says whether there is a start request for it, and whether that was
// refused. It is for calls that change a scan. Other errors, and nil, stay as they are.
func (rd *Reader) ExplainAbsent(ctx context.Context, id ledger.ScanID, err error) error {
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	s, err := rd.unstartedStatus(ctx, id)
	if err != nil {
		return err
	}
	if s.LeftOut {
		return problem.Conflictf("id", "%s", WithoutTable)
	}
	return problem.Conflictf("id", "the scan was not started; retry its group when that has ended")
}

// WithoutTable is why a scan that is left out can't be retried.
const WithoutTable = "its table is gone, and its group does without it; start a new scan"

// NotFound turns the ledger's error for a missing scan into [problem.NotFound].
func NotFound(id ledger.ScanID, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return problem.NotFoundf("id", "there is no scan %s", secret.Name(string(id)))
	}
	return err
}
