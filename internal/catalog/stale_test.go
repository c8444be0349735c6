package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// TestReadAfterARefusal lets a writer die at each request of a write. Another write is refused because of the first write. A
// query after the refusal, by any key, must not return the refused ETag.
func TestReadAfterARefusal(t *testing.T) {
	t.Parallel()
	const first = `{"eid":"1","npi":"7","ssn":"5","lastname":"Faux"}`
	patch := func(text string) func(*catalog.Catalog, context.Context) {
		return func(c *catalog.Catalog, ctx context.Context) {
			_, _ = c.Patch(ctx, []byte(text), by("eid", "1"), always)
		}
	}
	for name, write := range map[string]func(*catalog.Catalog, context.Context){
		"patch": patch(`{"wage":1}`),
		"move":  patch(`{"npi":"8","lastname":"Smith"}`),
		"deletion": func(c *catalog.Catalog, ctx context.Context) {
			_, _ = c.Delete(ctx, by("ssn", "5"), always, nil)
		},
	} {
		for at, q := range map[string]catalog.Lookup{"the first key": by("eid", "1"), "the last key": by("ssn", "5"), "the ID": {ID: "-"}} {
			for what, refused := range map[string]func(context.Context, *catalog.Catalog, catalog.Lookup, catalog.Condition) error{
				"patch": func(ctx context.Context, c *catalog.Catalog, q catalog.Lookup, on catalog.Condition) error {
					_, err := c.Patch(ctx, []byte(`{"wage":2}`), q, on)
					return err
				},
				"deletion": func(ctx context.Context, c *catalog.Catalog, q catalog.Lookup, on catalog.Condition) error {
					_, err := c.Delete(ctx, q, on, nil)
					return err
				},
				"put": func(ctx context.Context, c *catalog.Catalog, _ catalog.Lookup, on catalog.Condition) error {
					_, err := c.Put(ctx, rec(t, `{"eid":"1","npi":"7","ssn":"5","lastname":"Faux","wage":2}`), on)
					return err
				},
				"replacement without a condition": func(ctx context.Context, c *catalog.Catalog, q catalog.Lookup, _ catalog.Condition) error {
					_, err := c.Replace(ctx, rec(t, `{"eid":"1","npi":"7","ssn":"5","lastname":"other"}`), q, always)
					return err
				},
			} {
				deaths(t, 2, testsize.Slow(5, 3, 1), func(t *testing.T, n int) bool {
					w := newWorld(t, emulator.Options{}, people, "lastname")
					c := w.catalog()
					old, err := c.Insert(t.Context(), rec(t, first), "")
					w.wantOutcome(catalog.Created)(old, err)
					c.Close()
					victim, p := w.mortal(n, true, nil)
					write(victim, t.Context())
					victim.Close()
					q := q
					if q.ID != "" {
						q.ID = old.ID
					}
					err = refused(t.Context(), c, q, catalog.Condition{Match: []string{old.ETag}})
					if err == nil {
						return p.Dead()
					}
					for key, value := range map[string]string{"eid": "1", "npi": "7", "ssn": "5"} {
						found, err := c.Find(t.Context(), by(key, value))
						if err != nil || slices.Contains(found.Meta, old.Meta) {
							t.Errorf("a query by %s %s returns the ETag for which a %s by %s was refused, after a %s", key, value, what, at, name)
						}
					}
					t.Log(err)
					c.Close()
					w.check(c)
					return p.Dead()
				})
			}
		}
	}
}

// TestRefusalWithAConcurrentWriter lets a writer die after its commit. A second write is refused because of that commit, and a third
// writer commits before the refusal has completed the first write. Neither the first nor the third write has written its rows by then.
// A query after the refusal must not return the refused ETag.
func TestRefusalWithAConcurrentWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		put := func(c *catalog.Catalog, wage int, on catalog.Condition) (catalog.Written, error) {
			return c.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"1","npi":"7","lastname":"x","wage":%d}`, wage)), on)
		}
		old, err := put(c, 1, always)
		w.wantOutcome(catalog.Created)(old, err)
		c.Close()
		dead, p := w.mortal(0, false, nil)
		p.DieWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/People(") })
		if _, err := put(dead, 2, always); err == nil || !p.Dead() {
			t.Fatalf("the writer did not die: %v", err)
		}
		atHead, goHead, heads := make(chan struct{}), make(chan struct{}), 0
		refused := w.gated(func(what string) chan struct{} {
			if strings.HasPrefix(what, "GET") && strings.Contains(what, "RowKey eq 'h|") {
				if heads++; heads == 2 { // the refused write completes the write of the dead writer
					close(atHead)
					return goHead
				}
			}
			return nil
		})
		faster, atRow, goRow := w.heldAtRows()
		var g sync.WaitGroup
		g.Go(func() {
			_, err := put(refused, 4, catalog.Condition{Match: []string{old.ETag}})
			wantKind(t, err, problem.Unmet)
			for key, value := range map[string]string{"eid": "1", "npi": "7"} {
				if found, err := c.Find(t.Context(), by(key, value)); err != nil || slices.Contains(found.Meta, old.Meta) {
					t.Errorf("a query by %s returns the refused ETag, error %v", key, err)
				}
			}
			refused.Close()
		})
		<-atHead
		g.Go(func() {
			w.wantOutcome(catalog.Replaced)(put(faster, 3, always))
			faster.Close()
		})
		<-atRow
		close(goHead)
		synctest.Wait()
		close(goRow)
		g.Wait()
		w.check(c)
	})
}

// TestChangesWithAConcurrentWriter lets Maintain complete the write of a dead writer, while a newer write is between its commit and its rows. When a
// write is listed as a change, the rows must contain this write or a newer one.
func TestChangesWithAConcurrentWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		put := func(c *catalog.Catalog, wage int) error {
			_, err := c.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"1","lastname":"x","wage":%d}`, wage)), always)
			return err
		}
		proof.Must(t, put(c, 1))
		c.Close()
		dead, p := w.mortal(0, false, nil)
		p.DieWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/People(") })
		if put(dead, 2) == nil {
			t.Fatal("the writer did not die")
		}
		time.Sleep(5 * time.Minute)
		faster, atRow, goRow := w.heldAtRows()
		var g sync.WaitGroup
		g.Go(func() {
			proof.Must(t, put(faster, 3))
			faster.Close()
		})
		<-atRow
		proof.Must(t, c.Maintain(t.Context()))
		all, _, err := changes(t, c, "")
		proof.Must(t, err)
		found, err := c.Find(t.Context(), by("eid", "1"))
		proof.Must(t, err)
		listed, _ := all[0].Record.Get("wage")
		if wage, _ := slices.Collect(found.Records())[0].Get("wage"); wage < listed || listed < "2" {
			t.Errorf("wage %s is listed as a change, but the rows contain wage %s", listed, wage)
		}
		close(goRow)
		g.Wait()
		w.check(c)
	})
}

