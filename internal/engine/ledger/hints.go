package ledger

import (
	"context"

	"tablesweep/internal/storage"
)

// A scan leaves hints for the next scan of the same rows. They are opaque here. The latest hints stand in the partition
// "hints", under a name that identifies the rows. A scan keeps a copy of the hints it was started with: they must not
// change while it runs.
const (
	hintsPartition = "hints"
	scanHintsRow   = "h"

	// MaxHints is the most bytes of hints. A row's limit is 1 MiB.
	MaxHints = 14 * dataPiece
)

// SaveHints replaces the hints under a name. They must not exceed MaxHints bytes.
func (l *Ledger) SaveHints(ctx context.Context, name string, hints []byte) error {
	return l.write(ctx, "save hints", op(storage.Replace, hintsPartition, name, dataProperties(hints)...))
}

// SavedHints returns the hints under a name, nil if there are none. The empty name has none.
func (l *Ledger) SavedHints(ctx context.Context, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	return l.hints(ctx, hintsPartition, name)
}

// Hints returns the hints that the scan was created with, nil if there were none.
func (l *Ledger) Hints(ctx context.Context, id string) ([]byte, error) {
	return l.hints(ctx, id, scanHintsRow)
}

func (l *Ledger) hints(ctx context.Context, partition, row string) ([]byte, error) {
	e, _, err := l.get(ctx, "read hints", partition, row)
	return dataOf(e), err
}
