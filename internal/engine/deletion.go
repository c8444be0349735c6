package engine

import (
	"context"
	"slices"

	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

// Deletions. If a step deleted rows before its reading is committed, and died, the next delivery would count others. So it
// first commits what it has read, and leaves the deletion as a pending child, with the pages and the number of their
// rows. The same invocation then deletes them, without a message, and commits that number. If it dies, the next delivery
// finds the step done, and goes on with the deletion, whose id follows from the step's. Maintain and a retry send it, too.

// deletion is what a step has read and left to be deleted.
type deletion struct {
	Of    string     `json:"of"` // the step's id
	Pages []readPage `json:"pages,omitempty"`

	rows []storage.Entity // of the pages, if this invocation has read them
}

func deletionID(step string) string { return stepID([]byte("delete what was read by " + step)) }

// deletionOf returns the message for the deletion of what m's step has read, without the pages, which the ledger has.
func (m message) deletionOf() message {
	return message{Scan: m.Scan, Delete: &deletion{Of: m.id}, id: deletionID(m.id)}
}

// leaveDeletion returns the message for the deletion of what m's step has read; nil if that is nothing.
func (s *yield) leaveDeletion(m message, rows []storage.Entity) *message {
	if len(rows) == 0 {
		return nil
	}
	left := m.deletionOf()
	left.Delete.Pages, left.Delete.rows = s.pages, rows
	return &left
}

// delete deletes what a step has read. If another invocation has read it, the pages are read again: deliveries that died have deleted the
// rows that are gone. All rows count as deleted, except failed ones.
func (o *opened) delete(ctx context.Context, m message, delivery int) (out outcome, err error) {
	done := &out.done
	read, rows, noted := yield{pages: m.Delete.Pages}, m.Delete.rows, int64(0)
	for _, p := range read.pages {
		noted += p.Rows
		read.ends = append(read.ends, adaptive.PageEnd{Last: p.Last})
		if m.Delete.rows != nil {
			continue
		}
		left, err := o.readAgain(ctx, p, &done.Queries)
		if err != nil {
			return out, fatalIfPermanent("read the source", err)
		}
		rows = append(rows, left...)
	}
	failed, err := o.write(ctx, rows, delivery, &done.Totals)
	if err != nil {
		return out, err
	}
	done.Written = max(0, noted-done.Failed)
	read.blame(failed, false)
	keepFailed(done, failed, read.keptOf(failed, false))
	read.ends = slices.DeleteFunc(read.ends, func(e adaptive.PageEnd) bool { return e.Failed == 0 }) // the step has noted the pages
	done.Note = read.note()
	return out, nil
}
