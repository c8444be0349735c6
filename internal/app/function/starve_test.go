package function_test

import (
	"fmt"
	"net/http"
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

// tally counts the answers of one kind of call, by status.
type tally struct {
	mu    sync.Mutex
	kinds map[string]map[int]int
}

func (a *tally) add(kind string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds[kind] == nil {
		a.kinds[kind] = map[int]int{}
	}
	a.kinds[kind][status]++
}

// TestEveryCallIsAnswered: 500 concurrent calls arrive at a small instance, while other work uses all of its memory for nearly as long as calls wait. Each call
// succeeds, or its answer advises a later retry. Every small call succeeds.
func TestEveryCallIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		a := newAppVia(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(*http.Request, string) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond) // so that calls overlap
			return nil, nil
		}})
		a.parts.Memory = memory.NewBudget(146 << 20) // the budget of an instance with 512 MB
		a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.Nop())
		stored, _ := largeRecords(t, 10, 200_000)
		for i := range 180 {
			r, err := record.Parse(fmt.Appendf(nil, `{"eid":"s%d","npi":"s%d","lastname":"L"}`, i, i))
			proof.Must(t, err)
			stored = append(stored, r)
		}
		for _, done := range a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(stored), nil) {
			proof.Must(t, done.Err)
		}
		bulk := "[" + strings.Repeat(`{"text":"`+strings.Repeat("x", 30_000)+`"},`, 10) + `{"a":1}]`
		zipped := gzipText(t, bulk)
		others, err := a.parts.Memory.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		time.AfterFunc(9900*time.Millisecond, others.Release)
		var answers tally
		answers.kinds = map[string]map[int]int{}
		var calls sync.WaitGroup
		for _, kind := range []struct {
			name, method, path, body string
			calls, first             int
			header                   []string
		}{
			{"large: list", "GET", people + "?npi=7", "", 50, 0, nil},
			{"large: changes", "GET", "/api/catalog/changes?top=1000", "", 20, 0, nil},
			{"large: PATCH", "PATCH", people + "?eid=000DIGIT", `{"x":NUMBER}`, 50, 0, nil},
			{"large: POST", "POST", "/api/log/sNUMBER", bulk, 60, 0, nil},
			{"large: packed POST", "POST", "/api/log/sNUMBER", zipped, 20, 0, []string{"Content-Encoding", "gzip"}},
			{"small: lookup", "GET", people + "?eid=sNUMBER", "", 50, 0, nil},
			{"small: POST", "POST", people, `{"eid":"newNUMBER","lastname":"L"}`, 50, 0, nil},
			{"small: PATCH", "PATCH", people + "?npi=sNUMBER", `{"x":1}`, 50, 0, nil},
			{"small: DELETE", "DELETE", people + "?npi=sNUMBER", "", 50, 50, nil},
			{"small: events", "POST", "/api/log/orders", `{"n":NUMBER}`, 50, 0, nil},
			{"small: scans", "GET", "/api/scans", "", 50, 0, nil},
		} {
			synctest.Wait() // small calls arrive after large ones, so they would wait behind these
			for i := range kind.calls {
				n := kind.first + i
				filled := strings.NewReplacer("NUMBER", fmt.Sprint(n), "DIGIT", fmt.Sprint(n%10))
				calls.Go(func() {
					header := append([]string{"X-Azure-Functions-InvocationId", fmt.Sprint(kind.name, i)}, kind.header...)
					answers.add(kind.name, a.send(kind.method, filled.Replace(kind.path), filled.Replace(kind.body), header...).Code)
				})
			}
		}
		calls.Wait()
		all, large := 0, 0
		for kind, of := range answers.kinds {
			t.Logf("%s: %v", kind, of)
			for status, n := range of {
				if all += n; status != 200 && status != 201 && (status != 503 || strings.HasPrefix(kind, "small")) {
					t.Errorf("%s: %d answers with status %d", kind, n, status)
				}
			}
			if strings.HasPrefix(kind, "large") {
				large += of[200] + of[201]
			}
		}
		if all != 500 || large == 0 || large == 200 {
			t.Errorf("%d answers in all; %d of 200 large calls succeeded, want some", all, large)
		}
		if u := a.parts.Memory.Usage(); u.Most > u.Bytes {
			t.Errorf("%+v", u)
		}
		checkFree(t, a.parts.Memory, "at the end")
	})
}
