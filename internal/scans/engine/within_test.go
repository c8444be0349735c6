package engine_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
)

// claims returns the ids of the scans that have claimed places in the container, except members of groups.
func (w *world) claims() (ids []ledger.ScanID) {
	w.Helper()
	for name := range w.blobs("") {
		at, object := "", name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			at, object = name[:i], name[i+1:]
		}
		claimOf := map[string]func() (place.Claim, error){
			place.ClaimName:     func() (place.Claim, error) { return place.ClaimOf(w.Context(), w.objects(at)) },
			"tables-claim.json": func() (place.Claim, error) { return place.TablesClaimOf(w.Context(), w.objects(at)) },
		}[object]
		if claimOf == nil {
			continue
		}
		c, err := claimOf()
		w.must(err)
		if id := ledger.ScanID(c.ID); !id.IsMember() {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestNestedExportsStartConcurrently starts two exports at the same time, one within the other. They never both begin. Unless processes die, one export begins, and
// the other leaves no objects. If a process dies, another process continues the export that has a claim.
func TestNestedExportsStartConcurrently(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	began := [3]int{}
	for seed := range uint64(testsize.Slow(15, 80, 400)) {
		synctest.Test(t, func(t *testing.T) { began[exportsStartAtOnce(t, seed)]++ })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if testsize.Full() && (began[0] == 0 || began[1] == 0 || began[2] == 0) {
		t.Errorf("of the runs, none, the outer or the inner export began in %v, want each at least once", began)
	}
}

func exportsStartAtOnce(t *testing.T, seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 58))
	w := withTables(t, 2)
	w.must(w.objects("").Make(t.Context()))
	var mu sync.Mutex
	w.process.Next = transport(func(q *http.Request) (*http.Response, error) {
		mu.Lock()
		before, behind := time.Duration(r.IntN(100))*time.Millisecond, time.Duration(r.IntN(100))*time.Millisecond
		mu.Unlock()
		time.Sleep(before)
		defer time.Sleep(behind)
		return w.emulator.Transport().Do(q)
	})
	dies := seed%3 == 0
	if dies {
		w.process.DieWith(8+r.IntN(50), r.IntN(2) == 0)
	}
	var ids [2]ledger.ScanID
	var errs [2]error
	var both sync.WaitGroup
	for i, prefix := range []string{"p", "p/a/b"} {
		mu.Lock()
		one, later := r.IntN(2) == 0, time.Duration(r.IntN(2000))*time.Millisecond
		mu.Unlock()
		request := exportRequest("Table00", prefix)
		if !one {
			request = groupExport(prefix)
		}
		both.Go(func() {
			time.Sleep(later)
			ids[i], errs[i] = w.engine.Start(t.Context(), request)
		})
	}
	both.Wait()
	w.process.DieWith(0, false)
	if w.process.Dead() {
		w.restart()
	}
	for range 15 { // the messages of a dead process are hidden for ten minutes
		time.Sleep(time.Minute)
		w.must(w.engine.Maintain(t.Context()))
		w.drain()
	}
	list, err := w.list(10)
	w.must(err)
	var succeeded []ledger.ScanID
	which := 0
	for _, s := range list {
		if s.State != ledger.Succeeded {
			t.Errorf("the scan is %s with error %q", s.State, s.Error)
		}
		succeeded = append(succeeded, s.ID)
		if which = 1; strings.Contains(s.Action.Destination.Prefix, "/") {
			which = 2
		}
	}
	if left := w.claims(); len(list) > 1 || !slices.Equal(left, succeeded) {
		t.Errorf("exports %v have begun, and %v have claims, want the same ones", succeeded, left)
	}
	for i, err := range errs {
		if err == nil && !slices.Contains(succeeded, ids[i]) || err != nil && !dies && problem.Of(err).Kind != problem.Conflict {
			t.Errorf("start of %s: error %v; exports %v have begun", ids[i], err, succeeded)
		}
	}
	if !dies && len(list) == 0 {
		t.Errorf("neither export has begun; errors %v", errs)
	}
	if len(w.ledgerRows("scans", "r|")) > 0 && !dies {
		t.Error("a start request is left")
	}
	return which
}

// The settings do not show that two connections name one account. So if the exports of two schedules lie within each other, one of them is refused when
// they start.
func TestNestedExportsOfTwoConnections(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := withSource(t, 3, 2)
			source := map[bool]string{false: `"table":"Source"`, true: `"tables":"*"`}[many]
			one := `{"name":%q,"cron":"0 0 3 * * *","request":{"source":{` + source + `},"action":{"type":"copy","destination":{"container":"exports","prefix":%q,"connection":%q}}}}`
			schedules, err := schedule.ParseSchedules("[" + fmt.Sprintf(one, "outer", "p/{date}", "BACKUP") + "," + fmt.Sprintf(one, "inner", "p/{date}/inner", "OTHER") + "]")
			w.must(err)
			w.options = append(w.options, func(o *options) {
				o.Schedules, o.Accounts["BACKUP"], o.Accounts["OTHER"] = schedules, w.account, w.account
			})
			w.observer = w.newEngine(w.account)
			w.restart()
			w.must(w.engine.CheckSchedules(), w.engine.AdvanceSchedules(t.Context(), true))
			w.passNight()
			all, err := w.observer.Schedules(t.Context())
			w.must(err)
			var states []ledger.State
			for _, s := range all.Schedules {
				if states = append(states, s.Last.State); s.Last.State == ledger.Failed && !strings.Contains(s.Last.Error, "lies within the export") && !strings.Contains(s.Last.Error, "is taken") {
					t.Errorf("the last scan is %+v, want it ended", s.Last)
				}
			}
			if slices.Sort(states); !slices.Equal(states, []ledger.State{ledger.Failed, ledger.Succeeded}) {
				t.Errorf("the states are %v, want one refused; the last scans are %+v and %+v", states, all.Schedules[0].Last, all.Schedules[1].Last)
			}
			if left := w.claims(); len(left) != 1 {
				t.Errorf("scans %v have claims, want one", left)
			}
		})
	}
}
