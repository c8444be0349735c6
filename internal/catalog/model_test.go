//go:debug randseednop=0
package catalog_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "runs only this seed, and logs its requests")
	firstSeed = flag.Uint64("first", 1, "the first seed")
	seeds     = flag.Uint64("seeds", uint64(testsize.Slow(2, 10, 1000)), "number of seeds")
	moves     = flag.Uint64("moves", 0, "number of seeds of TestMoves, instead of a small number")
)

// TestModel lets 8 writers work concurrently on few records. Their clocks are wrong by up to 5 minutes. The storage fails, and
// writers and recovering processes die at any request. The committed operations, in their order, must be legal on a map in
// memory, and queries by every index key must agree with the map. A tenth of the runs first takes over tables of the published
// program. In another tenth, the schema changes meanwhile.
func TestModel(t *testing.T) {
	testsize.WithoutRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // makes runs with one seed equal
	first, n := *firstSeed, *seeds
	list := []uint64{474} // two writers overtake a refused write, which must complete their writes
	if *oneSeed != 0 {
		first, n, list = *oneSeed, 1, nil
	}
	for seed := first; seed < first+n; seed++ {
		list = append(list, seed)
	}
	for _, seed := range list {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { model(t, seed) }) {
			t.Fatalf("repeat it with: go test ./internal/catalog -run TestModel -v -seed=%d", seed)
		}
	}
}

func model(t *testing.T, seed uint64) {
	rand.Seed(int64(seed)) //lint:ignore SA1019 the SDK draws from the global source
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, seed)
		if seed%10 == 3 {
			m.takeOver()
		}
		if seed%10 == 6 {
			m.work(m.migrate)
		} else {
			m.work()
		}
		m.settle()
		m.explain()
		m.compare()
		time.Sleep(25 * time.Hour)
		m.settle()
		m.compare()
		m.tidy()
	})
}

const (
	writers    = 8
	operations = 8 // number of operations of each writer
)

// operation is one call of a writer, and its result.
type operation struct {
	n          int64 // number of the operation; also the record's field "note"
	kind       wal.Kind
	from, to   int64 // logical times of the call and the return
	record     record.Record
	query      catalog.Lookup
	match      string // the ETag in the write's condition
	absent     bool   // the write's condition is that there is no record
	put        bool   // the record was put under its own identity
	done       bool   // the write was acknowledged
	deleted    int
	refused    problem.Kind
	unresolved bool // it is unknown whether the write was done
}

type modelRun struct {
	*world
	rnd *randv2.Rand // used by the test's own goroutine

	clock atomic.Int64 // logical time
	notes atomic.Int64

	mu   sync.Mutex
	done []operation

	migrated bool
	next     *world // a world with the catalog's new schema, or nil if the schema does not change

	records map[index.IdentityHash]record.Record // the map in memory, by identity
	taken   takeOver                             // the records of the published program
}

func newModel(t *testing.T, seed uint64) *modelRun {
	rnd := randv2.New(randv2.NewPCG(seed, 0))
	p := func() float64 { return 0.06 * rnd.Float64() }
	faults := fmt.Sprintf("seed=%d; latency=1ms..20ms; timeout-before p=%.3f; timeout-after p=%.3f; reset-before p=%.3f; reset-after p=%.3f; busy p=%.3f; html p=%.3f; half p=%.3f; short-page p=0.1; empty-page p=0.1 on=query times=2",
		seed, p(), p(), p(), p(), p(), p(), p())
	m := &modelRun{world: newWorld(t, emulator.Options{}, "eid,npi,ssn:digits", "lastname"), rnd: rnd, records: map[index.IdentityHash]record.Record{}}
	t.Logf("seed %d: %s", seed, faults)
	if seed%10 == 3 {
		m.taken = newTakeOver(m.world)
	}
	proof.Must(t, m.emulator.SetFaults(faults))
	m.catalog()
	return m
}

