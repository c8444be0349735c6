package ledger

import (
	"context"
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// Hints are what one scan leaves for the next of the same table. They are opaque
// here. The latest ones of a table stand in the partition "hints" under a name
// that stands for the table; a scan keeps a copy of those it was started with, as
// they must not change under it.
const (
	hintsPartition = "hints"
	scanHintsRow   = "h"

	// MaxHints is the most bytes of hints there can be.
	MaxHints = 14 * dataPiece // a row takes 1 MiB
)

// SaveHints keeps hints under a name, in place of those that it has. There must not
// be more than MaxHints bytes.
func (l *Ledger) SaveHints(ctx context.Context, name string, hints []byte) error {
	row := dataRow(key.Key{Partition: hintsPartition, Row: name}, hints)
	if err := l.table.Write(ctx, storage.Op{Kind: storage.Replace, Entity: row}); err != nil {
		return fmt.Errorf("save hints: %w", err)
	}
	return nil
}

// SavedHints returns the hints kept under a name, nil if there are none, as
// there are for no name.
func (l *Ledger) SavedHints(ctx context.Context, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	return l.hints(ctx, key.Key{Partition: hintsPartition, Row: name})
}

// Hints returns the hints that the scan was created with, nil if there were none.
func (l *Ledger) Hints(ctx context.Context, id string) ([]byte, error) {
	return l.hints(ctx, key.Key{Partition: id, Row: scanHintsRow})
}

func (l *Ledger) hints(ctx context.Context, k key.Key) ([]byte, error) {
	e, _, err := l.table.Get(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("read hints: %w", err)
	}
	return dataOf(e), nil
}
