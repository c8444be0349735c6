package step

import (
	"context"

	"tablesweep/internal/place"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// kind lists what differs between the three kinds of steps. The first kind reads rows and works with them, the second
// deletes rows that another step has read, and the third retries failed rows.
type kind interface {
	// justCommitted returns the step if this invocation has just recorded it as pending. Such a step need not be read
	// from the ledger.
	justCommitted() (p ledger.Pending, ok bool)
	// absent is called if this step is not pending. It returns the message of the step that must run instead, or nil.
	absent(o *scans.RunnableScan) *scans.Message
	// recorded returns the step's full message.
	recorded(p ledger.Pending) (scans.Message, error)
	// do runs the step. It is idempotent.
	do(ctx context.Context, o *stepScan, l *ledger.Ledger, delivery int) (stepResult, error)
	// slots returns how many time slots the step took in a scan with limits.
	slots() int64
	// overtaken is called if another delivery may have committed the step. If overtaken returns an error, the
	// step is delivered again.
	overtaken(ctx context.Context, l *ledger.Ledger, out *stepResult) error
}

// stepScan is a scan with the options and memory of one step.
type stepScan struct {
	*scans.RunnableScan
	options storage.RequestOptions // of the step's requests
	files   *place.Blobs           // the place of the scan's files, with the step's options; nil if the scan writes no files
	held    *stepMemory
}

func stepScanOf(o *scans.RunnableScan, options storage.RequestOptions, held *stepMemory) *stepScan {
	s := &stepScan{RunnableScan: o, options: options, held: held}
	if o.Container != nil {
		s.files = o.Container.With(options)
	}
	return s
}

func kindOf(m scans.Message) kind {
	switch {
	case m.Delete != nil:
		return deleteStep{readStep{m}}
	case m.RowRetry != nil:
		return retryStep{readStep{m}}
	}
	return readStep{m}
}

// readStep is the message of a step that reads rows.
type readStep struct{ scans.Message }

func (readStep) justCommitted() (ledger.Pending, bool) { return ledger.Pending{}, false }

// absent returns the message of the step's deletion, or nil if the scan deletes no rows. The deletion may not have
// run yet, because the process that committed the step may have died.
func (s readStep) absent(o *scans.RunnableScan) *scans.Message {
	if !o.Deletes() {
		return nil
	}
	left := s.DeletionOf()
	return &left
}

func (s readStep) recorded(ledger.Pending) (scans.Message, error) { return s.Message, nil }

func (s readStep) do(ctx context.Context, o *stepScan, _ *ledger.Ledger, delivery int) (out stepResult, err error) {
	work := o.newWork()
	found, err := o.read(ctx, s.Message, work)
	if err != nil {
		return out, err
	}
	out.done.Queries = found.queries
	if o.Request.Action.Map == "" { // with a map, the step still needs memory for the rows that the map makes
		o.held.releaseUnused()
	}
	if err := work.end(ctx, o, s.Message, delivery, &found, &out); err != nil {
		return out, err
	}
	out.children, out.done.Note = found.children, found.note()
	return out, nil
}

func (readStep) slots() int64 { return 1 }

// overtaken drops the rows that this delivery has read. If another delivery has committed the step,
// the other delivery may have read different rows.
func (s readStep) overtaken(_ context.Context, _ *ledger.Ledger, out *stepResult) error {
	if out.deletion != nil {
		*out.deletion = s.DeletionOf()
	}
	return nil
}
