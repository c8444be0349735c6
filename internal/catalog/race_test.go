package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tablesweep/internal/catalog"
	"tablesweep/internal/proof/emulatortest"
)

// describe returns a request's method, address and body.
func describe(r *http.Request) string {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	what := r.Method + " " + r.URL.Path
	if q, _ := url.QueryUnescape(r.URL.RawQuery); q != "" {
		what += "?" + q
	}
	return what + " HTTP/1.1\r\n" + string(body) // as within a transaction
}

func containsAll(what string, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(what, t) {
			return false
		}
	}
	return true
}

// holdOnce returns a hold for the first request that has all the texts. reached is
// closed when it is held.
func holdOnce(texts ...string) (hold func(string) chan struct{}, reached, release chan struct{}) {
	reached, release = make(chan struct{}), make(chan struct{})
	done := false
	return func(what string) chan struct{} {
		if done || !containsAll(what, texts) {
			return nil
		}
		done = true
		close(reached)
		return release
	}, reached, release
}

// gated returns the catalog in a process whose requests can be held back before they are sent: hold returns what they wait for, nil for nothing.
func (w *world) gated(hold func(what string) chan struct{}) *catalog.Catalog {
	return w.held(false, hold)
}

// held is gated where, with answers, requests are carried out and their answers are held back.
func (w *world) held(answers bool, hold func(what string) chan struct{}) *catalog.Catalog {
	var mu sync.Mutex // guards hold
	next := w.emulator.Transport()
	return w.via(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		wait := hold(describe(r))
		mu.Unlock()
		switch {
		case wait == nil:
			return next.Do(r)
		case answers:
			resp, err := next.Do(r)
			<-wait
			return resp, err
		}
		<-wait
		return next.Do(r.WithContext(context.WithoutCancel(r.Context()))) // it had left when its time was over
	})
}

// heldAtRows returns a catalog whose requests about index rows say on at that they are there, and wait until on is closed.
func (w *world) heldAtRows() (c *catalog.Catalog, at, on chan struct{}) {
	at, on = make(chan struct{}, 8), make(chan struct{})
	return w.gated(func(what string) chan struct{} {
		if strings.Contains(what, "/People(") {
			at <- struct{}{}
			return on
		}
		return nil
	}), at, on
}

// TestCheckBesideAWriter: check does not report a write that is under way.
func TestCheckBesideAWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		atRow, goRow := make(chan struct{}, 8), make(chan struct{})
		writer := w.gated(func(what string) chan struct{} {
			if strings.Contains(what, "POST") && strings.Contains(what, "/People\r") || strings.Contains(what, "/People HTTP") {
				atRow <- struct{}{}
				return goRow
			}
			return nil
		})
		var g sync.WaitGroup
		g.Go(func() {
			w.did(catalog.Created)(writer.Insert(t.Context(), rec(t, `{"eid":"1","npi":"7","lastname":"x"}`), ""))
			writer.Close()
		})
		<-atRow
		<-atRow
		w.check(c)
		hold, at, release := holdOnce("GET", "PeopleWAL", "RowKey eq 'e|")
		checker := w.gated(hold)
		g.Go(func() { w.check(checker) })
		<-at
		close(goRow)
		synctest.Wait()
		w.wantFound(c, by("npi", "7"), rec(t, `{"eid":"1","npi":"7","lastname":"x"}`))
		close(release)
		g.Wait()
	})
}

