package catalog_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

// TestMoves lets writers move records while readers read the records in pages. A seed determines the request that is carried out next, so requests may be
// carried out in any order. Every selector, and every call that reads all pages, must find each record that exists all the time. Every reading must return a
// record that does not move exactly once. No answer may contain an older version than that of a write acknowledged before the request.
func TestMoves(t *testing.T) {
	testsize.WithoutRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // makes runs with one seed equal
	first, n := *firstSeed, cmp.Or(*moves, testsize.Slow[uint64](8, 48, 1000))
	if *oneSeed != 0 {
		first, n = *oneSeed, 1
	}
	var sum tally
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rand.Seed(int64(seed)) //lint:ignore SA1019 the SDK draws from the global source
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) { newMoves(t, seed, &sum).run() })
		}) {
			t.Fatalf("repeat it with: go test ./internal/catalog -run TestMoves -v -seed=%d", seed)
		}
	}
	t.Logf("%+v", sum)
}

// tally counts the events of all runs.
type tally struct{ requests, writes, busy, readings, calls, again int }

// turns carries out requests one at a time, in a random order.
type turns struct {
	next policy.Transporter
	mu   sync.Mutex
	all  []*turn
}

type turn struct {
	who  int
	what string
	go_  chan struct{}
}

// client is the transport of one process.
type client struct {
	*turns
	who int
}

var boundary = regexp.MustCompile(`(batch|changeset)_[0-9a-f-]+`)

func (c client) Do(r *http.Request) (*http.Response, error) {
	t := &turn{c.who, r.Method + r.URL.String(), make(chan struct{})}
	if strings.HasSuffix(r.URL.Path, "$batch") {
		body, _ := r.GetBody()
		text, _ := io.ReadAll(body)
		t.what += boundary.ReplaceAllString(string(text), "")
	}
	c.mu.Lock()
	c.all = append(c.all, t)
	c.mu.Unlock()
	select {
	case <-t.go_:
		return c.next.Do(r)
	case <-r.Context().Done():
		c.mu.Lock()
		c.all = slices.DeleteFunc(c.all, func(other *turn) bool { return other == t })
		c.mu.Unlock()
		return nil, r.Context().Err()
	}
}

// play carries out waiting requests until `done` is closed.
func (t *turns) play(rnd *randv2.Rand, done chan struct{}, requests *int) {
	for {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		pause := time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))
		t.mu.Lock()
		if len(t.all) == 0 { // all processes sleep
			pause = 500 * time.Millisecond
		} else {
			slices.SortFunc(t.all, func(a, b *turn) int { return cmp.Or(a.who-b.who, strings.Compare(a.what, b.what)) })
			i := rnd.IntN(len(t.all))
			if *oneSeed != 0 {
				what, _ := url.QueryUnescape(t.all[i].what)
				log.Printf("%v %d %.300s", time.Now().Format("05.000"), t.all[i].who, strings.ReplaceAll(what, "\r\n", " "))
			}
			close(t.all[i].go_)
			t.all = slices.Delete(t.all, i, i+1)
			*requests++
		}
		t.mu.Unlock()
		if rnd.IntN(16) == 0 {
			pause += time.Second
		}
		time.Sleep(pause)
	}
}

// movesRun is one run of TestMoves.
type movesRun struct {
	*world
	*turns
	*tally
	rnd *randv2.Rand

	mu    sync.Mutex
	acked map[string]int64 // by eid: the version of the record's last acknowledged write
	n     int              // number of writes
}

func newMoves(t *testing.T, seed uint64, sum *tally) *movesRun {
	w := newWorld(t, emulator.Options{}, "eid,npi,city", "lastname")
	proof.Must(t, w.emulator.SetFaults(fmt.Sprintf("seed=%d; short-page p=0.4; empty-page p=0.05 on=query times=1", seed)))
	return &movesRun{world: w, turns: &turns{next: w.emulator.Transport()}, tally: sum, rnd: randv2.New(randv2.NewPCG(seed, 7)), acked: map[string]int64{}}
}

// The numbers of the records: records that move, one of them with a different city, and records that stay.
const (
	movers = 2
	still  = 2
)

func (m *movesRun) process(who int) *catalog.Catalog {
	m.Helper()
	c := m.openOn(emulatortest.Open(m, m.emulator, client{m.turns, who}), nil)
	m.Cleanup(c.Close)
	return c
}

