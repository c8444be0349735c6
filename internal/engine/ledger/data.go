package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// dataPiece is how many bytes of a long value one property has. The service's limit is 64 KiB.
const dataPiece = 60 << 10

// dataRow returns a row with a long value, cut into the Binary properties Data00, Data01, ….
func dataRow(k key.Key, data []byte) storage.Entity {
	e := storage.Entity{Key: k}
	for i := 0; i*dataPiece < len(data); i++ {
		piece := data[i*dataPiece : min(len(data), (i+1)*dataPiece)]
		e.Properties = append(e.Properties, storage.BinaryProperty(fmt.Sprintf("Data%02d", i), piece))
	}
	return e
}

func dataOf(e storage.Entity) []byte {
	var data []byte
	for i := range e.Properties {
		data = append(data, e.Bytes(fmt.Sprintf("Data%02d", i))...)
	}
	return data
}

// MaxFailed is the most bytes of [Done.FailedRows]. It leaves room for a step's children in the
// transaction.
const MaxFailed = 4 * dataPiece

// failedAtOnce is how many rows of FailedRows are read at once.
const failedAtOnce = 10

// FailedRows calls fn with the failed rows of each of the scan's steps, as [Done] had them, until
// fn returns false. The newest commits come first. Each step has a position in that order. FailedRows begins
// at the position from; if it is empty, with the first.
func (l *Ledger) FailedRows(ctx context.Context, id, from string, fn func(position string, failed []byte) bool) error {
	r := key.WithPrefix(id, failedPrefix)
	r.Low = &key.Bound{Key: failedPrefix + from}
	err := l.table.All(ctx, storage.Query{Range: r, Top: failedAtOnce}, func(p storage.Page) error {
		for _, e := range p.Entities {
			if !fn(strings.TrimPrefix(e.Key.Row, failedPrefix), dataOf(e)) {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read failed rows of scan %s: %w", id, err)
	}
	return nil
}

func failedKey(id, position string) key.Key {
	return key.Key{Partition: id, Row: failedPrefix + position}
}

// FailedAt returns the failed rows at a position. It reports false if there are none: they have been redone.
func (l *Ledger) FailedAt(ctx context.Context, id, position string) ([]byte, bool, error) {
	e, found, err := l.table.Get(ctx, failedKey(id, position))
	if err != nil {
		return nil, false, fmt.Errorf("read failed rows of scan %s: %w", id, err)
	}
	return dataOf(e), found, nil
}

// FailedBefore returns positions of rows that failed before an attempt, behind a position: at least n, if there are so many.
// last is the last position that was looked at, empty at the end.
func (l *Ledger) FailedBefore(ctx context.Context, id, behind string, attempt int64, n int) (positions []string, last string, err error) {
	r := key.WithPrefix(id, failedPrefix)
	r.Low = &key.Bound{Key: failedPrefix + behind, Open: behind != ""}
	err = l.table.All(ctx, storage.Query{Range: r, Select: []string{"Attempt"}, Top: n}, func(p storage.Page) error {
		for _, e := range p.Entities {
			last = strings.TrimPrefix(e.Key.Row, failedPrefix)
			if e.Int("Attempt") < attempt {
				positions = append(positions, last)
			}
		}
		if p.Next != nil && len(positions) > 0 {
			return errEnough
		}
		return nil
	})
	if err == nil {
		return positions, "", nil
	}
	if !errors.Is(err, errEnough) {
		return nil, "", fmt.Errorf("read failed rows of scan %s: %w", id, err)
	}
	return positions, last, nil
}

// firstFailed returns one of the scan's failed rows, with its reason.
func (l *Ledger) firstFailed(ctx context.Context, id string) (first string, err error) {
	err = l.table.All(ctx, storage.Query{Range: key.WithPrefix(id, failedPrefix), Select: []string{"First"}, Top: 1}, func(p storage.Page) error {
		for _, e := range p.Entities {
			first = e.Get("First")
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return "", fmt.Errorf("read failed rows of scan %s: %w", id, err)
	}
	return first, nil
}

// MaxFile is the most bytes of [Done.File]. A row's limit is 1 MiB.
const MaxFile = 14 * dataPiece

// Files calls fn with [Done.File] of each done step that has one. No more can come once no step is pending.
func (l *Ledger) Files(ctx context.Context, id string, fn func(file []byte) error) error {
	return l.table.All(ctx, storage.Query{Range: key.WithPrefix(id, filePrefix)}, func(p storage.Page) error {
		for _, e := range p.Entities {
			if err := fn(dataOf(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

// errEnough ends a listing early.
var errEnough = errors.New("enough")
