package catalog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// migrate migrates the catalog to its schema. The migration must not leave any row or record unchanged.
func (w *world) migrate(c *catalog.Catalog) migrate.Result {
	w.Helper()
	sum, err := migrate.Run(w.Context(), c, false, func(f catalog.Finding) { w.Errorf("the migration leaves %+v", f) })
	proof.Must(w, err)
	w.check(c)
	return sum
}

// published writes a row in the published form, without code of the catalog.
func (w *world) published(partition, row string, r record.Record) {
	w.write("People", storage.Op{Kind: storage.Replace, Row: storage.Entity{Key: key.Key{Partition: partition, Row: row}, Properties: r.Properties()}.Row()})
}

// TestTakeOver reads, queries and takes over tables that another program wrote.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	takeOverRecords(t, newWorld(t, emulator.Options{}, "eid,npi,ssn", "lastname"))
	takeOverAll(t, newWorld(t, emulator.Options{}, "eid,npi", "lastname"))
}

// takeOverAll takes over records that collide, and a published log.
func takeOverAll(t *testing.T, w *world) {
	t.Helper()
	x := newTakeOver(w)
	c := w.openOn(w.account, nil)
	w.Cleanup(c.Close)
	for round := range 2 {
		if sum := x.end(w, c); round > 0 && sum.Taken+sum.Removed+sum.Entries > 0 {
			t.Errorf("the second run returns %+v, want no work", sum)
		}
		x.wantRight(w)
	}
}

func takeOverRecords(t *testing.T, w *world) {
	t.Helper()
	proof.Must(t, w.account.Table("People"+w.suffix).Create(t.Context()))
	r := rec(t, `{"eid":"F314","lastname":"Faux","npi":"1414213562","ssn":"123-45-6789"}`)
	for _, p := range []string{"3_eidf314", "3_npi1414213562", "3_ssn123-45-6789"} {
		w.published(p, "faux:56a9e459", r)
	}
	// The published program died before it wrote the third row of this record. (The MD5 of "g2|2|3" begins with 8480c7ca.)
	half := rec(t, `{"eid":"G2","lastname":"Half","npi":"2","ssn":"3"}`)
	for _, p := range []string{"3_eidg2", "3_npi2"} {
		w.published(p, rowOf(t, w.schema, half), half)
	}
	c := w.catalog()
	w.wantFound(c, by("ssn", "123-45-6789"), r)
	w.wantFound(c, catalog.Lookup{Keys: map[string]string{"eid": "f314", "npi": "1414213562"}, RowTo: "fau"}, r)
	_, err := c.Insert(t.Context(), rec(t, faux), "")
	wantKind(t, err, problem.Conflict)

	_, err = check.Run(t.Context(), c, true, func(catalog.Finding) {})
	wantKind(t, err, problem.Conflict)
	if sum := w.migrate(c); sum.Taken != 2 {
		t.Errorf("the migration returns %+v, want 2 records taken over", sum)
	}
	for field, value := range map[string]string{"eid": "g2", "npi": "2", "ssn": "3"} {
		w.wantFound(c, by(field, value), half)
	}
	w.wantOutcome(catalog.Unchanged)(c.Insert(t.Context(), r, ""))
	smith := rec(t, `{"eid":"F314","lastname":"Smith","npi":"1414213562","ssn":"123-45-6789"}`)
	w.wantOutcome(catalog.Replaced)(c.Replace(t.Context(), smith, by("eid", "F314"), always))
	w.wantFound(c, by("npi", "1414213562"), smith)
	w.check(c)
}

func rowOf(t testing.TB, s index.Schema, r record.Record) string {
	t.Helper()
	id, err := s.Identity(r.Get)
	proof.Must(t, err)
	return id.Row
}

// publishedAs writes rows of a record as the published program does, in the given partitions.
func (w *world) publishedAs(r record.Record, partitions ...string) {
	w.Helper()
	r.Fields = append(slices.Clone(r.Fields), record.Field{Name: "operation", Type: storage.String, Value: jsontext.Value(`"insert"`)})
	for _, p := range partitions {
		w.published(p, publishedRow(w.TB, w.schema, r), r)
	}
}

