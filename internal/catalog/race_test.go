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
	return what + " HTTP/1.1\r\n" + string(body) // the same form as within a transaction
}

func containsAll(what string, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(what, t) {
			return false
		}
	}
	return true
}

// holdOnce returns a function `hold` that holds back the first request that contains all the texts. The channel `reached` is closed
// when the request is held back. The request continues when release is closed.
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

// gated returns the catalog in a process whose requests can be held back before they are sent. The function `hold` returns the channel for which a
// request waits, or nil.
func (w *world) gated(hold func(what string) chan struct{}) *catalog.Catalog {
	return w.held(false, hold)
}

// held is gated with one more argument: if `answers` is true, requests are carried out and their answers are held back.
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
		return next.Do(r.WithContext(context.WithoutCancel(r.Context()))) // the request is sent even if its time is over
	})
}

// heldAtRows returns a catalog whose requests for index rows are held back. Each such request sends a value on the channel at,
// and waits until the channel on is closed.
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

// TestCheckWithAConcurrentWriter checks that check does not report a write that is under way.
func TestCheckWithAConcurrentWriter(t *testing.T) {
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
			w.wantOutcome(catalog.Created)(writer.Insert(t.Context(), rec(t, `{"eid":"1","npi":"7","lastname":"x"}`), ""))
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

// TestCheckBetweenWrites replaces a record after check has read the index, and again after check has read the heads. The check
// must not report a problem.
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
				w.wantOutcome(catalog.Replaced)(c.Put(t.Context(), rec(t, fmt.Sprintf(`{"eid":"1","npi":"7","lastname":"x","n":%d}`, n)), always))
				c.Close()
			}
			return next.Do(r)
		})
		w.check(checker)
		if n != len(moments) {
			t.Errorf("the test made %d writes", n)
		}
	})
}

// TestDeletionOfAMovingRecord moves a record after a deletion has found it, and before the deletion reads its head. The record
// exists all the time, so the deletion must delete it in its new place.
func TestDeletionOfAMovingRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "b"})
		c.Close()
		hold, at, release := holdOnce("GET", "PeopleWAL", "RowKey eq 'h|")
		deleter := w.gated(hold)
		var g sync.WaitGroup
		g.Go(func() { w.delete(deleter, by("npi", "7"), 1) })
		<-at
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"a"}`), by("eid", "1"), always))
		c.Close()
		close(release)
		g.Wait()
		deleter.Close()
		w.wantFound(c, by("eid", "1"))
		w.check(c)
	})
}

// TestDeletionWaitsForTheMove delays some of the rows of a move until the record is deleted. After the deletion, no query may find the
// record by its values before the move.
func TestDeletionWaitsForTheMove(t *testing.T) {
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
					w.wantOutcome(catalog.Replaced)(mover.Patch(t.Context(), []byte(`{"npi":1,"n":1}`), by("eid", "1"), always))
					mover.Close()
				})
				<-at
				synctest.Wait() // the other rows of the move are written
				q := by("npi", "1")
				if found, err := c.Find(t.Context(), q); err != nil || len(slices.Collect(found.Records())) != 1 {
					t.Fatal(found, err)
				} else if atAddress {
					q = catalog.Lookup{ID: found.Meta[0].ID}
				}
				w.delete(c, q, 1)
				wantNone := func() {
					t.Helper()
					for _, q := range []catalog.Lookup{by("npi", "0"), by("npi", "1"), by("eid", "1")} {
						w.wantFound(c, q)
					}
				}
				wantNone()
				close(release)
				g.Wait()
				wantNone()
				c.Close()
				w.pass(c, minutes)
				wantNone()
				w.check(c)
				if t.Failed() {
					t.Fatalf("deletion by ID %v, while the row in %s is delayed", atAddress, delayed)
				}
			})
		}
	}
}

// TestEntryStaysAfterAConflict answers an upsert with 409, as the service does if others write the same row at that moment. An applied entry must
// stay in the log until it is one of the changes.
func TestEntryStaysAfterAConflict(t *testing.T) {
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
		deleter := w.openOn(emulatortest.Open(w, w.emulator, via), nil)
		w.delete(deleter, by("eid", "1"), len(r))
		deleter.Close()
		if times.Load() == 0 {
			t.Fatal("no upsert got the answer 409")
		}
		if n := len(w.rows("PeopleWAL", "e|")) + len(w.rows("PeopleWAL", "c|")); n != 2 {
			t.Errorf("there are %d entries and changes, want those of the insertion and the deletion", n)
		}
		w.recover(c)
		c.Close()
		if pending, changes := len(w.rows("PeopleWAL", "e|")), len(w.rows("PeopleWAL", "c|")); pending != 0 || changes != 2 {
			t.Errorf("there are %d entries and %d changes, want 0 and 2", pending, changes)
		}
		w.check(c)
	})
}