// work runs writers that may die, and other processes that complete their writes and may also die. The functions in the
// argument concurrent run at the same time. With such functions, the work takes minutes, and processes die later.
func (m *modelRun) work(concurrent ...func(*randv2.Rand)) {
	pause, lives := 40*time.Millisecond, 1
	if len(concurrent) > 0 {
		pause, lives = 40*time.Second, 3
	}
	var g sync.WaitGroup
	for _, do := range concurrent {
		rnd := randv2.New(randv2.NewPCG(m.rnd.Uint64(), 3))
		g.Go(func() { do(rnd) })
	}
	for range writers {
		rnd := randv2.New(randv2.NewPCG(m.rnd.Uint64(), 1))
		skew := time.Duration(rnd.Int64N(int64(10*time.Minute))) - 5*time.Minute
		now := func() time.Time { return time.Now().Add(skew) }
		g.Go(func() {
			c, p := m.life(rnd, now)
			for range operations {
				m.operate(c, rnd)
				c.Close()
				time.Sleep(time.Duration(rnd.Int64N(int64(pause))))
				if p.Dead() || rnd.IntN(lives) == 0 {
					c, p = m.life(rnd, now)
				}
			}
		})
	}
	for range 2 {
		rnd := randv2.New(randv2.NewPCG(m.rnd.Uint64(), 2))
		g.Go(func() {
			for range 2 {
				time.Sleep(time.Duration(rnd.Int64N(int64(10 * pause))))
				c, _ := m.life(rnd, nil)
				if rnd.IntN(2) == 0 {
					_ = c.CompleteAll(m.Context()) // the process may die
				} else {
					_, _ = check.Run(m.Context(), c, true, func(catalog.Finding) {})
				}
			}
		})
	}
	g.Wait()
	if m.next != nil {
		m.world, m.next = m.next, nil
	}
}

// life starts a process, which most likely does not die before its work is done. While the schema changes, the process has the
// old or the new schema.
func (m *modelRun) life(rnd *randv2.Rand, now func() time.Time) (*catalog.Catalog, *emulatortest.Process) {
	n, w := 0, m.world
	if rnd.IntN(3) == 0 {
		n = 1 + rnd.IntN(16)
	}
	m.mu.Lock()
	if m.next != nil && rnd.IntN(2) == 0 {
		w = m.next
	}
	m.mu.Unlock()
	return w.mortal(n, rnd.IntN(2) == 0, now)
}

// draw returns a random record. There are only a few different keys, so writers often write the same record.
func (m *modelRun) draw(rnd *randv2.Rand, note int64) record.Record {
	fields := map[string]any{"eid": fmt.Sprint("E", rnd.IntN(3)), "lastname": []string{"Faux", "o'Neil/x"}[rnd.IntN(2)]}
	if rnd.IntN(4) > 0 {
		fields["npi"] = rnd.IntN(2)
	}
	if rnd.IntN(4) > 0 {
		fields["SSN"] = fmt.Sprintf("12-%d", rnd.IntN(2))
	}
	if rnd.IntN(8) > 0 {
		fields["note"] = note
	} // without a note, the record may equal another one
	b, _ := json.Marshal(fields)
	return rec(m, string(b))
}

func (m *modelRun) operate(c *catalog.Catalog, rnd *randv2.Rand) {
	if rnd.IntN(16) == 0 {
		m.bulk(c, rnd)
		return
	}
	o := operation{n: m.notes.Add(1), from: m.clock.Add(1)}
	o.record = m.draw(rnd, o.n)
	eid, _ := o.record.Get("eid")
	o.query = by("eid", eid)
	if npi, ok := o.record.Get("npi"); ok && rnd.IntN(2) == 0 {
		o.query = by("npi", npi)
	}
	on, known := m.condition(c, rnd, &o)
	if rnd.IntN(3) == 0 {
		on.Once = fmt.Sprint("once-", o.n)
	}
	var done catalog.Written
	var err error
	switch rnd.IntN(10) {
	case 0, 1, 2:
		o.kind = wal.Insert
		o.match, o.absent = "", false
		done, err = c.Insert(m.Context(), o.record, on.Once)
	case 3, 4:
		o.kind, o.put = wal.Replace, true
		done, err = c.Put(m.Context(), o.record, on)
	case 5, 6:
		o.kind = wal.Replace
		done, err = c.Replace(m.Context(), o.record, o.query, on)
	case 7:
		o.kind = wal.Replace
		patch := fmt.Sprintf(`{"note":%d}`, o.n)
		if rnd.IntN(2) == 0 {
			patch = fmt.Sprintf(`{"note":%d,"npi":%s,"SSN":null}`, o.n, []string{"0", "1.0", "null"}[rnd.IntN(3)])
		}
		o.record = rec(m, fmt.Sprintf(`{"note":%d}`, o.n)) // the other fields are known after the write
		done, err = c.Patch(m.Context(), []byte(patch), o.query, on)
	case 8:
		o.kind = wal.Delete
		var deleted catalog.Deleted
		deleted, err = c.Delete(m.Context(), o.query, on, nil)
		o.deleted = deleted.Records
		done.Outcome = catalog.Replaced
	case 9:
		m.read(c, o.query)
		return
	}
	m.storeResult(o, done, err)
	m.readAgain(c, o, known, err)
}

