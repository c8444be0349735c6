package step

import (
	"context"
	"slices"
	"time"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// If a step deleted rows and died before its commit, the next delivery would count fewer rows. So the step first
// commits that it has read the rows. This commit adds a pending child: the deletion, whose message contains the pages and
// the number of their rows. The same invocation then deletes the rows, and commits the deletion with the number of rows
// that the step has read. If the invocation dies before it commits the deletion, the next delivery of the step's message
// finds the step done, and continues with the deletion. The delivery can find the deletion in the ledger, because the
// deletion's id is a hash of the step's id. Maintain or a retry of the scan can also continue the deletion: they send the
// deletion's message.

// pagesToDelete collects the pages that a step reads, so that the step's deletion can delete their rows. The JSON of
// these pages must fit into a message.
type pagesToDelete struct {
	written
	bytes int // of their JSON
}

func (*pagesToDelete) parallel() bool { return false }

func (d *pagesToDelete) add(_ context.Context, of scan.Step, _ time.Time, rows []storage.Row) ([]storage.Row, error) {
	if len(rows) > 0 {
		d.bytes += len(scans.JSON(scans.ReadPage{Range: of.Range, Token: of.Token, Last: rows[len(rows)-1].Key, Rows: int64(len(rows))}))
	}
	return rows, nil
}

func (d *pagesToDelete) room(read int) int {
	if d.bytes > scans.MaxMessageBytes/3 { // the message may have no room for another page
		return -1
	}
	return d.written.room(read)
}

func (d *pagesToDelete) end(_ context.Context, _ *stepScan, m scans.Message, _ int, found *readResult, out *stepResult) error {
	rows := found.rows()
	out.done.Rows = int64(len(rows))
	found.count(d.written)
	if len(rows) > 0 {
		left := m.DeletionOf()
		left.Delete.Pages, left.Delete.Rows = found.pages, rows
		out.deletion = &left
	}
	return nil
}

// deleteStep is the message of a step that deletes the rows that an earlier step has read.
type deleteStep struct{ readStep }

func (s deleteStep) justCommitted() (ledger.Pending, bool) {
	p := s.Pending()
	p.FirstEnded = true // p is written only if the deletion fails
	return p, s.Delete.Rows != nil
}

func (deleteStep) absent(*scans.RunnableScan) *scans.Message { return nil }

// recorded reads the pending row, because the delivered message may contain only the id.
func (s deleteStep) recorded(p ledger.Pending) (scans.Message, error) {
	if s.Delete.Rows != nil {
		return s.Message, nil
	}
	return scans.ParseMessage(p.Message)
}

func (deleteStep) slots() int64 { return 0 }

func (deleteStep) overtaken(context.Context, *ledger.Ledger, *stepResult) error { return nil }

// do deletes the rows that a step has read. If another invocation read the rows, this invocation reads their pages
// again. A row that is missing from these pages counts as deleted, because an earlier delivery may have deleted it.
func (s deleteStep) do(ctx context.Context, o *stepScan, _ *ledger.Ledger, delivery int) (out stepResult, err error) {
	done, w := &out.done, written{Writing: o.Writes()}
	read, rows, noted := readResult{pages: s.Delete.Pages}, s.Delete.Rows, int64(0)
	for _, p := range read.pages {
		noted += p.Rows
		read.ends = append(read.ends, scan.PageEnd{Last: p.Last})
		if s.Delete.Rows != nil {
			continue
		}
		left, err := o.readAgain(ctx, p, &done.Queries)
		if err != nil {
			return out, scans.FatalIfPermanent("read the source", err)
		}
		rows = append(rows, left...)
	}
	failed, err := w.write(ctx, o, rows, delivery, &done.Totals)
	if err != nil {
		return out, err
	}
	done.Written = max(0, noted-done.Failed)
	read.countFailed(failed, false)
	scans.KeepFailed(done, failed, read.keptOf(failed, false))
	// done.Note lists only pages with failed rows, because the note of the step that read the rows lists the other pages.
	read.ends = slices.DeleteFunc(read.ends, func(e scan.PageEnd) bool { return e.Failed == 0 })
	done.Note = read.note()
	return out, nil
}
