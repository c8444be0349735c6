package action_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/semaphore"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// TestMapped: rows that become none, one or several rows count as themselves, whatever becomes of those, and so do failures. Of two that
// become one, the second fails, also when it is done again alone.
func TestMapped(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	to := emulatortest.Table(t, a, "destination", nil)
	rows := someRows(1, 8)
	slots := semaphore.NewWeighted(2)
	w := action.Mapped{Work: held{action.Copy{Destination: to}, t, slots}, Limiter: &action.Limiter{}, Slots: slots, Map: func(_ context.Context, e storage.Entity) ([]storage.Entity, error) {
		one := func(partition string) storage.Entity {
			return storage.Entity{Key: key.Key{Partition: partition, Row: e.Key.Row}}
		}
		switch e.Key.Row {
		case "r0000":
			return nil, nil
		case "r0001":
			return nil, errors.New("no")
		case "r0002":
			return []storage.Entity{one("b"), one("a"), one("c")}, nil
		case "r0003", "r0004":
			return []storage.Entity{{Key: key.Key{Partition: "a", Row: "one"}}}, nil
		case "r0005": // the service takes no such key
			return []storage.Entity{one("a"), one("\n"), one("\r")}, nil
		case "r0009": // behind the others of the page, ahead of them at the destination
			return []storage.Entity{{Key: key.Key{Partition: "a", Row: "first"}}}, nil
		}
		return []storage.Entity{one("a")}, nil
	}}
	r, err := action.All(t.Context(), storage.RequestOptions{}, nil, w, storage.Rows(rows))
	proof.Must(t, err)
	const taken = `map: the map changes its key to PartitionKey "a" RowKey "one", and another row of the same page to the same key: PartitionKey "p000" RowKey "r0003"`
	var failed []string
	for _, f := range r.Failed {
		failed = append(failed, fmt.Sprintf("%s %.60s", f.Key.Row, f.Reason))
	}
	want := []string{"r0001 map: no", fmt.Sprintf("r0004 %.60s", taken), `r0005 PartitionKey "\n" RowKey "r0005": OutOfRangeInput: The 'Part`}
	if diff := cmp.Diff(want, failed); diff != "" || r.Written != 4 {
		t.Errorf("%d written, failed (-want +got):\n%s", r.Written, diff)
	}
	there, err := to.Query(t.Context(), storage.Query{})
	if proof.Must(t, err); len(there.Rows) != 7 {
		t.Errorf("the destination has %d rows, want 7", len(there.Rows))
	}
	w.Only = map[key.Key]bool{rows[4].Key: true}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(rows)); err != nil || r.Written != 0 || len(r.Failed) != 1 || r.Failed[0].Reason != taken {
		t.Errorf("the second one again: %+v, %v", r, err)
	}
	stop := make(chan struct{})
	close(stop)
	if r, err := w.Do(t.Context(), storage.RequestOptions{Stop: stop}, storage.Rows(rows)); !errors.Is(err, context.Canceled) || r.Failed != nil {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
	ended := errors.New("the scan has ended")
	if _, err := w.Do(t.Context(), storage.RequestOptions{MayProceed: func(context.Context) error { return ended }}, storage.Rows(rows)); !errors.Is(err, ended) {
		t.Errorf("a scan that has ended: %v", err)
	}
	w.Work, w.Only = action.Copy{Destination: to, Mode: action.Skip}, nil
	others := someRows(1, 10)[2:] // of which r0002 becomes three
	in := storage.Entity{Properties: []storage.Property{storage.StringProperty("Other", "x")}}
	for _, k := range []key.Key{{Partition: "a", Row: "r0002"}, {Partition: "b", Row: "r0002"}, {Partition: "a", Row: "r0005"}, {Partition: "a", Row: "first"}} {
		in.Key = k
		proof.Must(t, to.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: in.Row()}))
	}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(others)); err != nil || r.Written != 4 || len(r.Failed) != 2 {
		t.Errorf("rows that are there: %+v, %v", r, err)
	}
	if units := (action.Mapped{Work: action.Enqueue{}}).Split(storage.Rows(rows)); len(units) != len(rows) { // so that an interrupt leaves few messages to be put twice
		t.Errorf("messages of %d rows are put in %d units", len(rows), len(units))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.Map = func(ctx context.Context, _ storage.Entity) ([]storage.Entity, error) {
		cancel()
		return nil, ctx.Err()
	}
	if r, err := w.Do(ctx, storage.RequestOptions{}, storage.Rows(rows[:1])); !errors.Is(err, context.Canceled) || r.Failed != nil {
		t.Errorf("canceled within a row: %+v, %v", r, err)
	}
}