// readAgain reads the records again that a writer read before its write was refused. The version that caused the refusal must
// not be returned again.
func (m *modelRun) readAgain(c *catalog.Catalog, o operation, known catalog.Matches, err error) {
	kind := problem.Of(err).Kind
	if o.match == "" || kind != problem.Unmet && kind != problem.NotFound || o.put && m.identity(o.record) != m.identity(slices.Collect(known.Records())[0]) {
		return
	}
	for _, field := range []string{"eid", "npi", "ssn"} {
		value, ok := valueOf(slices.Collect(known.Records())[0], field)
		if !ok {
			continue
		}
		for _, meta := range m.read(c, by(field, value)).Meta {
			if meta == known.Meta[0] {
				m.Errorf("operation %d was refused (%v), but a query by %s still finds the old version: %+v", o.n, err, field, o)
			}
		}
	}
}

// bulk inserts several records in one call.
func (m *modelRun) bulk(c *catalog.Catalog, rnd *randv2.Rand) {
	all := make([]operation, 2+rnd.IntN(3))
	records := make([]record.Record, len(all))
	from := m.clock.Add(1)
	for i := range all {
		n := m.notes.Add(1)
		records[i] = m.draw(rnd, n)
		all[i] = operation{n: n, kind: wal.Insert, from: from, record: records[i]}
	}
	for i, one := range c.InsertAll(m.Context(), record.Decoded(records), nil) {
		m.storeResult(all[i], one.Written, one.Err)
	}
}

// storeResult stores the result of an operation.
func (m *modelRun) storeResult(o operation, done catalog.Written, err error) {
	o.done = err == nil && done.Outcome != catalog.Unchanged
	o.to = m.clock.Add(1)
	if err != nil {
		o.refused = problem.Of(err).Kind
		o.unresolved = o.refused == problem.Busy || o.refused == problem.Failed
	}
	m.mu.Lock()
	m.done = append(m.done, o)
	m.mu.Unlock()
}

// condition returns the condition of a write. Mostly there is no condition. Sometimes the condition is that a record, which
// condition reads first, has not changed, or that there is no record. The result `known` contains the records read. The query may
// be changed to one that selects this record by its ID.
func (m *modelRun) condition(c *catalog.Catalog, rnd *randv2.Rand, o *operation) (on catalog.Condition, known catalog.Matches) {
	switch rnd.IntN(6) {
	case 0:
		o.absent = true
		return catalog.Condition{Differ: []string{catalog.AnyETag}}, known
	case 1, 2:
		if known = m.read(c, o.query); len(known.Meta) > 0 {
			o.match = known.Meta[0].ETag
			if rnd.IntN(2) == 0 {
				o.query = catalog.Lookup{ID: known.Meta[0].ID}
			}
			return catalog.Condition{Match: []string{o.match}}, known
		}
	}
	return catalog.Condition{}, known
}

// read checks what a query returns while others write.
func (m *modelRun) read(c *catalog.Catalog, q catalog.Lookup) catalog.Matches {
	r, err := c.Find(m.Context(), q)
	if err != nil {
		return r // the process has died, or the storage is busy
	}
	seen := map[index.IdentityHash]bool{}
	for _, r := range slices.Collect(r.Records()) {
		for field, want := range q.Keys {
			if got, _ := valueOf(r, field); !strings.EqualFold(got, want) {
				m.Errorf("the query %v finds the record %s, which does not match", q, r.AppendJSON(nil))
			}
		}
		id := m.identity(r)
		if seen[id] {
			m.Errorf("the query %v finds two records with the identity of %s", q, r.AppendJSON(nil))
		}
		seen[id] = true
	}
	return r
}