func (m *movesRun) run() {
	c := m.catalog()
	for i := range movers + still {
		m.wrote(c.Insert(m.Context(), m.record(i, m.rnd), ""))
	}
	c.Close()
	m.orphan()
	if m.rnd.IntN(2) == 0 {
		time.Sleep(2 * time.Second) // otherwise their times may be the same as those of the first moves
	}
	maintains := 0
	if m.rnd.IntN(4) == 0 {
		maintains = 1
	}
	done := make(chan struct{})
	var g sync.WaitGroup
	for who, do := range []func(*catalog.Catalog, *randv2.Rand){m.write, m.write, m.write, m.read, m.read, m.maintain}[:5+maintains] {
		rnd := randv2.New(randv2.NewPCG(m.rnd.Uint64(), 8))
		mine := m.process(who)
		g.Go(func() {
			do(mine, rnd)
			mine.Close()
		})
	}
	go func() {
		g.Wait()
		close(done)
	}()
	m.play(m.rnd, done, &m.requests)
	// No writer has moved the record away from the values of this selector.
	found, err := c.Find(m.Context(), by("eid", "E0"))
	if err != nil || len(slices.Collect(found.Records())) != 1 {
		m.Fatal(found, err)
	}
	_, err = c.Replace(m.Context(), slices.Collect(found.Records())[0], by("npi", "9"), always)
	wantKind(m, err, problem.NotFound)
}

// orphan lets a writer die after the commit of an insertion, before it writes the index rows. A selector by the first key must
// find the record, because it is committed.
func (m *movesRun) orphan() {
	if m.rnd.IntN(8) > 0 {
		return
	}
	c, p := m.mortal(0, false, nil)
	p.DieWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/People") })
	if _, err := c.Insert(m.Context(), rec(m, `{"eid":"O","npi":5,"lastname":"x"}`), ""); err == nil || !p.Dead() {
		m.Errorf("the writer did not die: %v", err)
	}
	c.Close()
	live, _ := m.mortal(0, false, nil)
	_, err := live.Patch(m.Context(), []byte(`{"lastname":"y"}`), by("eid", "O"), always)
	m.wrote(catalog.Written{}, err)
	live.Close()
}

