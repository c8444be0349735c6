package step

import (
	"context"

	"tablesweep/internal/place"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// kind is what the three kinds of steps differ in: a step reads rows and works with them, deletes the rows that another one has read, or does
// failed rows again. All else on the way of its message is the same.
type kind interface {
	// justCommitted returns the step if this invocation has just committed it as pending, so that it needn't be read.
	justCommitted() (p ledger.Pending, ok bool)
	// absent returns the message of the step that is to be done if this one is not pending; nil if that is none.
	absent(o *scans.RunnableScan) *scans.Message
	// recorded returns the message that counts: as it came, or as the pending row has it.
	recorded(p ledger.Pending) (scans.Message, error)
	// do does the step. Doing it twice has the same effect as once.
	do(ctx context.Context, o *stepScan, l *ledger.Ledger, delivery int) (stepResult, error)
	// slots is how many slots of the scan's limits the step had.
	slots() int64
	// overtaken tells what it means that another delivery has committed the step: an error has it done again.
	overtaken(ctx context.Context, l *ledger.Ledger, out *stepResult) error
}

// stepScan is a scan as one of its steps has it.
type stepScan struct {
	*scans.RunnableScan
	options storage.RequestOptions // of the step's requests
	files   *place.Blobs           // the container that the scan writes files to, by these options; nil if it does not
	held    *stepMemory            // by the step
}

func stepScanOf(o *scans.RunnableScan, options storage.RequestOptions, held *stepMemory) *stepScan {
	s := &stepScan{RunnableScan: o, options: options, held: held}
	if o.Container != nil {
		s.files = o.Container.With(options)
	}
	return s
}

// kindOf returns the message as one of its kind.
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

// absent returns the deletion of the rows that the step has read: a process may have died over it.
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
	if o.Request.Action.Map == "" { // or else what becomes of the rows takes memory
		o.held.wasRead()
	}
	if err := work.end(ctx, o, s.Message, delivery, &found, &out); err != nil {
		return out, err
	}
	out.children, out.done.Note = found.children, found.note()
	return out, nil
}

func (readStep) slots() int64 { return 1 }

// overtaken forgets the rows that were read: the other delivery may have read others.
func (s readStep) overtaken(_ context.Context, _ *ledger.Ledger, out *stepResult) error {
	if out.deletion != nil {
		*out.deletion = s.DeletionOf()
	}
	return nil
}