// publishedRow returns the RowKey that the published program gives a record. It differs from our RowKey only in the case of the
// sort value.
func publishedRow(t testing.TB, s index.Schema, r record.Record) string {
	t.Helper()
	sort, _ := r.Get(s.Sort.Field)
	row := rowOf(t, s, r)
	return sort + row[strings.LastIndexByte(row, ':'):]
}

// publishedEntry writes an entry into the published program's log.
func (w *world) publishedEntry(row, operation string, r record.Record) {
	w.Helper()
	w.write("PeopleWAL", storage.Op{Kind: storage.Insert, Row: storage.Entity{
		Key: key.Key{Partition: "wal", Row: row}, Properties: append(r.Properties(), storage.StringProperty("operation", operation)),
	}.Row()})
}

// wrongRows returns the errors in the rows of the record whose field v has this value. The record's rows must be in these
// places. It reads raw rows, so it is independent of package check.
func wrongRows(rows []storage.Entity, v string, r record.Record, places ...key.Key) []string {
	var wrong []string
	left := slices.Clone(places)
	for _, row := range rows {
		if row.Get("v") != v {
			continue
		}
		i := slices.Index(left, row.Key)
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%s has a row at the wrong place %v", v, row.Key))
			continue
		}
		left = slices.Delete(left, i, i+1)
		for _, f := range r.Fields {
			if row.Get(f.Name) != string(storage.Property{Value: f.Value}.Text()) {
				wrong = append(wrong, fmt.Sprintf("the row of %s at %v has the column %s with %q", v, row.Key, f.Name, row.Get(f.Name)))
			}
		}
		if row.Get("tsw_version") != "" && row.Get("operation") != "" {
			wrong = append(wrong, fmt.Sprintf("the row of %s at %v has an operation", v, row.Key))
		}
	}
	for _, k := range left {
		wrong = append(wrong, fmt.Sprintf("%s has no row at %v", v, k))
	}
	return wrong
}

// takeOver contains the records of the published program, and the places of their rows after the take-over.
type takeOver struct {
	records map[string]record.Record // by their field v
	places  map[string][]key.Key
}

// newTakeOver fills the tables. The index contains a complete record, an incomplete record, and two records that differ only in
// case. The log contains an insertion without rows, an insertion with some rows, a deletion, and an entry that cannot be
// carried out.
func newTakeOver(w *world) takeOver {
	w.Helper()
	proof.Must(w, errors.Join(w.account.Table("People"+w.suffix).Create(w.Context()), w.account.Table("PeopleWAL"+w.suffix).Create(w.Context())))
	x := takeOver{map[string]record.Record{}, map[string][]key.Key{}}
	for v, text := range map[string]string{
		"a": `{"eid":"A","npi":"1","lastname":"Ash","v":"a"}`, "b": `{"eid":"B","npi":"1","lastname":"Bly","v":"b"}`,
		"t1": `{"eid":"T","npi":"2","lastname":"Twin","v":"t1"}`, "t2": `{"eid":"T","npi":"2","lastname":"TWIN","v":"t2"}`,
		"c": `{"eid":"C","npi":"2","lastname":"Cox","v":"c"}`, "d": `{"eid":"D","npi":"1","lastname":"Doe","v":"d"}`,
	} {
		r := rec(w, text)
		eid, _ := r.Get("eid")
		npi, _ := r.Get("npi")
		row := rowOf(w.TB, w.schema, r)
		if eid == "T" {
			row = publishedRow(w.TB, w.schema, r)
		}
		x.records[v] = r
		x.places[v] = []key.Key{{Partition: "3_eid" + strings.ToLower(eid), Row: row}, {Partition: "3_npi" + npi, Row: row}}
	}
	for _, v := range []string{"a", "t1", "t2", "d"} {
		w.publishedAs(x.records[v], x.places[v][0].Partition, x.places[v][1].Partition)
	}
	w.publishedAs(x.records["b"], x.places["b"][0].Partition)
	w.write("PeopleWAL", storage.Op{Kind: storage.Insert, Row: storage.Entity{
		Key: key.Key{Partition: "metadata", Row: "checkpoint"}, Properties: []storage.Property{storage.StringProperty("datetime", "2026-01-02_x")},
	}.Row()})
	w.publishedEntry("2026-01-02_x", "insert", rec(w, `{"eid":"gone","npi":"9","lastname":"long ago","v":"old"}`))
	w.publishedEntry("2026-01-03_x", "insert", x.records["b"])
	w.publishedEntry("2026-01-04_x", "insert", x.records["c"])
	w.publishedEntry("2026-01-05_x", "delete", x.records["d"])
	w.publishedEntry("2026-01-06_x", "rename", x.records["a"])
	x.places["d"] = nil
	return x
}

