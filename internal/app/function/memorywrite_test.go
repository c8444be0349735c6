package function_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/task/memory"
)

// TestChangesWaitForMemory: if a call with a body of more than usual size turns out to need more memory for the record, the call waits for that memory.
func TestChangesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 64<<20)
		records, _ := largeRecords(t, 1, 400_000)
		proof.Must(t, a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil)[0].Err)
		for _, bytes := range []int{1000, 25_000} {
			other, err := b.Take(t.Context(), 56<<20)
			proof.Must(t, err)
			time.AfterFunc(2*time.Second, other.Release)
			start := time.Now()
			if w := a.send("PATCH", people+"?npi=7", `{"x":"`+strings.Repeat("y", bytes)+`"}`); w.Code != 200 || time.Since(start) != 2*time.Second {
				t.Errorf("a patch of %d bytes: status %d after %v, want 200 once memory is free", bytes, w.Code, time.Since(start))
			}
		}
		checkFree(t, b, "at the end")
	})
}

// TestRepeatedChangeReservesMemory: the answer to a repetition contains the large record, so the call reserves memory for it. Once memory is free, the answer
// is the first try's answer.
func TestRepeatedChangeReservesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 64<<20)
		records, _ := largeRecords(t, 1, 400_000)
		proof.Must(t, a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil)[0].Err)
		change := func() *httptest.ResponseRecorder {
			return a.send("PATCH", people+"?npi=7", `{"x":1}`, "Idempotency-Key", "k")
		}
		all, err := b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		if w := change(); w.Code != 503 {
			t.Errorf("without memory: status %d", w.Code)
		}
		all.Release()
		first := change()
		all, err = b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		if w := change(); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("a repetition without memory: status %d, %d bytes used", w.Code, w.Body.Len())
		}
		all.Release()
		if w := change(); w.Code != 200 || w.Body.String() != first.Body.String() || w.Header().Get("ETag") != first.Header().Get("ETag") {
			t.Errorf("a repetition: status %d: %.200s; the first answer: status %d: %.200s", w.Code, w.Body, first.Code, first.Body)
		}
		checkFree(t, b, "at the end")
	})
}

// TestWritesOfLargeRecordsReserveMemory: a call that changes or deletes a large record reserves memory for the data that it reads and writes, however small its
// body is. If there is no memory in time, the call writes nothing.
func TestWritesOfLargeRecordsReserveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, texts := largeRecords(t, 1, 400_000)
		text := int64(len(texts[0]))
		for _, call := range []struct {
			method, query, body string
			least               int64 // the memory that the call uses, as a multiple of the record's text
		}{
			{"PATCH", "?npi=7", `{"x":1}`, 15}, {"PATCH", "?eid=0000", `{"x":2}`, 15}, {"PATCH", "", `{"x":3}`, 15}, {"PUT", "?npi=7", `{"eid":"0000","lastname":"L"}`, 3},
			{"DELETE", "?npi=7", "", 6}, {"DELETE", "?eid=0000", "", 6}, {"DELETE", "", "", 6},
		} {
			what := call.method + " " + call.query
			a, b := newAppWithin(t, 64<<20)
			inserted := a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil)
			proof.Must(t, inserted[0].Err)
			at := "/api/catalog/records/" + inserted[0].ID
			path := people + call.query
			if call.query == "" {
				path = at
			}
			all, err := b.Take(t.Context(), 1<<40)
			proof.Must(t, err)
			if w := a.send(call.method, path, call.body); w.Code != 503 || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s without memory: status %d: %.300s; want 503", what, w.Code, w.Body)
			}
			all.Release()
			if w := a.send("GET", at, ""); w.Header().Get("ETag") != inserted[0].ETag || w.Code != 200 {
				t.Errorf("%s without memory has changed the record: status %d: %s", what, w.Code, w.Header().Get("ETag"))
			}
			checkFree(t, b, what)
			a.parts.Memory = memory.NewBudget(64 << 20)
			a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.Nop())
			if w := a.send(call.method, path, call.body); w.Code != 200 || strings.Contains(w.Body.String(), "repeated") {
				t.Errorf("%s: status %d, body %.300s; want 200 without a repetition", what, w.Code, w.Body)
			}
			if u := a.parts.Memory.Usage(); u.Most < call.least*text || u.Used != 0 {
				t.Errorf("%s of a record of %d bytes: memory %+v, want a maximum of at least %d times the record", what, text, u, call.least)
			}
		}
	})
}

// TestDeletionStopsWithoutMemory: if a deletion finds no memory for the next, larger records, its answer reports that there are more, and a repeated call
// continues.
func TestDeletionStopsWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		var mu sync.Mutex // guards the fields below
		var b *memory.Budget
		var others []*memory.Part
		a := newAppVia(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, body string) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if b != nil && others == nil && strings.Contains(body, "tsw_kind") { // the commit of a deletion
				for ok := true; ok; {
					var p *memory.Part
					p, ok = b.TryTake(memory.Small + 1)
					others = append(others, p)
				}
			}
			return nil, nil
		}})
		stored, _ := largeRecords(t, 20, 400_000)
		for i := range 1000 {
			r, err := record.Parse(fmt.Appendf(nil, `{"eid":"s%d","npi":"7","lastname":"A"}`, i))
			proof.Must(t, err)
			stored = append(stored, r)
		}
		for _, done := range a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(stored), nil) {
			proof.Must(t, done.Err)
		}
		a.parts.Catalogs[""].Close() // wait until the insertions are finished, because their requests contain the kind of an entry as well
		mu.Lock()
		b = memory.NewBudget(64 << 20)
		mu.Unlock()
		a.parts.Memory = b
		a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.Nop())
		a.call(t, "DELETE", people+"?npi=7", "", 200, `{"deleted":1000,"more":true}`)
		for _, p := range others {
			p.Release()
		}
		checkFree(t, b, "a deletion that has not ended")
		a.call(t, "DELETE", people+"?npi=7", "", 200, `{"deleted":20}`)
		checkFree(t, b, "at the end")
	})
}
