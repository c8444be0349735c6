package catalog_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestSuspendedFirstDeletion suspends the first try of a deletion after it has read the head of a record that was written after its
// claim. A repetition takes the claim over, another request deletes that record, and the repetition ends, but cannot store its
// answer. Another record is inserted. The first try continues, and must not delete the new record.
func TestSuspendedFirstDeletion(t *testing.T) {
	t.Parallel()
	for _, at := range [][]string{{"GET", "PartitionKey eq 'claims'"}, {"PeopleWAL HTTP", `"tsw_kind":"delete"`}} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			const text = `{"eid":"5","npi":"7","lastname":"First"}`
			on := catalog.Condition{Invocation: "id"}
			claimed, seen, goOn := holdOnce("GET", "PeopleWAL()", "RowKey ge 'h|")
			hold, reached, release := holdOnce(at...)
			frozen := w.gated(func(what string) chan struct{} {
				if wait := claimed(what); wait != nil {
					return wait
				}
				return hold(what)
			})
			var g sync.WaitGroup
			g.Go(func() {
				if done, err := frozen.Delete(t.Context(), by("eid", "5"), on, nil); err != nil || done.Records != 0 {
					t.Errorf("%v: the first try returns %+v, error %v", at, done, err)
				}
			})
			<-seen
			time.Sleep(time.Second)
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), rec(t, text), ""))
			c.Close()
			close(goOn)
			<-reached
			synctest.Wait()
			time.Sleep(time.Second)
			next := w.emulator.Transport()
			other := w.via(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(describe(r), `"Answer"`) {
					return nil, errors.New("connection reset by peer")
				}
				return next.Do(r)
			})
			if again, err := other.Delete(storage.WithPatience(t.Context(), time.Second), by("eid", "5"), on, nil); err != nil || again != (catalog.Deleted{Repeated: true}) {
				t.Errorf("%v: the repetition returns %+v, error %v", at, again, err)
			}
			other.Close()
			w.delete(c, by("eid", "5"), 1)
			newer := rec(t, text)
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), newer, ""))
			c.Close()
			close(release)
			g.Wait()
			w.wantFound(c, by("eid", "5"), newer)
			w.check(c)
		})
	}
}

// TestConcurrentDeletes sends one deletion several times concurrently, with faults. If one of the answers is not that of a repetition,
// the stored answer must equal it. Otherwise the stored answer must equal that of a repetition. Each record must be counted once.
func TestConcurrentDeletes(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Slow(40, 100, 400) {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "Faux"})
			c.Close()
			time.Sleep(time.Second)
			proof.Must(t, w.emulator.SetFaults(fmt.Sprintf("seed=%d; latency=1ms..40ms", seed)))
			on := catalog.Condition{Once: "key"}
			answers := make([]catalog.Deleted, 4)
			var g sync.WaitGroup
			for i := range answers {
				one := w.openOn(emulatortest.Open(t, w.emulator, w.emulator.Transport()), nil)
				g.Go(func() {
					defer one.Close()
					time.Sleep(time.Duration(seed*(i+1)*7%60) * time.Millisecond)
					var err error
					if answers[i], err = one.Delete(t.Context(), by("npi", "7"), on, nil); err != nil {
						t.Error(err)
					}
				})
			}
			g.Wait()
			kept, err := c.Delete(t.Context(), by("npi", "7"), on, nil)
			proof.Must(t, err)
			found := false
			for _, a := range answers {
				found = found || a == kept
				if !a.Repeated && a != kept {
					t.Errorf("seed %d: a first answer differs from the stored one: answers %+v, stored %+v", seed, answers, kept)
				}
			}
			if !found {
				t.Errorf("seed %d: no caller got the stored answer: answers %+v, stored %+v", seed, answers, kept)
			}
			w.wantFound(c, by("npi", "7"))
		})
	}
}