func (m *modelRun) identity(r record.Record) index.IdentityHash {
	m.Helper()
	id, err := m.schema.Identity(func(field string) (string, bool) { return valueOf(r, field) })
	proof.Must(m, err)
	return id.Hash()
}

// valueOf returns a record's value of an index key. Only the number 1 has two spellings; the second one appears in patches.
func valueOf(r record.Record, key string) (string, bool) {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, key) {
			v, ok := r.Get(f.Name)
			return strings.TrimSuffix(v, ".0"), ok
		}
	}
	return "", false
}

// settle runs processes that may die, until all writes are completed.
func (m *modelRun) settle() {
	for range 60 {
		time.Sleep(time.Minute)
		c, _ := m.life(m.rnd, nil)
		_ = c.Maintain(m.Context()) // the process may die
		if len(m.rows("PeopleWAL", "e|")) == 0 {
			live, _ := m.mortal(0, false, nil)
			var err error
			for range 2 { // a second run, for rows that several processes have noted for deletion
				err = errors.Join(err, live.Maintain(m.Context()))
			}
			if err == nil {
				return
			}
		}
	}
	m.Fatal("the log still has pending entries after many runs")
}

// committed is a change in the log.
type committed struct {
	id     string
	kind   wal.Kind
	writes []wal.Write
	record record.Record
	place  int   // position among the changes
	before int64 // version of the record before the change
}

// explain applies the changes to a map in memory, in their order. Each change must be legal at that point, and the changes must
// agree with the results of the writers.
func (m *modelRun) explain() {
	var changes []committed
	for _, row := range m.rows("PeopleWAL", "c|") {
		c := committed{id: row.Key.Row[2:], kind: wal.Kind(row.Get("tsw_kind")), record: record.FromProperties(row.Properties)}
		proof.Must(m, json.Unmarshal([]byte(row.Get("tsw_writes")), &c.writes))
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b committed) int { return strings.Compare(b.id, a.id) })
	versions := map[index.IdentityHash]int64{}
	notes := map[int64]committed{} // by the operation's number
	deletions := 0
	for i, c := range changes {
		c.place, c.before = i, versions[c.writes[0].Identity]
		for _, w := range c.writes {
			if w.Version <= versions[w.Identity] {
				m.Errorf("change %s has version %d of %s, after version %d", c.id, w.Version, w.Identity, versions[w.Identity])
			}
			versions[w.Identity] = w.Version
		}
		first, last := c.writes[0].Identity, c.writes[len(c.writes)-1].Identity
		_, there := m.records[first]
		_, taken := m.records[last]
		if there == (c.kind == wal.Insert) || taken && first != last {
			m.Errorf("change %s (%s) is not legal: %s", c.id, c.kind, c.record.AppendJSON(nil))
		}
		before := m.records[first]
		delete(m.records, first)
		if c.kind == wal.Delete {
			if v, _ := c.record.Get("v"); v != "d" || len(m.taken.records) == 0 { // the published log deletes the record with v = d
				deletions++
			}
			continue
		}
		m.records[last] = c.record
		if m.migrated && first != last && record.Equal(before, c.record) {
			continue // the migration has moved the record
		}
		if note, ok := c.record.Get("note"); ok {
			var n int64
			fmt.Sscan(note, &n)
			if _, twice := notes[n]; twice {
				m.Errorf("operation %d was committed twice", n)
			}
			notes[n] = c
		}
	}
	m.acknowledged(notes, deletions)
}

