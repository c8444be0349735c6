package status

import (
	"context"
	"errors"

	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
)

// unstartedStatus returns the status of a scan that the ledger does not contain. If the scan is a member whose start was
// refused, unstartedStatus returns the member's status from the group's list. For any other scan, it returns an error
// that says whether there is a start request.
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
	return Status{}, problem.NotFoundf("id", "the scan %s is about to start; repeat the request in a minute", id)
}

// addRetry adds a note about a requested or refused retry to the status of a canceled or failed scan.
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

// ExplainAbsent replaces the ledger's error for a missing scan. The new error says whether the scan has a start
// request, and whether this request was refused. ExplainAbsent returns other errors and nil unchanged.
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
	return problem.Conflictf("id", "the scan was not started; retry its group after the group has ended")
}

// If a group has left a scan out, a retry of the scan is refused with the reason WithoutTable.
const WithoutTable = "the scan's table is gone, and its group continues without this table; start a new scan"

// NotFound replaces the ledger's error for a missing scan by a [problem.NotFound].
func NotFound(id ledger.ScanID, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return problem.NotFoundf("id", "there is no scan %s", secret.Name(string(id)))
	}
	return err
}
