package catalog_test

import (
	"cmp"
	"context"
	"encoding/base64"
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
	"tablesweep/internal/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

// TestMoves lets writers move records while readers read them by pages. A seed decides which request is
// carried out next, so any two requests may come in any order. A record that is there all the
// time is found by every selector and in every reading, unless the answer says that it may be
// missing; no answer is older than a write that was acknowledged before the request.
func TestMoves(t *testing.T) {
	testsize.WithoutRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the same seed is to be the same run
	first, n := *firstSeed, cmp.Or(*moves, testsize.Slow[uint64](16, 96, 1000))
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

// tally says what the histories have had.
type tally struct{ requests, writes, busy, readings, changed, again int }

// turns lets requests be carried out one at a time, in an order that it draws.
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

// play draws until done is closed.
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
		if len(t.all) == 0 { // all of them sleep
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

// movesRun is one history.
type movesRun struct {
	*world
	*turns
	*tally
	rnd *randv2.Rand

	mu    sync.Mutex
	acked map[string]int64 // the version of each record's last acknowledged write, by eid
	n     int              // of the writes
}

func newMoves(t *testing.T, seed uint64, sum *tally) *movesRun {
	w := newWorld(t, emulator.Options{}, "eid,npi,city", "lastname")
	if err := w.emulator.SetFaults(fmt.Sprintf("seed=%d; short-page p=0.4; empty-page p=0.05 on=query times=1", seed)); err != nil {
		t.Fatal(err)
	}
	return &movesRun{world: w, turns: &turns{next: w.emulator.Transport()}, tally: sum, rnd: randv2.New(randv2.NewPCG(seed, 7)), acked: map[string]int64{}}
}

// The records: those that move, one with a city of its own, and those that stay.
const (
	movers = 2
	still  = 2
)

func (m *movesRun) process(who int) *catalog.Catalog {
	m.Helper()
	c := m.on(emulatortest.Open(m, m.emulator, client{m.turns, who}), nil)
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
		time.Sleep(2 * time.Second) // else their times can't be told from those of the first moves
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
	// Nobody has moved it from where this selector looks.
	found, err := c.Find(m.Context(), by("eid", "E0"))
	if err != nil || len(found.Records) != 1 {
		m.Fatal(found, err)
	}
	_, err = c.Replace(m.Context(), found.Records[0], by("npi", "9"), always)
	wantKind(m, err, problem.NotFound)
}

// orphan lets a writer die between the commit of an insertion and its rows. The record is committed:
// by its first key, it is there.
func (m *movesRun) orphan() {
	if m.rnd.IntN(8) > 0 {
		return
	}
	c, p := m.mortal(0, false, nil)
	p.DieWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/People") })
	if _, err := c.Insert(m.Context(), rec(m, `{"eid":"O","npi":5,"lastname":"x"}`), ""); err == nil || !p.Dead() {
		m.Errorf("the writer lives: %v", err)
	}
	c.Close()
	live, _ := m.mortal(0, false, nil)
	_, err := live.Patch(m.Context(), []byte(`{"lastname":"y"}`), by("eid", "O"), always)
	m.wrote(catalog.Written{}, err)
	live.Close()
}

// record returns a record with a place that is drawn, if it is one that moves.
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

// wrote notes an acknowledged write.
func (m *movesRun) wrote(done catalog.Written, err error) {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if err != nil {
		if problem.Of(err).Kind != problem.Busy {
			m.Errorf("a write of a record that is always there: %v", err)
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

// read reads some of the records by pages.
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
			q.Keys, from = map[string]string{"npi": "0"}, movers // the others may be there
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

// pages reads all pages of a query that asks for the records from one on, or the first alone.
func (m *movesRun) pages(read func(context.Context, catalog.Lookup) (catalog.Matches, error), q catalog.Lookup, from int, rnd *randv2.Rand, pause time.Duration) {
	seen, changed := map[string]int{}, false
	for {
		m.mu.Lock()
		acked := maps.Clone(m.acked)
		m.mu.Unlock()
		r, err := read(m.Context(), q)
		if err != nil {
			if problem.Of(err).Kind != problem.Busy {
				m.Errorf("%+v: %v", q, err)
			}
			m.mu.Lock()
			m.busy++
			m.mu.Unlock()
			return
		}
		if len(r.Records) > q.Top {
			m.Errorf("%+v: %d records", q, len(r.Records))
		}
		for i, one := range r.Records {
			eid, _ := one.Get("eid")
			seen[eid]++
			if v := version(r.Meta[i]); v < acked[eid] {
				m.Errorf("%+v answers %s in version %d, %d was acknowledged before", q, one.AppendJSON(nil), v, acked[eid])
			}
		}
		changed = changed || r.Changed
		if q.Cursor = r.Cursor; q.Cursor == "" {
			break
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(pause))))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings++
	if changed {
		m.changed++
	}
	to := movers + still
	if q.Keys["city"] == "own" {
		to = 1
	}
	for i := from; i < to; i++ {
		n := seen[fmt.Sprint("E", i)]
		if n == 0 && !changed || i >= movers && n != 1 {
			m.Errorf("%+v answers E%d %d times, changed %v", q, i, n, changed)
		}
		m.again += max(0, n-1)
	}
}

// TestMovedWhileRead moves a record from behind a page to ahead of it, several times. It is still found, at
// the cost of a request to the log for each move. After too many moves the answer says so: 503 if
// it can be asked for again, and "changed" if it can't. Without a move, nothing but pages is read.
func TestMovedWhileRead(t *testing.T) {
	t.Parallel()
	for _, moves := range []int{0, 1, 2, 10, 11} {
		for _, within := range []string{"cursors", "an answer", "a list"} {
			inBubble(t, "eid,city,tag", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
				for i := range 5 {
					w.insertAll(c, map[string]any{"eid": "1", "city": "Bern", "lastname": fmt.Sprint("b", i)})
				}
				w.insertAll(c, map[string]any{"eid": "1", "city": "Bern", "tag": "t", "lastname": "y"})
				move := func(to string) {
					w.did(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"`+to+`"}`), by("tag", "t"), always))
				}
				move("z")
				time.Sleep(2 * time.Second) // older moves cost nothing
				w.delete(c, catalog.Lookup{Keys: map[string]string{"eid": "1"}, RowFrom: "b4", RowTo: "b4"}, 1)
				c.Close()

				q := catalog.Lookup{Keys: map[string]string{"city": "bern"}, Top: 2}
				log := 0
				second, at, release := holdOnce("/People()", "'4_citybern' and RowKey gt")
				switch within {
				case "a list":
					q.Keys = nil
					second, at, release = holdOnce("/People()", "'3_eid1' and RowKey gt")
				case "an answer":
					q.Top = 0
					second, at, release = holdOnce("/People()", "'4_citybern' and RowKey gt")
					if err := w.emulator.SetFaults("short-page p=1"); err != nil {
						t.Fatal(err)
					}
				}
				reader := w.gated(func(what string) chan struct{} {
					if strings.Contains(what, "PeopleWAL") {
						log++
					}
					return second(what)
				}, nil)
				if err := reader.Readable(t.Context()); err != nil {
					t.Fatal(err)
				}
				log = 0
				read := reader.Find
				if q.Keys == nil {
					read = reader.List
				}
				var names []string
				var changed bool
				var err error
				var g sync.WaitGroup
				g.Go(func() {
					for more := true; more && err == nil; more = q.Cursor != "" {
						var r catalog.Matches
						r, err = read(t.Context(), q)
						for _, one := range r.Records {
							name, _ := one.Get("lastname")
							names = append(names, name)
						}
						changed, q.Cursor = changed || r.Changed, r.Cursor
					}
				})
				<-at
				last := "z"
				for i := range moves {
					last = fmt.Sprintf("a%02d", i)
					move(last)
				}
				c.Close()
				close(release)
				g.Wait()
				lost := moves > 10
				switch {
				case lost && within == "an answer":
					wantKind(t, err, problem.Busy)
				case err != nil || changed != lost || log != min(moves, 10):
					t.Errorf("%d moves within %s: changed %v, %d requests to the log, %v", moves, within, changed, log, err)
				case slices.Contains(names, last) == lost || !lost && len(names) != 5:
					t.Errorf("%d moves within %s: %q, of which one is now %q", moves, within, names, last)
				}
			})
		}
	}
}

// TestChangedIsSaid: a cursor whose records may have moved without a trace says so, and no other does.
func TestChangedIsSaid(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,city", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		for i := range 4 {
			w.insertAll(c, map[string]any{"eid": fmt.Sprint(i), "city": "Bern", "lastname": fmt.Sprint("b", i)})
		}
		first := func() string {
			t.Helper()
			r, err := c.Find(t.Context(), catalog.Lookup{Keys: map[string]string{"city": "bern"}, Top: 2})
			if err != nil || r.Changed || r.Cursor == "" {
				t.Fatal(r, err)
			}
			return r.Cursor
		}
		want := func(what, cursor string, changed bool) {
			t.Helper()
			r, err := c.Find(t.Context(), catalog.Lookup{Keys: map[string]string{"city": "bern"}, Top: 2, Cursor: cursor})
			if err != nil || r.Changed != changed {
				t.Errorf("%s: changed %v, %v", what, r.Changed, err)
			}
		}
		later := func() {
			c.Close()
			time.Sleep(2 * time.Minute)
			w.maintain(c)
		}
		cursor := first()
		w.insertAll(c, map[string]any{"eid": "x", "city": "Bern", "lastname": "x"})
		w.delete(c, by("eid", "x"), 1)
		later()
		want("what was cleared away was deleted", cursor, false)
		w.did(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"a"}`), by("eid", "3"), always))
		want("nothing was cleared away", cursor, false)
		later()
		want("a move was cleared away", cursor, true)
		time.Sleep(2 * time.Minute)
		cursor = first()
		later()
		want("a move was cleared away before", cursor, false)
		time.Sleep(25 * time.Hour)
		want("what is cleared away by age", cursor, true)

		cursor = first()
		text, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			t.Fatal(err)
		}
		undated := regexp.MustCompile(`,"d":\d+`).ReplaceAll(text, nil)
		want("nobody knows when", base64.RawURLEncoding.EncodeToString(undated), true)
	})
}

// TestPlaceTakenWhileRead: a record moves from behind a page to ahead of it, and another record takes its place, which led
// to it. The answer says that a record may be missing, whatever becomes of the other one. It does not if the record
// itself has come back, or had gone before the first page.
func TestPlaceTakenWhileRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before, after string
		changed       bool
	}{
		{"", "move y a, insert y", true},
		{"", "move y a, insert y, change y", true},
		{"", "move y a, insert y, delete y", true},
		{"", "move y a, insert y, delete y, maintain", true},
		{"insert z", "move y a, move z y", true},
		{"move y a, insert y", "insert z", false},
		{"", "move y a, move a y, change y", false},
	} {
		inBubble(t, "eid,city", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			n := 0
			do := func(all string) {
				for _, one := range strings.Split(all, ", ") {
					what := strings.Fields(one + " - -")
					n++
					r := rec(t, fmt.Sprintf(`{"eid":"1","city":"Bern","lastname":%q,"n":%d}`, what[1], n))
					q := catalog.Lookup{Keys: map[string]string{"eid": "1"}, RowFrom: what[1], RowTo: what[1]}
					switch what[0] {
					case "insert":
						w.did(catalog.Created)(c.Insert(t.Context(), r, ""))
					case "change":
						w.did(catalog.Replaced)(c.Put(t.Context(), r, always))
					case "move":
						w.did(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"lastname":"`+what[2]+`"}`), q, always))
					case "delete":
						w.delete(c, q, 1)
					case "maintain":
						c.Close()
						time.Sleep(2 * time.Minute)
						w.maintain(c)
					}
				}
			}
			do("insert b, insert c, insert d, insert x, insert y")
			do(tt.before)
			time.Sleep(2 * time.Second)
			var next []func() (catalog.Matches, error)
			for _, keys := range []map[string]string{nil, {"city": "bern"}} {
				read := c.Find
				if keys == nil {
					read = c.List
				}
				r, err := read(t.Context(), catalog.Lookup{Keys: keys, Top: 3})
				if err != nil || r.Changed || r.Cursor == "" {
					t.Fatal(r, err)
				}
				next = append(next, func() (catalog.Matches, error) {
					return read(t.Context(), catalog.Lookup{Keys: keys, Cursor: r.Cursor})
				})
			}
			do(tt.after)
			for _, read := range next {
				if r, err := read(); err != nil || r.Changed != tt.changed {
					t.Errorf("%s: changed %v, %v", tt.after, r.Changed, err)
				}
			}
		})
	}
}
