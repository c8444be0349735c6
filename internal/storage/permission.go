package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"tablesweep/internal/key"
)

// MayWrite asks whether rows of the table may be written, and changes nothing: it
// updates a row that can't exist, on a condition that can't hold. exists is false if
// there is no such table. An error means that it is not allowed, or that nobody answered.
func (t *Table) MayWrite(ctx context.Context) (exists bool, err error) {
	nowhere := key.Key{Partition: "tablesweep-" + rand.Text(), Row: rand.Text()}
	err = t.Write(ctx, Op{Kind: Merge, Entity: Entity{Key: nowhere}, IfMatch: `W/"datetime'1601-01-01T00%3A00%3A00Z'"`})
	var refusal *Error
	switch {
	case HasCode(err, "TableNotFound"):
		return false, nil
	case errors.As(err, &refusal) && (refusal.Status == http.StatusNotFound || refusal.Status == http.StatusPreconditionFailed):
		return true, nil
	}
	return true, err
}
