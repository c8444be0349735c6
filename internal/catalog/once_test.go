package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

// keyed is a write with an Idempotency-Key.
type keyed struct {
	name   string
	before string // the record before the write, "" for none
	do     func(ctx context.Context, c *catalog.Catalog, r func(string) record.Record) (catalog.Written, error)
}

var once = catalog.Condition{Once: "key-1"}

var keyedWrites = []keyed{
	{"an insertion", "", func(ctx context.Context, c *catalog.Catalog, r func(string) record.Record) (catalog.Written, error) {
		return c.Insert(ctx, r(`{"eid":"1","npi":"7","lastname":"Faux"}`), once.Once)
	}},
	{"a PUT that creates", "", func(ctx context.Context, c *catalog.Catalog, r func(string) record.Record) (catalog.Written, error) {
		return c.Put(ctx, r(`{"eid":"1","npi":"7","lastname":"Faux"}`), once)
	}},
	{"a PUT that replaces", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, r func(string) record.Record) (catalog.Written, error) {
		return c.Put(ctx, r(`{"eid":"1","npi":"7","lastname":"Faux","n":1}`), once)
	}},
	{"a PUT that moves the record away", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, r func(string) record.Record) (catalog.Written, error) {
		return c.Replace(ctx, r(`{"eid":"1","npi":"8","lastname":"Smith"}`), by("npi", "7"), once)
	}},
	{"a PATCH", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, _ func(string) record.Record) (catalog.Written, error) {
		return c.Patch(ctx, []byte(`{"n":1}`), by("eid", "1"), once)
	}},
	{"a PATCH that moves the record away", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, _ func(string) record.Record) (catalog.Written, error) {
		return c.Patch(ctx, []byte(`{"npi":"8"}`), by("npi", "7"), once)
	}},
	{"a PATCH with a condition", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, _ func(string) record.Record) (catalog.Written, error) {
		return c.Patch(ctx, []byte(`{"n":1}`), by("npi", "7"), catalog.Condition{Once: "key-1", Differ: []string{`"other"`}})
	}},
	{"a PATCH that changes nothing", `{"eid":"1","npi":"7","lastname":"Faux"}`, func(ctx context.Context, c *catalog.Catalog, _ func(string) record.Record) (catalog.Written, error) {
		return c.Patch(ctx, []byte(`{"lastname":"Faux"}`), by("eid", "1"), once)
	}},
}

// sameWritten compares the records in results by their JSON.
var sameWritten = cmp.Transformer("text", func(r record.Record) string { return string(r.AppendJSON(nil)) })

// TestKeyedCrashPoints lets the writer of each keyed write die at each of its requests. Then another writer changes the record,
// and the first writer retries. All retries must return the answer of the only time that the write was done, and the other
// writer's change must not be lost.
func TestKeyedCrashPoints(t *testing.T) {
	t.Parallel()
	for _, tt := range keyedWrites {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied %v", tt.name, applied), func(t *testing.T) {
				deaths(t, 2, testsize.Slow(7, 4, 1), func(t *testing.T, n int) bool {
					w, c := newCatalog(t, people, "lastname")
					parse := func(text string) record.Record { return rec(t, text) }
					if tt.before != "" {
						w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, tt.before), ""))
					}
					victim, process := w.mortal(n, applied, nil)
					first, err := tt.do(t.Context(), victim, parse)
					victim.Close()
					other, otherErr := c.Patch(t.Context(), []byte(`{"other":1}`), by("eid", "1"), always)
					again, againErr := tt.do(t.Context(), c, parse)
					third, thirdErr := tt.do(t.Context(), c, parse)
					if againErr != nil || thirdErr != nil {
						t.Fatalf("the retries return the errors %v and %v", againErr, thirdErr)
					}
					if err != nil {
						first = again
					}
					if diff := cmp.Diff([]catalog.Written{first, first}, []catalog.Written{again, third}, sameWritten); diff != "" {
						t.Errorf("the retries return another answer (-first +retries):\n%s", diff)
					}
					last, want := again, 1
					if again.Outcome == catalog.Unchanged {
						want = 0
					}
					if otherErr == nil {
						want++
						if other.ETag > again.ETag {
							last = other
						}
					}
					w.wantFound(c, by("eid", "1"), last.Record)
					c.Close()
					w.maintain(c)
					if tt.before != "" {
						want++
					}
					changes, _, err := changes(t, c, "")
					if err != nil || len(changes) != want {
						t.Errorf("there are %d changes, error %v; want %d: %+v", len(changes), err, want, changes)
					}
					w.check(c)
					w.nextDay(c)
					if left := w.rows("PeopleWAL", "i|"); len(left) > 0 {
						t.Errorf("after a day, rows of requests remain: %v", left)
					}
					return process.Dead()
				})
			})
		}
	}
}