// TestCheckBetweenWrites: a record is replaced after check has read the index, and again after it has read the heads.
// Nothing is reported.
func TestCheckBetweenWrites(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "x"})
		c.Close()
		moments := [][]string{{"GET", "PeopleWAL", "RowKey ge 'h|"}, {"GET", "/People(", "3_npi7"}}
		next, n := w.emulator.Transport(), 0
		var mu sync.Mutex // guards n
		checker := w.via(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if n < len(moments) && containsAll(describe(r), moments[n]) {
				n++
				w.did(catalog.Replaced)(c.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"1","npi":"7","lastname":"x","n":%d}`, n)), always))
				c.Close()
			}
			return next.Do(r)
		})
		w.check(checker)
		if n != len(moments) {
			t.Errorf("%d writes", n)
		}
	})
}

// TestDeletionOfWhatMoves: a record moves after a deletion has found it, and before that looks at its head. It is there all the
// time, so it is deleted where it is.
func TestDeletionOfWhatMoves(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "b"})
		c.Close()
		hold, at, release := holdOnce("GET", "PeopleWAL", "RowKey eq 'h|")
		deleter := w.gated(hold)
		var g sync.WaitGroup
		g.Go(func() { w.delete(deleter, by("npi", "7"), 1) })
		<-at
		w.did(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"a"}`), by("eid", "1"), always))
		c.Close()
		close(release)
		g.Wait()
		deleter.Close()
		w.wantFound(c, by("eid", "1"))
		w.check(c)
	})
}

// TestMoveIsSeenBeforeItsDeletion delays some of the rows of a move until the record is deleted. Then no query finds the record where it was
// before the move.
func TestMoveIsSeenBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	for _, delayed := range []string{"3_eid1", "3_npi0"} {
		for _, atAddress := range []bool{false, true} {
			inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
				w.insertAll(c, map[string]any{"eid": "1", "npi": 0, "lastname": "x"})
				c.Close()
				delay, at, release := holdOnce("PUT ", "/People(", delayed)
				mover := w.gated(delay)
				var g sync.WaitGroup
				g.Go(func() {
					w.did(catalog.Replaced)(mover.Patch(t.Context(), []byte(`{"npi":1,"n":1}`), by("eid", "1"), always))
					mover.Close()
				})
				<-at
				synctest.Wait() // its other rows are there
				q := by("npi", "1")
				if found, err := c.Find(t.Context(), q); err != nil || len(slices.Collect(found.Records())) != 1 {
					t.Fatal(found, err)
				} else if atAddress {
					q = catalog.Lookup{ID: found.Meta[0].ID}
				}
				w.delete(c, q, 1)
				look := func() {
					t.Helper()
					for _, q := range []catalog.Lookup{by("npi", "0"), by("npi", "1"), by("eid", "1")} {
						w.wantFound(c, q)
					}
				}
				look()
				close(release)
				g.Wait()
				look()
				c.Close()
				w.pass(c, minutes)
				look()
				w.check(c)
				if t.Failed() {
					t.Fatalf("deleted at its address %v while %s is delayed", atAddress, delayed)
				}
			})
		}
	}
}

// TestContestedChange: the service answers 409 to an upsert, too, if others write the row at that moment. An applied entry then stays until
// it is among the changes.
func TestContestedChange(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		r := w.insertAll(c, map[string]any{"eid": "1", "lastname": "a"})
		c.Close()
		var times atomic.Int64
		next := w.emulator.Transport()
		via := requester(func(r *http.Request) (*http.Response, error) {
			if containsAll(describe(r), []string{"RowKey='t%7C", `"RowKey":"c|`}) && times.Add(1) == 1 {
				return emulatortest.Refusal(r, http.StatusConflict, "EntityAlreadyExists"), nil
			}
			return next.Do(r)
		})
		deleter := w.on(emulatortest.Open(w, w.emulator, via), nil)
		w.delete(deleter, by("eid", "1"), len(r))
		deleter.Close()
		if times.Load() == 0 {
			t.Fatal("nothing was contested")
		}
		if n := len(w.rows("PeopleWAL", "e|")) + len(w.rows("PeopleWAL", "c|")); n != 2 {
			t.Errorf("%d entries and changes, want the insertion's and the deletion's", n)
		}
		w.recover(c)
		c.Close()
		if pending, changes := len(w.rows("PeopleWAL", "e|")), len(w.rows("PeopleWAL", "c|")); pending != 0 || changes != 2 {
			t.Errorf("%d entries and %d changes, want 0 and 2", pending, changes)
		}
		w.check(c)
	})
}
