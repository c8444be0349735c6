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

// TestRefusalIsSeen lets a writer die at each request of a write. Whoever is refused for the write and reads again, as
// the refusal says, does not get the ETag that was refused, by any key.
func TestRefusalIsSeen(t *testing.T) {
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
		for at, q := range map[string]catalog.Lookup{"its first key": by("eid", "1"), "its last key": by("ssn", "5"), "its address": {ID: "-"}} {
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
					w.did(catalog.Created)(old, err)
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
							t.Errorf("by %s, %s finds what a %s by %s was refused for, after a %s", key, value, what, at, name)
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

// TestRefusalBesideAWriter: a writer has died, and another one overtakes the refusal for its write. Neither that one's rows nor
// the dead one's are written when the refusal looks. Whoever is refused does not read again what was refused.
func TestRefusalBesideAWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		put := func(c *catalog.Catalog, wage int, on catalog.Condition) (catalog.Written, error) {
			return c.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"1","npi":"7","lastname":"x","wage":%d}`, wage)), on)
		}
		old, err := put(c, 1, always)
		w.did(catalog.Created)(old, err)
		c.Close()
		dead, p := w.mortal(0, false, nil)
		p.DieWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/People(") })
		if _, err := put(dead, 2, always); err == nil || !p.Dead() {
			t.Fatalf("the writer lives: %v", err)
		}
		atHead, goHead, heads := make(chan struct{}), make(chan struct{}), 0
		refused := w.gated(func(what string) chan struct{} {
			if strings.HasPrefix(what, "GET") && strings.Contains(what, "RowKey eq 'h|") {
				if heads++; heads == 2 { // it carries out the dead one's write
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
					t.Errorf("by %s, it reads what it was refused for, %v", key, err)
				}
			}
			refused.Close()
		})
		<-atHead
		g.Go(func() {
			w.did(catalog.Replaced)(put(faster, 3, always))
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

// TestChangesBesideAWriter: Maintain completes the write of a writer that has died, while a newer one is on its way to the rows. A write that is
// listed as a change stands in the rows, or a newer one does.
func TestChangesBesideAWriter(t *testing.T) {
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
			t.Fatal("the writer lives")
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
			t.Errorf("wage %s is listed as a change, and the rows have %s", listed, wage)
		}
		close(goRow)
		g.Wait()
		w.check(c)
	})
}

// TestNewestOfOneRecord reads several partitions, of which one has an older row of a record that was
// moved or replaced. Each record is returned once.
func TestNewestOfOneRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,score", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		// A number in an odd spelling and its text are two partitions of one query.
		w.insertAll(c, map[string]any{"eid": "1", "score": "7.0", "lastname": "b"})
		c.Close()
		old := w.rows("People", "")
		restore := func() { // as if the process had died before it wrote this row
			for _, row := range old {
				if row.Key.Partition == "5_score7.0" {
					w.write("People", storage.Op{Kind: storage.Replace, Row: row.Row()})
				}
			}
		}
		q := by("score", "7.0")
		for _, sort := range []string{"a", "c", "b"} { // ahead of it, behind it, where it was
			moved := rec(t, `{"eid":"1","score":7,"lastname":"`+sort+`"}`)
			w.did(catalog.Replaced)(c.Replace(t.Context(), moved, by("eid", "1"), always))
			c.Close()
			restore()
			w.wantFound(c, q, moved)
			first, err := c.Find(t.Context(), catalog.Lookup{Keys: q.Keys, Top: 1})
			if err != nil || len(slices.Collect(first.Records())) != 1 || !record.Equal(slices.Collect(first.Records())[0], moved) {
				t.Errorf("the first record is %v, %v, want %v", slices.Collect(first.Records()), err, moved)
			}
		}
	})
}

// TestWritesReadNoRecords: who replaces a record, or deletes it by its id, reads none but the one that the log keeps of a deletion. A row that another
// program wrote is read whole: that tells whose it is.
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
		t.Errorf("a replacement reads %d bytes", n)
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
		t.Errorf("beside a row of another program: %v, %v", done.Outcome, err)
	}
}