// held is a copy whose units each have a slot, and wait for their partition.
type held struct {
	action.Copy
	t     *testing.T
	slots *semaphore.Weighted
}

func (h held) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	if h.slots.TryAcquire(2) || o.OnBusy == nil {
		h.t.Error("a unit has no slot, or no limiter")
	}
	return h.Copy.Do(ctx, o, rows)
}

// TestMappedHolds: what a page becomes is written before it takes much memory.
func TestMappedHolds(t *testing.T) {
	t.Parallel()
	large := []storage.Property{{Name: "X", Value: make([]byte, 1<<20)}}
	h := &holding{}
	w := action.Mapped{Work: h, Map: func(_ context.Context, e storage.Entity) ([]storage.Entity, error) {
		return []storage.Entity{{Key: e.Key, Properties: large}, {Key: key.Key{Row: e.Key.Row}, Properties: large}}, nil
	}}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(someRows(1, 50))); err != nil || r.Written != 50 || h.all != 100 || h.most > 20 {
		t.Errorf("%+v, %v, %d rows, %d at once", r, err, h.all, h.most)
	}
}

// holding does nothing, and counts the rows that it gets at once.
type holding struct{ all, most int }

func (*holding) Split(rows []storage.Row) [][]storage.Row { return [][]storage.Row{rows} }

func (h *holding) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	h.all, h.most = h.all+len(rows), max(h.most, len(rows))
	return action.Result{Written: int64(len(rows))}, nil
}

// TestMappedMessagesOnce: work that can't begin anew ends for want of memory before it does a row, or not at all.
func TestMappedMessagesOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		part int64 // MiB
		done int
		err  error
	}{{2, 0, memory.ErrFull}, {10, 200, nil}} {
		b := memory.NewBudget(32 << 20)
		part, err := b.Take(t.Context(), tt.part<<20)
		proof.Must(t, err)
		_, err = b.Take(t.Context(), b.Usage().Bytes-2<<20-tt.part<<20) // the reserve of small work is 2 MiB
		proof.Must(t, err)
		var did atomic.Int64
		w := action.Mapped{Work: putting{&did}, Map: func(_ context.Context, e storage.Entity) ([]storage.Entity, error) {
			if e.Key.Row >= "r0100" {
				e.Properties = []storage.Property{{Name: "X", Value: make([]byte, 1<<20)}}
			}
			return []storage.Entity{e, e}, nil
		}}
		_, err = action.All(t.Context(), storage.RequestOptions{Memory: part}, nil, w, storage.Rows(someRows(1, 200)))
		if !errors.Is(err, tt.err) || did.Load() != int64(2*tt.done) {
			t.Errorf("a part of %d MiB: %d rows are done, want %d twice; %v", tt.part, did.Load(), tt.done, err)
		}
	}
}

// putting counts rows, each a unit, that take a while.
type putting struct{ did *atomic.Int64 }

func (putting) Split(rows []storage.Row) [][]storage.Row { return action.Enqueue{}.Split(rows) }

func (p putting) Do(context.Context, storage.RequestOptions, []storage.Row) (action.Result, error) {
	p.did.Add(1)
	time.Sleep(time.Millisecond)
	return action.Result{Written: 1}, nil
}