// end takes over all records, in a process that does not die. Every run must leave and report the colliding records and the
// invalid entry.
func (x takeOver) end(w *world, c *catalog.Catalog) migrate.Result {
	w.Helper()
	var left []string
	sum, err := migrate.Run(w.Context(), c, false, func(f catalog.Finding) { left = append(left, f.Row) })
	if err != nil || sum.Left != len(left) || len(left) != 5 { // two rows for each of the records that differ only in case, and the entry
		w.Fatalf("the migration returns %+v, leaves %q, error %v", sum, left, err)
	}
	return sum
}

// wantRight checks the tables after the take-over.
func (x takeOver) wantRight(w *world) {
	w.Helper()
	rows := w.rows("People", "")
	wrong := wrongRows(rows, "old", record.Record{})
	for v, r := range x.records {
		wrong = append(wrong, wrongRows(rows, v, r, x.places[v]...)...)
	}
	if len(wrong) > 0 {
		w.Errorf("the tables are wrong after the take-over: %s", strings.Join(wrong, "\n"))
	}
}

// lost returns the records that are neither in the index nor in one of the logs.
func (x takeOver) lost(w *world) []string {
	w.Helper()
	there := map[string]bool{"d": true} // the log deletes this record
	for _, row := range append(w.rows("People", ""), w.rows("PeopleWAL", "")...) {
		if !strings.HasPrefix(row.Key.Row, "c|") {
			there[row.Get("v")] = true
		}
	}
	var lost []string
	for v := range x.records {
		if !there[v] {
			lost = append(lost, v)
		}
	}
	return lost
}

// TestInterruptedTakeOver kills a take-over before or after each of its requests is carried out. No record may be lost, and the
// next run must complete the take-over.
func TestInterruptedTakeOver(t *testing.T) {
	t.Parallel()
	n := deaths(t, 1, everyRequest, func(t *testing.T, n int) bool {
		w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
		x := newTakeOver(w)
		victim, p := w.mortal(n, n%2 == 0, nil)
		_, _ = migrate.Run(t.Context(), victim, false, func(catalog.Finding) {}) // the process most likely dies
		victim.Close()
		if lost := x.lost(w); p.Dead() && len(lost) > 0 {
			t.Fatalf("the interrupted take-over has lost %q", lost)
		}
		c := w.openOn(w.account, nil)
		start := time.Now()
		x.end(w, c)
		c.Close()
		if took := time.Since(start); took > time.Second {
			t.Errorf("the next run took %v", took)
		}
		w.nextDay(c) // deletes the rest of the deleted record
		x.wantRight(w)
		return p.Dead()
	})
	if n < 40 {
		t.Errorf("the take-over makes only %d requests", n)
	}
}

// TestInterruptedMigration kills a migration at each of its requests. The next run continues or reverts the migration. It must
// not wait again for the stopped writers.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	deaths(t, 1, everyRequest, func(t *testing.T, n int) bool {
		w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
		old := w.catalog()
		w.insertAll(old, map[string]any{"eid": "1", "npi": "1", "lastname": "x"}, map[string]any{"eid": "2", "npi": "1", "lastname": "y"})
		old.Close()
		before := w.schema
		w.schema = parsed(t, "npi,eid,lastname", "eid")
		victim, p := w.mortal(n, n%2 == 0, nil)
		_, _ = migrate.Run(t.Context(), victim, false, func(catalog.Finding) {})
		victim.Close()
		if n%4 > 1 || !p.Dead() { // revert the migration
			w.schema = before
		}
		c := w.openOn(w.account, nil)
		stopped := len(w.rows("PeopleWAL", "")) > 0 && w.state() == "moving"
		start := time.Now()
		w.migrate(c)
		if took := time.Since(start); stopped && n > 8 && took > time.Second {
			t.Errorf("the next run took %v", took)
		}
		w.prepare(c)
		for _, r := range []string{`{"eid":"1","lastname":"x","npi":"1"}`, `{"eid":"2","lastname":"y","npi":"1"}`} {
			q := catalog.Lookup{Keys: map[string]string{}}
			for _, k := range w.schema.Keys {
				q.Keys[k.Field], _ = rec(t, r).Get(k.Field)
			}
			w.wantFound(c, q, rec(t, r))
		}
		return p.Dead()
	})
}