// TestKeyOfAnotherWrite checks that a key is refused with any other write than the first.
func TestKeyOfAnotherWrite(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		r, other := rec(t, `{"eid":"1","npi":"7","lastname":"Faux"}`), rec(t, `{"eid":"1","npi":"7","lastname":"Faux","n":2}`)
		w.wantOutcome(catalog.Created)(c.Put(t.Context(), r, once))
		patch := catalog.Condition{Once: "key-2"}
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "7"), patch))
		for name, do := range map[string]func() (catalog.Written, error){
			"a record of another shard": func() (catalog.Written, error) {
				return c.Insert(t.Context(), rec(t, `{"eid":"2","lastname":"Faux"}`), once.Once)
			},
			"a deletion": func() (catalog.Written, error) {
				_, err := c.Delete(t.Context(), by("eid", "1"), once, nil)
				return catalog.Written{}, err
			},
			"another record":             func() (catalog.Written, error) { return c.Put(t.Context(), other, once) },
			"an insertion":               func() (catalog.Written, error) { return c.Insert(t.Context(), r, once.Once) },
			"a selector":                 func() (catalog.Written, error) { return c.Replace(t.Context(), r, by("eid", "1"), once) },
			"a patch":                    func() (catalog.Written, error) { return c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "7"), once) },
			"another patch":              func() (catalog.Written, error) { return c.Patch(t.Context(), []byte(`{"n":2}`), by("npi", "7"), patch) },
			"another selector":           func() (catalog.Written, error) { return c.Patch(t.Context(), []byte(`{"n":1}`), by("eid", "1"), patch) },
			"a selector without a match": func() (catalog.Written, error) { return c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "9"), patch) },
		} {
			if _, err := do(); err == nil || problem.Of(err).Kind != problem.KeyReused {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "7"), patch))
		_, err := c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "9"), catalog.Condition{Once: "key-3"})
		wantKind(t, err, problem.NotFound)
		w.wantFound(c, by("eid", "1"), rec(t, `{"eid":"1","npi":"7","lastname":"Faux","n":1}`))
	})
}

// TestKeyOfAnOldRecord repeats a write that changed nothing. The retry must return the first answer, although the change that
// wrote the record was deleted because of its age.
func TestKeyOfAnOldRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, faux), ""))
		c.Close()
		time.Sleep(40 * 24 * time.Hour)
		w.maintain(c)
		patch := func() (catalog.Written, error) {
			return c.Patch(t.Context(), []byte(`{"lastname":"Faux"}`), by("eid", "F314"), once)
		}
		w.wantOutcome(catalog.Unchanged)(patch())
		w.wantOutcome(catalog.Unchanged)(patch())
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"n":1}`), by("eid", "F314"), always))
		_, err := patch()
		wantKind(t, err, problem.Conflict)
	})
}

// TestKeyedRetryReturnsTheFirstAnswer retries a write whose selector now finds another record, in another shard. The retry must return
// the first answer, and must not change that record.
func TestKeyedRetryReturnsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "Faux"})
	patch := func() (catalog.Written, error) {
		return c.Patch(t.Context(), []byte(`{"n":1}`), by("npi", "7"), once)
	}
	first, err := patch()
	w.wantOutcome(catalog.Replaced)(first, err)
	w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"npi":"8"}`), by("eid", "1"), always))
	other := w.insertAll(c, map[string]any{"eid": "2", "npi": "7", "lastname": "Faux"})
	if again, err := patch(); err != nil || !cmp.Equal(first, again, sameWritten) {
		t.Errorf("the retry returns %+v, error %v; want %+v", again, err, first)
	}
	w.wantFound(c, by("npi", "7"), other...)
}

// TestInvalidWriteReleasesItsKey sends an invalid write, and then the corrected write with the same key. The corrected write
// must succeed, so the invalid write must not leave a claim.
func TestInvalidWriteReleasesItsKey(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	old, err := c.Insert(t.Context(), rec(t, `{"eid":"1","npi":"7","lastname":"Faux"}`), "")
	w.wantOutcome(catalog.Created)(old, err)
	at := catalog.Lookup{ID: old.ID}
	put := func(eid, key string) error {
		_, err := c.Replace(t.Context(), rec(t, `{"eid":"`+eid+`","npi":"7","lastname":"Faux","n":2}`), at, catalog.Condition{Once: key})
		return err
	}
	patch := func(text, key string) error {
		_, err := c.Patch(t.Context(), []byte(text), at, catalog.Condition{Once: key})
		return err
	}
	wantKind(t, put("2", "put"), problem.Invalid)
	wantKind(t, patch(`{"n":`, "patch"), problem.Invalid)
	for range 2 {
		if err := errors.Join(put("1", "put"), patch(`{"n":3}`, "patch")); err != nil {
			t.Error(err)
		}
	}
}
