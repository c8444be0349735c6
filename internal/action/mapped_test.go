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

// TestMapped: a row that maps to no row, one row or several rows counts as one, and so does its failure. If two rows map to the same
// key, the second fails, even if it is later handled alone.
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
		case "r0005": // the service refuses such a key
			return []storage.Entity{one("a"), one("\n"), one("\r")}, nil
		case "r0006":
			return []storage.Entity{one("a"), one("a")}, nil
		case "r0009": // last in the page, but first in the destination
			return []storage.Entity{{Key: key.Key{Partition: "a", Row: "first"}}}, nil
		}
		return []storage.Entity{one("a")}, nil
	}}
	r, err := action.All(t.Context(), storage.RequestOptions{}, nil, w, storage.Rows(rows))
	proof.Must(t, err)
	const taken = `map: the map gives PartitionKey "a" RowKey "one" to this row and to another row of the same page: PartitionKey "p000" RowKey "r0003"`
	var failed []string
	for _, f := range r.Failed {
		failed = append(failed, fmt.Sprintf("%s %.60s", f.Key.Row, f.Reason))
	}
	want := []string{"r0001 map: no", fmt.Sprintf("r0004 %.60s", taken), `r0005 PartitionKey "\n" RowKey "r0005": OutOfRangeInput: The 'Part`,
		`r0006 map: the map gives PartitionKey "a" RowKey "r0006" to two of`}
	if diff := cmp.Diff(want, failed); diff != "" || r.Written != 3 {
		t.Errorf("got %d rows written, failed rows (-want +got):\n%s", r.Written, diff)
	}
	there, err := to.Query(t.Context(), storage.Query{})
	if proof.Must(t, err); len(there.Rows) != 6 {
		t.Errorf("the destination has %d rows, want 6", len(there.Rows))
	}
	w.Only = map[key.Key]bool{rows[4].Key: true}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(rows)); err != nil || r.Written != 0 || len(r.Failed) != 1 || r.Failed[0].Reason != taken {
		t.Errorf("the second row alone: result %+v, error %v; want one failed row", r, err)
	}
	stop := make(chan struct{})
	close(stop)
	if r, err := w.Do(t.Context(), storage.RequestOptions{Stop: stop}, storage.Rows(rows)); !errors.Is(err, context.Canceled) || r.Failed != nil {
		t.Errorf("interrupted: result %+v, error %v; want an interruption without failed rows", r, err)
	}
	ended := errors.New("the scan has ended")
	if _, err := w.Do(t.Context(), storage.RequestOptions{MayProceed: func(context.Context) error { return ended }}, storage.Rows(rows)); !errors.Is(err, ended) {
		t.Errorf("a scan that has ended: got error %v", err)
	}
	w.Work, w.Only = action.Copy{Destination: to, Mode: action.Skip}, nil
	others := someRows(1, 10)[2:] // r0002 maps to three rows
	in := storage.Entity{Properties: []storage.Property{storage.StringProperty("Other", "x")}}
	for _, k := range []key.Key{{Partition: "a", Row: "r0002"}, {Partition: "b", Row: "r0002"}, {Partition: "a", Row: "r0005"}, {Partition: "a", Row: "first"}} {
		in.Key = k
		proof.Must(t, to.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: in.Row()}))
	}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(others)); err != nil || r.Written != 3 || len(r.Failed) != 3 {
		t.Errorf("rows that exist: result %+v, error %v; want 3 rows written and 3 failed", r, err)
	}
	if units := (action.Mapped{Work: action.Enqueue{}}).Split(storage.Rows(rows)); len(units) != len(rows) { // each row is a unit, so that few messages are repeated after an interruption
		t.Errorf("the messages of %d rows have %d units, want one for each row", len(rows), len(units))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.Map = func(ctx context.Context, _ storage.Entity) ([]storage.Entity, error) {
		cancel()
		return nil, ctx.Err()
	}
	if r, err := w.Do(ctx, storage.RequestOptions{}, storage.Rows(rows[:1])); !errors.Is(err, context.Canceled) || r.Failed != nil {
		t.Errorf("canceled within a row: result %+v, error %v; want a cancellation without failed rows", r, err)
	}
}

// held is a copy that checks that each of its units has a slot, and waits for its partition.
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

// TestMappedRowsAreWrittenInParts: a page's mapped rows are written before they need much memory.
func TestMappedRowsAreWrittenInParts(t *testing.T) {
	t.Parallel()
	large := []storage.Property{{Name: "X", Value: make([]byte, 1<<20)}}
	h := &holding{}
	w := action.Mapped{Work: h, Map: func(_ context.Context, e storage.Entity) ([]storage.Entity, error) {
		return []storage.Entity{{Key: e.Key, Properties: large}, {Key: key.Key{Row: e.Key.Row}, Properties: large}}, nil
	}}
	if r, err := w.Do(t.Context(), storage.RequestOptions{}, storage.Rows(someRows(1, 50))); err != nil || r.Written != 50 || h.all != 100 || h.most > 20 {
		t.Errorf("got result %+v, error %v, %d mapped rows, at most %d in one unit; want 50 rows written, 100 mapped rows, at most 20 in one unit", r, err, h.all, h.most)
	}
}

// holding writes nothing. It counts all rows, and the rows of the largest unit.
type holding struct{ all, most int }

func (*holding) Split(rows []storage.Row) [][]storage.Row { return [][]storage.Row{rows} }

func (h *holding) Do(_ context.Context, _ storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	h.all, h.most = h.all+len(rows), max(h.most, len(rows))
	return action.Result{Written: int64(len(rows))}, nil
}

// TestMappedMessagesAreNotRepeated: work that cannot be restarted fails for lack of memory before its first row, or not at all.
func TestMappedMessagesAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		part int64 // size of the part in MiB
		done int
		err  error
	}{{2, 0, memory.ErrFull}, {10, 200, nil}} {
		b := memory.NewBudget(32 << 20)
		part, err := b.Take(t.Context(), tt.part<<20)
		proof.Must(t, err)
		_, err = b.Take(t.Context(), b.Usage().Bytes-2<<20-tt.part<<20) // 2 MiB remain as the reserve of small work
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
			t.Errorf("a part of %d MiB: %d messages were put, want %d twice; error %v", tt.part, did.Load(), tt.done, err)
		}
	}
}

// putting counts rows. Each row is a unit, which takes a while.
type putting struct{ did *atomic.Int64 }

func (putting) Split(rows []storage.Row) [][]storage.Row { return action.Enqueue{}.Split(rows) }

func (p putting) Do(context.Context, storage.RequestOptions, []storage.Row) (action.Result, error) {
	p.did.Add(1)
	time.Sleep(time.Millisecond)
	return action.Result{Written: 1}, nil
}