// state returns the State in the schema's row.
func (w *world) state() string {
	w.Helper()
	for _, row := range w.rows("PeopleWAL", "") {
		if row.Key.Partition == "schema" {
			return row.Get("State")
		}
	}
	return ""
}

// TestMigrationWithConcurrentWriters changes the schema while others write. Queries by the new keys must find every
// acknowledged record, and no refused record.
func TestMigrationWithConcurrentWriters(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Of(2, 4)) {
		inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, old *catalog.Catalog) {
			proof.Must(t, w.emulator.SetFaults(fmt.Sprintf("seed=%d; latency=1ms..3s", seed)))
			var mu sync.Mutex
			var acknowledged, refused []record.Record
			var g sync.WaitGroup
			for writer := range 4 {
				random := rand.New(rand.NewPCG(seed, uint64(writer)))
				c := old
				if writer%2 > 0 {
					c = w.openOn(w.account, nil)
					w.Cleanup(c.Close)
				}
				g.Go(func() {
					for i := range 25 {
						time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
						r := rec(t, fmt.Sprintf(`{"eid":"%d","npi":"%d","lastname":"%d","phone":"%d-%d"}`, writer, random.IntN(3), i, writer, i))
						_, err := c.Insert(t.Context(), r, "")
						mu.Lock()
						if err == nil {
							acknowledged = append(acknowledged, r)
						} else if wantKind(t, err, problem.Moving, problem.Conflict); true { // Conflict once the migration has ended
							refused = append(refused, r)
						}
						mu.Unlock()
					}
				})
			}
			time.Sleep(20 * time.Second)
			w.schema = parsed(t, "npi,phone", "lastname")
			c := w.openOn(w.account, nil)
			sum, err := migrate.Run(t.Context(), c, false, func(f catalog.Finding) { t.Errorf("left: %+v", f) })
			proof.Must(t, err)
			g.Wait()
			old.Close()
			c.Close()
			proof.Must(t, w.emulator.SetFaults(""))
			if len(acknowledged) == 0 || len(refused) == 0 || sum.Moved != len(acknowledged) {
				t.Errorf("%d writes were acknowledged and %d refused; the migration returns %+v", len(acknowledged), len(refused), sum)
			}
			for _, r := range acknowledged {
				phone, _ := r.Get("phone")
				w.wantFound(c, by("phone", phone), r)
			}
			for _, r := range refused {
				phone, _ := r.Get("phone")
				w.wantFound(c, by("phone", phone))
			}
			w.check(c)
		})
	}
}

// TestLateForeignRowStays takes over a row of another program whose record is already in the log with other contents. The row
// must stay, because no other row has its contents.
func TestLateForeignRowStays(t *testing.T) {
	t.Parallel()
	w, c := newCatalog(t, "eid,npi", "lastname")
	w.insertAll(c, map[string]any{"eid": "A", "npi": "1", "lastname": "Ash", "v": "a"})
	c.Close()
	late := rec(t, `{"eid":"A","npi":"1","lastname":"ASH","v":"late"}`)
	w.publishedAs(late, "3_eida")
	left := 0
	sum, err := migrate.Run(t.Context(), c, false, func(catalog.Finding) { left++ })
	if err != nil || left != 1 || sum.Removed != 0 {
		t.Errorf("the migration returns %+v, leaves %d rows, error %v", sum, left, err)
	}
	place := key.Key{Partition: "3_eida", Row: publishedRow(t, w.schema, late)}
	if wrong := wrongRows(w.rows("People", ""), "late", late, place); len(wrong) > 0 {
		t.Error(wrong)
	}
}
