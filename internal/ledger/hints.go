package ledger

import (
	"context"
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

// Hints are what one scan leaves for the next of the same table. They are opaque
// here. The latest ones of a table stand in the partition "hints" under a name
// that stands for the table; a scan keeps a copy of those it was started with, as
// they must not change under it. Their bytes are cut into the Binary properties
// Data00, Data01, … of one row.
const (
	hintsPartition = "hints"
	scanHintsRow   = "h"
	hintsPiece     = 60 << 10 // a property takes 64 KiB

	// MaxHints is the most bytes of hints there can be.
	MaxHints = 14 * hintsPiece // a row takes 1 MiB
)

func hintsRow(k key.Key, hints []byte) storage.Entity {
	e := storage.Entity{Key: k}
	for i := 0; i*hintsPiece < len(hints); i++ {
		piece := hints[i*hintsPiece : min(len(hints), (i+1)*hintsPiece)]
		e.Properties = append(e.Properties, storage.BinaryProperty(fmt.Sprintf("Data%02d", i), piece))
	}
	return e
}

// SaveHints keeps hints under a name, in place of those that it has. There must not
// be more than MaxHints bytes.
func (l *Ledger) SaveHints(ctx context.Context, name string, hints []byte) error {
	row := hintsRow(key.Key{Partition: hintsPartition, Row: name}, hints)
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
	var hints []byte
	for i := range e.Properties {
		hints = append(hints, e.Bytes(fmt.Sprintf("Data%02d", i))...)
	}
	return hints, nil
}

// Notes calls fn with the note of each of the scan's done steps that left one.
func (l *Ledger) Notes(ctx context.Context, id string, fn func(note []byte)) error {
	q := storage.Query{Range: scan.WithPrefix(id, donePrefix), Select: []string{"Note"}}
	err := l.table.All(ctx, q, func(p storage.Page) error {
		for _, e := range p.Entities {
			if note := e.Bytes("Note"); note != nil {
				fn(note)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read notes of scan %s: %w", id, err)
	}
	return nil
}