// acknowledged compares the results of operations with the committed changes.
func (m *modelRun) acknowledged(notes map[int64]committed, deletions int) {
	deleted, unsure := 0, false
	order := map[int]placed{} // by position among the changes
	for _, o := range m.done {
		c, there := notes[o.n]
		_, noted := o.record.Get("note")
		switch {
		case o.kind == wal.Delete:
			deleted += o.deleted
			unsure = unsure || o.unresolved
		case o.done && noted && !there:
			m.Errorf("operation %d was acknowledged, but is lost: %+v", o.n, o)
		case !o.done && !o.unresolved && there:
			m.Errorf("operation %d was refused (%v), but was committed", o.n, o.refused)
		case there && o.match != "" && o.match != fmt.Sprintf("%q", fmt.Sprint(c.before)):
			m.Errorf("operation %d had the condition of version %s, but changed version %d", o.n, o.match, c.before)
		case there && o.absent && c.kind != wal.Insert:
			m.Errorf("operation %d had the condition that there is no record, but changed a record", o.n)
		case there && o.put && len(c.writes) > 1:
			m.Errorf("operation %d, a put, changed another record: %+v", o.n, c)
		}
		if there && noted {
			order[c.place] = placed{o, c.writes[len(c.writes)-1].Identity}
		}
	}
	if deletions < deleted || deletions > deleted && !unsure {
		m.Errorf("%d records were deleted, but %d deletions were acknowledged", deletions, deleted)
	}
	m.inOrder(order)
}

// placed is a committed operation, with the record's new identity. With another schema, the record has another identity. There
// is no order between operations on different identities.
type placed struct {
	operation
	identity index.IdentityHash
}

// inOrder checks the order of operations on one identity. If one had ended before the other began, its change must come first.
func (m *modelRun) inOrder(order map[int]placed) {
	places := slices.Sorted(maps.Keys(order))
	for i, p := range places {
		for _, q := range places[i+1:] {
			a, b := order[p], order[q]
			if b.to < a.from && a.identity == b.identity {
				m.Errorf("the change of operation %d comes after that of operation %d, although the latter began after the former had ended", b.n, a.n)
			}
		}
	}
}

// compare checks that queries by every index key find exactly the records in the map.
func (m *modelRun) compare() {
	m.Helper()
	c, _ := m.mortal(0, false, nil)
	retry := func(do func() error) {
		proof.Must(m, patiently(do))
	}
	values := map[string][]string{"eid": {"E0", "e1", "E2"}, "npi": {"0", "1"}, "ssn": {"12-0", "121"}}
	for field, all := range values {
		for _, value := range all {
			var got []string
			for q, more := by(field, value), true; more; { // an answer has a cursor if it took too long
				var r catalog.Matches
				retry(func() (err error) {
					r, err = c.Find(m.Context(), q)
					return err
				})
				for _, r := range slices.Collect(r.Records()) {
					got = append(got, string(r.AppendJSON(nil)))
				}
				q.Cursor, more = r.Cursor, r.Cursor != ""
			}
			var want []string
			wanted, _ := m.schema.Partitions(field, value)
			for _, r := range m.records {
				if v, ok := valueOf(r, field); ok {
					if have, _ := m.schema.Partitions(field, v); slices.Equal(have, wanted) {
						want = append(want, string(r.AppendJSON(nil)))
					}
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				m.Errorf("the query by %s %s finds\n%v, but the map contains\n%v", field, value, got, want)
			}
		}
	}
	var findings []catalog.Finding
	retry(func() error {
		findings = nil
		sum, err := check.Run(m.Context(), c, false, func(f catalog.Finding) {
			if !m.taken.reported(f) {
				findings = append(findings, f)
			}
		})
		if err == nil && sum.Records != len(m.records) {
			m.Errorf("the log contains %d records, but the map contains %d", sum.Records, len(m.records))
		}
		return err
	})
	if len(findings) > 0 {
		m.Errorf("check finds %+v", findings)
	}
	m.twins()
}

// tidy checks that the tables contain only records, their heads and changes.
func (m *modelRun) tidy() {
	m.Helper()
	for table, prefixes := range map[string][]string{"PeopleWAL": {"e|", "t|", "i|"}, "People": {""}} {
		for _, prefix := range prefixes {
			left := slices.DeleteFunc(m.rows(table, prefix), func(e storage.Entity) bool { return table == "People" && e.Get("tsw_gone") == "" })
			if len(left) > 0 {
				m.Errorf("the table %s still contains %v", table, left)
			}
		}
	}
	if heads := m.rows("PeopleWAL", "h|"); len(heads) != len(m.records) {
		m.Errorf("there are %d heads for %d records", len(heads), len(m.records))
	}
}
