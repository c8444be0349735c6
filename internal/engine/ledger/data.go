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

// MaxRefused is the most bytes of [Done.Refused]. It leaves room for a step's children in the
// transaction.
const MaxRefused = 4 * dataPiece

// refusedRows is how many rows of Refused are read at once.
const refusedRows = 10

// Refused calls fn with the refused rows of each of the scan's steps, as [Done] had them, until
// fn returns false. The newest commits come first. Each step has a position in that order. Refused begins
// at the position from; if it is empty, with the first.
func (l *Ledger) Refused(ctx context.Context, id, from string, fn func(position string, refused []byte) bool) error {
	r := key.WithPrefix(id, refusedPrefix)
	r.Low = &key.Bound{Key: refusedPrefix + from}
	err := l.table.All(ctx, storage.Query{Range: r, Top: refusedRows}, func(p storage.Page) error {
		for _, e := range p.Entities {
			if !fn(strings.TrimPrefix(e.Key.Row, refusedPrefix), dataOf(e)) {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read refused rows of scan %s: %w", id, err)
	}
	return nil
}

// errEnough ends a listing early.
var errEnough = errors.New("enough")