// TestNewestRowIsReturned reads several partitions. One of them contains an older row of a record that was moved or replaced.
// The query must return each record once.
func TestNewestRowIsReturned(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,score", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		// For a number in an unusual spelling, a query reads two partitions: that of the text, and that of the number.
		w.insertAll(c, map[string]any{"eid": "1", "score": "7.0", "lastname": "b"})
		c.Close()
		old := w.rows("People", "")
		restore := func() { // restores this row, as if the process had died before it wrote the row
			for _, row := range old {
				if row.Key.Partition == "5_score7.0" {
					w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
				}
			}
		}
		q := by("score", "7.0")
		for _, sort := range []string{"a", "c", "b"} { // a smaller, a greater and the same sort value
			moved := rec(t, `{"eid":"1","score":7,"lastname":"`+sort+`"}`)
			w.wantOutcome(catalog.Replaced)(c.Replace(t.Context(), moved, by("eid", "1"), always))
			c.Close()
			restore()
			w.wantFound(c, q, moved)
			first, err := c.Find(t.Context(), catalog.Lookup{Keys: q.Keys, Top: 1})
			if err != nil || len(slices.Collect(first.Records())) != 1 || !record.Equal(slices.Collect(first.Records())[0], moved) {
				t.Errorf("the first record is %v, error %v, want %v", slices.Collect(first.Records()), err, moved)
			}
		}
	})
}

// TestWritesReadNoRecords counts the bytes that writes read. A replacement, or a deletion by ID, must not read records, except for the deleted record,
// which the log stores. A row of another program is read with its record, which determines the row's identity.
func TestWritesReadNoRecords(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, people, "lastname")
	large := rec(t, `{"eid":"1","npi":"7","ssn":"1","lastname":"Faux","text":"`+strings.Repeat("x", 30_000)+`"}`)
	done, err := c.Insert(t.Context(), large, "")
	proof.Must(t, err)
	bytes := int64(0)
	writer := w.via(func(r *http.Request) (*http.Response, error) {
		resp, err := w.emulator.Transport().Do(r)
		if err == nil && r.Method == http.MethodGet {
			atomic.AddInt64(&bytes, max(0, resp.ContentLength))
		}
		return resp, err
	})
	_, err = writer.Put(t.Context(), rec(t, `{"eid":"1","npi":"7","ssn":"1","lastname":"Faux"}`), catalog.Condition{})
	proof.Must(t, err)
	if n := atomic.LoadInt64(&bytes); n == 0 || n > 10_000 {
		t.Errorf("a replacement reads %d bytes, want no record", n)
	}
	_, err = writer.Put(t.Context(), large, catalog.Condition{})
	proof.Must(t, err)
	atomic.StoreInt64(&bytes, 0)
	_, err = writer.Delete(t.Context(), catalog.Lookup{ID: done.ID}, catalog.Condition{}, nil)
	proof.Must(t, err)
	if n := atomic.LoadInt64(&bytes); n < 30_000 || n > 40_000 {
		t.Errorf("a deletion reads %d bytes, want one record", n)
	}
	left := rec(t, `{"eid":"2","npi":"8","ssn":"2","lastname":"Faux"}`)
	id, err := c.Identify(left)
	proof.Must(t, err)
	w.published(string(id.Partitions[1]), id.Row, left)
	if done, err := writer.Put(t.Context(), left, catalog.Condition{}); err != nil || done.Outcome != catalog.Created {
		t.Errorf("the write to a row of another program returns %v, error %v", done.Outcome, err)
	}
}