// record returns a record. If the record is one that moves, its values are random.
func (m *movesRun) record(i int, rnd *randv2.Rand) record.Record {
	city, name, npi := "Bern", fmt.Sprintf("%c5", 'a'+i), 0
	if i == 0 {
		city = "Own"
	}
	if i < movers {
		name, npi = fmt.Sprintf("%c%d", 'a'+rnd.IntN(8), i), rnd.IntN(2)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	return rec(m, fmt.Sprintf(`{"eid":"E%d","npi":%d,"city":%q,"lastname":%q,"n":%d}`, i, npi, city, name, m.n))
}

// wrote stores the version of an acknowledged write.
func (m *movesRun) wrote(done catalog.Written, err error) {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if err != nil {
		if problem.Of(err).Kind != problem.Busy {
			m.Errorf("the write of a record that exists all the time fails: %v", err)
		}
		m.busy++
		return
	}
	eid, _ := done.Record.Get("eid")
	m.acked[eid] = max(m.acked[eid], version(done.Meta))
}

func version(meta catalog.Meta) int64 {
	n, _ := strconv.ParseInt(strings.Trim(meta.ETag, `"`), 10, 64)
	return n
}

func (m *movesRun) write(c *catalog.Catalog, rnd *randv2.Rand) {
	for range 3 {
		i := rnd.IntN(movers)
		r := m.record(i, rnd)
		q := by("eid", fmt.Sprint("E", i))
		if i == 0 && rnd.IntN(2) == 0 {
			q = by("city", "own")
		}
		switch rnd.IntN(4) {
		case 0, 1:
			m.wrote(c.Replace(m.Context(), r, q, always))
		case 2:
			name, _ := r.Get("lastname")
			m.wrote(c.Patch(m.Context(), []byte(fmt.Sprintf(`{"lastname":%q}`, name)), q, always))
		case 3:
			npi, _ := r.Get("npi")
			n, _ := r.Get("n")
			m.wrote(c.Patch(m.Context(), []byte(fmt.Sprintf(`{"npi":%s,"n":%s}`, npi, n)), q, always))
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
	}
}

func (m *movesRun) maintain(c *catalog.Catalog, rnd *randv2.Rand) {
	time.Sleep(time.Minute + time.Duration(rnd.Int64N(int64(time.Minute))))
	if err := c.Maintain(m.Context()); err != nil {
		m.Error(err)
	}
}

// read reads some of the records in pages.
func (m *movesRun) read(c *catalog.Catalog, rnd *randv2.Rand) {
	for range 2 {
		q := catalog.Lookup{Top: 1 + rnd.IntN(4)}
		read, from := c.Find, 0
		switch rnd.IntN(5) {
		case 0:
			q.Keys, from = map[string]string{"city": "bern"}, 1
		case 1:
			q.Keys, q.Or = map[string]string{"npi": "0"}, map[string][]string{"npi": {"1"}}
		case 2:
			q.Keys = map[string]string{"city": "own"}
		case 3:
			q.Keys, from = map[string]string{"npi": "0"}, movers // other records may match
		case 4:
			read = c.List
		}
		pause := time.Second
		if rnd.IntN(4) == 0 {
			pause = 100 * time.Second
		}
		m.pages(read, q, from, rnd, pause)
	}
}

// pages reads all pages of a query, or only the first page. The query must find the records whose numbers are from or greater.
func (m *movesRun) pages(read func(context.Context, catalog.Lookup) (catalog.Matches, error), q catalog.Lookup, from int, rnd *randv2.Rand, pause time.Duration) {
	seen, calls := map[string]int{}, 0
	for {
		calls++
		m.mu.Lock()
		acked := maps.Clone(m.acked)
		m.mu.Unlock()
		r, err := read(m.Context(), q)
		if err != nil {
			if problem.Of(err).Kind != problem.Busy {
				m.Errorf("the query %+v fails: %v", q, err)
			}
			m.mu.Lock()
			m.busy++
			m.mu.Unlock()
			return
		}
		if len(slices.Collect(r.Records())) > q.Top {
			m.Errorf("the query %+v returns a page with %d records", q, len(slices.Collect(r.Records())))
		}
		for i, one := range slices.Collect(r.Records()) {
			eid, _ := one.Get("eid")
			seen[eid]++
			if v := version(r.Meta[i]); v < acked[eid] {
				m.Errorf("the query %+v returns %s in version %d, but version %d was acknowledged before", q, one.AppendJSON(nil), v, acked[eid])
			}
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			break
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(pause))))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings++
	m.calls += calls
	to := movers + still
	if q.Keys["city"] == "own" {
		to = 1
	}
	for i := from; i < to; i++ {
		n := seen[fmt.Sprint("E", i)]
		if n != 1 && (calls == 1 || i >= movers) {
			m.Errorf("the query %+v returns E%d %d times in %d calls", q, i, n, calls)
		}
		m.again += max(0, n-1)
	}
}

// TestMovedWhileRead moves a record from an unread page to rows that were already read, several times, while one call reads. The call
// must still find the record, with one request to the log for each move. After too many moves, the error must be Busy. If no record
// moves, the call must read only pages.
func TestMovedWhileRead(t *testing.T) {
	t.Parallel()
	for _, moves := range []int{0, 1, 2, 10, 11} {
		for _, list := range []bool{false, true} {
			inBubble(t, "eid,city,tag", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
				for i := range 5 {
					w.insertAll(c, map[string]any{"eid": "1", "city": "Bern", "lastname": fmt.Sprint("b", i)})
				}
				w.insertAll(c, map[string]any{"eid": "1", "city": "Bern", "tag": "t", "lastname": "y"})
				move := func(to string) {
					w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"`+to+`"}`), by("tag", "t"), always))
				}
				move("z")
				time.Sleep(3 * time.Second) // older moves take no requests
				w.delete(c, catalog.Lookup{Keys: map[string]string{"eid": "1"}, RowFrom: "b4", RowTo: "b4"}, 1)
				c.Close()
				q, partition := catalog.Lookup{Keys: map[string]string{"city": "bern"}}, "'4_citybern'"
				if list {
					q.Keys, partition = nil, "'3_eid1'"
				}
				proof.Must(t, w.emulator.SetFaults("short-page p=1"))
				log, pages := 0, 0
				at, release := make(chan struct{}), make(chan struct{})
				reader := w.gated(func(what string) chan struct{} {
					if strings.Contains(what, "PeopleWAL") {
						log++
					}
					if strings.Contains(what, "/People()") && (list || strings.Contains(what, partition)) {
						if pages++; pages == 2 {
							close(at)
							return release
						}
					}
					return nil
				})
				proof.Must(t, reader.Readable(t.Context()))
				log = 0
				read := reader.Find
				if list {
					read = reader.List
				}
				var found catalog.Matches
				var err error
				var g sync.WaitGroup
				g.Go(func() { found, err = read(t.Context(), q) })
				<-at
				last := "z"
				for i := range moves {
					last = fmt.Sprintf("a%02d", i)
					move(last)
				}
				c.Close()
				close(release)
				g.Wait()
				var names []string
				for _, one := range slices.Collect(found.Records()) {
					name, _ := one.Get("lastname")
					names = append(names, name)
				}
				switch {
				case moves > 10:
					wantKind(t, err, problem.Busy)
				case err != nil || log != moves:
					t.Errorf("%d moves, a list %v: the call makes %d requests to the log, error %v", moves, list, log, err)
				case !slices.Contains(names, last) || len(names) != 5:
					t.Errorf("%d moves, a list %v: the call returns %q; the moved record is now %q", moves, list, names, last)
				}
			})
		}
	}
}
