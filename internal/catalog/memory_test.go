package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
	"tablesweep/internal/task/memory"
)

// TestHeadsUseBoundedMemory lets a write search for its record among many records with the same first index value. The write must have at most one page
// of heads in memory at a time.
func TestHeadsUseBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const records, page = 200, 20
		w := newWorld(t, emulator.Options{Faults: fmt.Sprintf("short-page p=1 rows=%d", page)}, people, "lastname")
		c := w.catalog()
		var all record.Decoded
		for i := range records {
			all = append(all, rec(t, fmt.Sprintf(`{"eid":"1","npi":"%d","lastname":"L%d"}`, i, i)))
		}
		for _, done := range c.InsertAll(t.Context(), all, nil) {
			proof.Must(t, done.Err)
		}
		one := func(npi string) catalog.Lookup {
			return catalog.Lookup{Keys: map[string]string{"eid": "1", "npi": npi}}
		}
		for what, write := range map[string]func(ctx context.Context) error{
			"a change": func(ctx context.Context) error {
				_, err := c.Patch(ctx, []byte(`{"x":1}`), one("7"), always)
				return err
			},
			"a deletion": func(ctx context.Context) error {
				_, err := c.Delete(ctx, one("8"), always, nil)
				return err
			},
		} {
			time.Sleep(time.Minute) // otherwise the heads may show several moments
			part, err := memory.NewBudget(64<<20).Take(t.Context(), 32<<20)
			proof.Must(t, err)
			proof.Must(t, write(part.In(t.Context())))
			if most := part.Wanted(); most < page*1500 || most > 3*page*3500 {
				t.Errorf("%s uses up to %d bytes for %d heads", what, most, records)
			}
			part.Release()
		}
	})
}

// TestRefusalReadsNoOtherRecords checks that a refused write searches for pending entries of its record, and does not read the large records of other pending
// entries.
func TestRefusalReadsNoOtherRecords(t *testing.T) {
	inBubble(t, "eid", "lastname", func(t *testing.T, w *world, _ *catalog.Catalog) {
		const others, bytes = 8, 30_000
		var got atomic.Int64
		next := w.emulator.Transport()
		c := w.via(func(r *http.Request) (*http.Response, error) {
			resp, err := next.Do(r)
			if err == nil {
				got.Add(resp.ContentLength)
			}
			return resp, err
		})
		shard := store.ShardOf(index.FirstHashOf("0"))
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, `{"eid":"0","lastname":"x"}`), ""))
		c.Close()
		for i, n := 1, 0; n < others; i++ {
			if eid := fmt.Sprint(i); store.ShardOf(index.FirstHashOf(eid)) == shard {
				w.orphan(fmt.Sprintf(`{"eid":%q,"lastname":"x","text":%q}`, eid, strings.Repeat("x", bytes)))
				n++
			}
		}
		got.Store(0)
		_, err := c.Insert(t.Context(), rec(t, `{"eid":"0","lastname":"x","y":1}`), "")
		wantKind(t, err, problem.Conflict)
		if n := got.Load(); n <= 0 || n > bytes {
			t.Errorf("the refusal reads %d bytes while %d other records of %d bytes are pending", n, others, bytes)
		}
		if left := w.rows("PeopleWAL", "e|"); len(left) != others {
			t.Errorf("%d entries of other records remain, want %d", len(left), others)
		}
	})
}
