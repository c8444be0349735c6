package life

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// A step of a comparison reads its range in both places, and merges the rows in table order. So each row belongs to a
// step, even if only one of the places has the row. As in an export, pages are read one after another. If the pages of
// the two places end at different keys, the step keeps the rows after the earlier key in memory.

// requestVerification is called for a scan that is about to succeed. If the scan's request includes a verification,
// requestVerification makes the verification's start request.
func (l *Life) requestVerification(ctx context.Context, s ledger.Scan) error {
	r, err := scans.RequestOf(s)
	if err != nil || !r.Verify {
		return err
	}
	_, err = l.ledger.AddStartRequest(ctx, ledger.StartRequest{ID: s.ID.Verification(), Request: scans.JSON(verificationOf(r))})
	return err
}

// turn says whether a requested scan may start.
type turn int

const (
	starts  turn = iota
	waits        // the scan that it verifies is running
	dropped      // it never starts, because the scan that it verifies did not succeed
)

func (l *Life) turnOf(ctx context.Context, id ledger.ScanID) (turn, error) {
	of, ok := id.Verifies()
	if !ok {
		return starts, nil
	}
	s, err := l.ledger.Scan(ctx, of)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return starts, nil
	case err != nil || s.State == ledger.Running:
		return waits, err
	case s.State == ledger.Succeeded:
		return starts, nil
	}
	return dropped, nil
}

// endingOf returns the ending of a scan whose steps are done. A comparison fails if there are differences, or if the
// comparison has counted all rows of an export, and the manifest says another number. If Action.Proof is set, differences
// are allowed, because the source may have changed since the export.
func (l *Life) endingOf(ctx context.Context, s ledger.Listed) (as ledger.Ending, err error) {
	as.State = ledger.Succeeded
	r, err := scans.ParseStored(s.Request)
	if err != nil || r.Action.Type != scans.Verify {
		return as, err
	}
	o, err := l.scans.Open(r)
	if err != nil {
		return as, scans.FatalIfOwn(err)
	}
	t := s.Totals
	for _, side := range []struct {
		source storage.Source
		rows   int64
		known  bool
	}{{o.Source, t.Rows, true}, {o.Other, t.Rows - t.Missing + t.Extra, !r.Action.AllowExtra}} {
		x, ok := side.source.(*scans.Export)
		if !ok || !side.known {
			continue
		}
		content, err := x.Open(ctx)
		if err != nil {
			return as, err
		}
		if m := content.Manifest(); readsWhole(m, r) && m.Rows != side.rows {
			return differing("%s has %s, but its manifest says %d", x.Address(), problem.Plural(side.rows, "row"), m.Rows), nil
		}
	}
	if r.Action.Proof {
		if t.Rows == 0 || t.Extra > 0 {
			as.NoTable, as.Note, err = missingTable(ctx, o)
		}
		return as, err
	}
	if t.Differences() == 0 {
		return as, nil
	}
	first := ""
	err = l.ledger.FailedRows(ctx, s.ID, "", func(_ string, packed []byte) bool {
		if kept, err := scans.ParseFailed(packed); err == nil && len(kept.Rows) > 0 {
			row := kept.Rows[0]
			first = "; one of them: " + action.Failure{Key: key.Key{Partition: row.PartitionKey, Row: row.RowKey}, Reason: row.Reason}.String()
		}
		return first == ""
	})
	return differing("missing rows: %d, extra: %d, different: %d%s", t.Missing, t.Extra, t.Different, first), err
}

func differing(format string, args ...any) ledger.Ending {
	return ledger.Ending{State: ledger.Failed, Error: scans.Shortened(fmt.Sprintf(format, args...))}
}

// missingTable returns 1 and a note if the source is a table that no longer exists. For such a table, [storage.OrEmpty]
// returns no rows.
func missingTable(ctx context.Context, o *scans.RunnableScan) (tables int64, note string, err error) {
	if o.Table() == nil {
		return 0, "", nil
	}
	_, _, err = o.Source.Read(ctx, storage.RequestOptions{}, storage.Query{Top: 1})
	if storage.Gone(err) {
		return 1, "the source no longer has the table", nil
	}
	return 0, "", err
}

// readsWhole reports whether a request reads all rows of an export.
func readsWhole(m place.Manifest, r scans.Request) bool {
	limited := r.Range != key.Bounds{} && (m.Range == nil || *m.Range != r.Range)
	return !limited && (r.Filter == "" || r.Filter == m.Filter)
}
