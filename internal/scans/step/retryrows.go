package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// retryPositions is how many positions of failed rows a step reads. For each position, the step creates another step.
const retryPositions = 50

type retryStep struct{ readStep }

func (retryStep) absent(*scans.RunnableScan) *scans.Message { return nil }

func (s retryStep) do(ctx context.Context, o *stepScan, l *ledger.Ledger, delivery int) (out stepResult, err error) {
	if s.RowRetry.At == "" {
		out.children, err = retryEachRow(ctx, l, s.Message)
	} else {
		err = o.retryRows(ctx, l, s.Message, delivery, &out.done)
	}
	return out, err
}

// overtaken returns an error if the commit was refused although this step is still pending. In that case, another step has
// retried the failed rows.
func (s retryStep) overtaken(ctx context.Context, l *ledger.Ledger, out *stepResult) error {
	if out.done.Redone == "" {
		return nil
	}
	_, pending, err := l.Pending(ctx, s.Scan, s.ID)
	if err == nil && pending {
		err = errors.New("another step has already retried the failed rows")
	}
	return err
}

// retryEachRow finds the next positions of failed rows after m.RowRetry.Behind. For each position, it returns a message
// for a step that retries the rows there. If further positions may follow, retryEachRow also returns a message for a step
// that continues after the last position.
func retryEachRow(ctx context.Context, l *ledger.Ledger, m scans.Message) (children []scans.Message, err error) {
	a := *m.RowRetry
	positions, last, err := l.FailedBefore(ctx, m.Scan, a.Behind, a.Attempt, retryPositions)
	if err != nil {
		return nil, err
	}
	for _, at := range positions {
		children = append(children, scans.Message{Scan: m.Scan, RowRetry: &scans.RowRetry{Attempt: a.Attempt, At: at}})
	}
	if last != "" {
		children = append(children, scans.Message{Scan: m.Scan, RowRetry: &scans.RowRetry{Attempt: a.Attempt, Behind: last}})
	}
	return children, nil
}

// retryRows retries the failed rows at the position m.RowRetry.At, unless another step has retried them.
func (o *stepScan) retryRows(ctx context.Context, l *ledger.Ledger, m scans.Message, delivery int, done *ledger.Done) error {
	packed, found, err := l.FailedAt(ctx, m.Scan, m.RowRetry.At)
	if err != nil || !found {
		return err
	}
	was, err := scans.ParseFailed(packed)
	if err != nil {
		return scans.Fatal(fmt.Errorf("the failed rows at %s cannot be read: %w", m.RowRetry.At, err))
	}
	all := int64(len(was.Rows)) < was.Failed || o.Request.Action.Type == scans.Keys
	listed := map[key.Key]bool{}
	for _, row := range was.Rows {
		listed[key.Key{Partition: row.PartitionKey, Row: row.RowKey}] = true
	}
	var rows []storage.Row
	w := written{Writing: o.Writes()}
	of, mapped := w.Action.(action.Mapped)
	meant := 0          // retried rows that were found
	lacking := int64(0) // rows that are no longer on the pages
	for i, p := range was.Pages {
		read, err := o.readAgain(ctx, p, &done.Queries)
		if err != nil {
			return scans.FatalIfPermanent("read the source", err)
		}
		if has := w.count(read); has < p.Rows {
			lacking += p.Rows - has
			was.Pages[i].Rows = has // so that the next retry does not count the missing rows again
		}
		for _, row := range read {
			if all || listed[row.Key] {
				meant++
			} else if !mapped { // a map also needs the rows that are not retried, to find duplicate keys
				continue
			}
			rows = append(rows, row)
		}
	}
	if mapped && !all {
		of.Only = listed
		w.Action = of
	}
	failed, err := w.write(ctx, o, rows, delivery, &done.Totals)
	if err != nil {
		return err
	}
	switch {
	case o.Deletes(): // missing rows were deleted, perhaps by a delivery that died
		lacking = 0
	case !all:
		lacking = int64(len(was.Rows) - meant)
	}
	// If the list of failed rows is incomplete, the step retries whole pages, and the variable `lacking` also counts
	// missing rows that never failed. So Gone is limited to the number of failed rows that have not failed again.
	done.Gone = min(lacking, was.Failed-done.Failed)
	if all || o.Deletes() {
		done.Written = was.Failed - done.Failed - done.Gone
	}
	left := scans.KeptRows{Pages: was.Pages}
	ends := readResult{ends: slices.Clone(was.Ends)}
	for i := range ends.ends {
		ends.ends[i].Failed = 0
	}
	ends.countFailed(failed, false)
	for i, e := range ends.ends {
		if e.Failed > 0 {
			left.Ends = append(left.Ends, e)
		}
		ends.ends[i].Failed -= was.Ends[i].Failed
	}
	done.Note = ends.note()
	scans.KeepFailed(done, failed, left)
	done.Kept -= int64(len(was.Rows))
	done.Failed -= was.Failed
	done.Redone = m.RowRetry.At
	return nil
}

// readAgain reads the rows of a page that a step has processed. The rows may now fill several pages, because rows were
// added.
func (o *stepScan) readAgain(ctx context.Context, p scans.ReadPage, queries *int64) (rows []storage.Row, err error) {
	step, last := scan.Step{Range: p.Range, Token: p.Token}, key.Key{}
	for {
		page, err := o.readPage(ctx, step)
		if err != nil {
			return nil, err
		}
		*queries++
		for _, row := range page.Rows {
			if row.Key.Compare(p.Last) > 0 {
				return rows, nil
			}
			if last = row.Key; p.Partitions == nil || slices.Contains(p.Partitions, row.Key.Partition) {
				rows = append(rows, row)
			}
		}
		if page.Next == nil || last == p.Last {
			return rows, nil
		}
		step = step.Continue(*page.Next)
	}
}

// keptOf returns the pages from which failed rows were read, or all pages if `all` is true. The caller must set `all` if
// the failed rows do not have the keys of the source's rows, because their pages are unknown in that case.
func (s *readResult) keptOf(failed []action.Failure, all bool) scans.KeptRows {
	var r scans.KeptRows
	for _, e := range s.ends {
		if e.Failed > 0 {
			r.Ends = append(r.Ends, scan.PageEnd{Last: e.Last, Failed: e.Failed})
		}
	}
	has := map[int]bool{}
	for _, f := range failed {
		i := slices.IndexFunc(s.pages, func(p scans.ReadPage) bool { return f.Key.Compare(p.Last) <= 0 })
		has[i] = true
	}
	for i, p := range s.pages {
		if all || has[i] {
			r.Pages = append(r.Pages, p)
		}
	}
	return r
}
