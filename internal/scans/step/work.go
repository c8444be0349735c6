package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

type stepWork interface {
	// parallel reports whether queries may run concurrently. Concurrent queries may leave gaps between their
	// rows. Other steps read the rows in these gaps.
	parallel() bool
	// add adds the rows of a page that was read at readAt. It returns the rows that the step holds until its end.
	add(ctx context.Context, of scan.Step, readAt time.Time, rows []storage.Row) (held []storage.Row, err error)
	// uses returns the memory of the step in bytes, without the memory of the held rows.
	uses() int64
	// room returns how many more bytes of pages the step can hold after it has read the given number of bytes. A result
	// below 0 means that the step can hold no more pages.
	room(read int) int
	// end does the work with the rows, and adds its result to the argument `out`. The step commits `out` afterwards.
	end(ctx context.Context, o *stepScan, m scans.Message, delivery int, found *readResult, out *stepResult) error
}

func (o *stepScan) newWork() stepWork {
	switch w := o.Work.(type) {
	case scans.Writing:
		return written{Writing: w}
	case scans.Deleting:
		return &pagesToDelete{written: written{Writing: w.Writing}}
	case scans.Exporting:
		return &draft{FileDraft: place.NewFile(w.Codec), kept: w.Kept, sizes: o.Sizes}
	case scans.Comparing:
		return &compared{Comparing: w}
	}
	return counted{}
}

// holding implements [stepWork], except the method end, for work that holds all rows until the step's end.
type holding struct{}

func (holding) parallel() bool { return true }

func (holding) add(_ context.Context, _ scan.Step, _ time.Time, rows []storage.Row) ([]storage.Row, error) {
	return rows, nil
}

func (holding) uses() int64 { return 0 }

func (holding) room(read int) int { return readBytes - read }

type counted struct{ holding }

func (counted) end(_ context.Context, _ *stepScan, _ scans.Message, _ int, found *readResult, out *stepResult) error {
	out.done.Rows = int64(len(found.rows()))
	return nil
}

type written struct {
	holding
	scans.Writing
}

func (w written) end(ctx context.Context, o *stepScan, m scans.Message, delivery int, found *readResult, out *stepResult) error {
	if w.Packs {
		found.passOn(m)
	}
	rows := found.rows()
	out.done.Rows = int64(len(rows))
	failed, err := w.write(ctx, o, rows, delivery, &out.done.Totals)
	if err != nil {
		return err
	}
	if found.countFailed(failed, m.HandedOver); len(failed) > 0 {
		found.count(w)
	}
	scans.KeepFailed(&out.done, failed, found.keptOf(failed, o.Request.Action.Type == scans.Keys || o.Request.Action.Map != ""))
	return nil
}

// count returns how many rows the action makes from the source's rows, including rows that it cannot write.
func (w written) count(rows []storage.Row) (n int64) {
	for _, unit := range w.Action.Split(rows) {
		n += int64(len(unit))
	}
	return n
}

// write does the action on rows, adds the counts to the argument `done`, and returns the rows that
// could not be written. Broken rows are rows that the service has neither written nor refused. If a
// row is Broken, write returns an error, unless this is the last delivery.
func (w written) write(ctx context.Context, o *stepScan, rows []storage.Row, delivery int, done *ledger.Totals) ([]action.Failure, error) {
	options := o.options
	if o.Request.Action.Type == scans.Enqueue && options.MayProceed != nil { // check only before the first message: if the step stopped after some messages, a retry would send them again
		if err := options.MayProceed(ctx); err != nil {
			return nil, err
		}
		options.MayProceed = nil
	}
	r, err := action.All(ctx, options, o.Limiter, w.Action, rows)
	if err != nil {
		return nil, scans.FatalIfPermanent(w.What, err)
	}
	if i := slices.IndexFunc(r.Failed, func(f action.Failure) bool { return f.Broken }); i >= 0 && delivery < scans.MaxDeliveries {
		return nil, fmt.Errorf("%s: %v", w.What, r.Failed[i])
	}
	done.Written, done.Failed = r.Written, int64(len(r.Failed))
	if len(r.Failed) > 0 {
		f := r.Failed[0]
		zerolog.Ctx(ctx).Warn().Int("rows", len(r.Failed)).Str("partitionKey", f.Key.Partition).Str("rowKey", f.Key.Row).Str("reason", f.Reason).Msg("rows failed; this entry names the first of them")
	}
	return r.Failed, nil
}
