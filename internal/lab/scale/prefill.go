package scale

import (
	"fmt"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

const (
	// prefillRows is how many rows each of the done steps has read: four full pages.
	prefillRows = 4000
	// prefillFold is how many done steps are folded at once, as by the engine.
	prefillFold = 48
)

// prefill records that steps before the scan's first one have read the table's first
// rows. It commits them one after the other. Each is the parent of the next, and the last is the parent of the
// scan's first step. It folds them as the engine does. So the ledger looks as if the scan had done these steps.
func (c *cloud) prefill(id string) error {
	a, err := storage.Open(c.own.connection, storage.Options{Transport: c.own.transport, TryTimeout: -1})
	if err != nil {
		return err
	}
	t := a.Table(stateTable)
	l := ledger.New(t)
	first, err := l.FirstPending(c.over, id)
	if err != nil {
		return err
	}
	if len(first) != 1 {
		return fmt.Errorf("%d steps are pending at the scan's start", len(first))
	}
	steps := (c.options.Done + prefillRows - 1) / prefillRows
	// The child of the scan's own done row is now the first of these steps.
	err = t.Write(c.over,
		storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: id, Row: "p|" + first[0].ID}}},
		storage.Op{Kind: storage.Insert, Entity: storage.Entity{Key: key.Key{Partition: id, Row: "p|" + prefillStep(0)}}})
	if err != nil {
		return fmt.Errorf("prefill the ledger: %w", err)
	}
	for i := range steps {
		child := ledger.Pending{ID: prefillStep(i + 1), Message: first[0].Message}
		if i == steps-1 {
			child = ledger.Pending{ID: first[0].ID, Message: first[0].Message}
		}
		rows := min(prefillRows, c.options.Done-i*prefillRows)
		done := ledger.Done{Totals: ledger.Totals{Rows: rows, Queries: 4, Transactions: 10}}
		if _, err := l.Commit(c.over, id, prefillStep(i), time.Now(), done, []ledger.Pending{child}); err != nil {
			return err
		}
		for n, level := i+1, 0; n%prefillFold == 0 && level < ledger.MaxLevel; n, level = n/prefillFold, level+1 {
			if _, err := l.Fold(c.over, id, level, 2, func([][]byte) []byte { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

func prefillStep(n int64) string { return fmt.Sprintf("prefilled-%012d", n) }
