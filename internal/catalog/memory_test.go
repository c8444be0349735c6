package catalog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
	"tablesweep/internal/task/memory"
)

// TestHeadsUseMemory: a write that looks for its record among the many of one first index value uses the part of the memory that it has: for a page
// of them at once, and not for all.
func TestHeadsUseMemory(t *testing.T) {
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
		time.Sleep(time.Minute) // or the heads may be those of several moments
		one := catalog.Lookup{Keys: map[string]string{"eid": "1", "npi": "7"}}
		for what, write := range map[string]func(ctx context.Context) error{
			"a change": func(ctx context.Context) error {
				_, err := c.Patch(ctx, []byte(`{"x":1}`), one, always)
				return err
			},
			"a deletion": func(ctx context.Context) error {
				_, err := c.Delete(ctx, one, always, nil)
				return err
			},
		} {
			part, err := memory.NewBudget(64<<20).Take(t.Context(), 32<<20)
			proof.Must(t, err)
			proof.Must(t, write(part.In(t.Context())))
			if most := part.Wanted(); most < page*1500 || most > 3*page*3500 {
				t.Errorf("%s uses %d bytes at once for %d heads", what, most, records)
			}
			part.Release()
		}
	})
}
