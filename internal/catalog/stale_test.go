package catalog_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// staleness is how long a read may show the old record if the writer's process died. An entry is
// left to its writer for 20 s, by a clock of seconds, and Maintain runs each minute. The time
// that Maintain takes is added.
const staleness = 81 * time.Second

// TestStalenessIsBounded lets a writer die at each request of a move. From staleness after
// its commit on, every key shows the record as it is.
func TestStalenessIsBounded(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{0, 39*time.Second + 500*time.Millisecond, 41 * time.Second, 59 * time.Second} { // of Maintain's minute
		for n, died := 2, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{Latency: latency}, people, "lastname")
				c := w.catalog()
				old := w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "ssn": "5", "lastname": "Faux"})
				c.Close()
				time.Sleep(offset)
				next := rec(t, `{"eid":"1","npi":"8","ssn":"5","lastname":"Smith"}`)
				victim, p := w.mortal(n, true, nil)
				_, err := victim.Replace(t.Context(), next, by("npi", "7"), always)
				victim.Close()
				died = p.Dead()
				start := time.Now()
				for {
					minute := time.Now().Truncate(time.Minute).Add(time.Minute)
					if minute.Sub(start) > staleness {
						break
					}
					time.Sleep(time.Until(minute))
					if err := c.Maintain(t.Context()); err != nil {
						t.Error(err)
					}
				}
				want, other := old, []record.Record{next}
				if committed := len(w.rows("PeopleWAL", "c|")) == 2; committed || err == nil {
					want, other = other, want
				}
				w.wantEverywhere(c, want, other)
			})
			if t.Failed() {
				t.Fatalf("died at request %d, Maintain's minute %v earlier", n, offset)
			}
		}
	}
}

// TestDeletionFollowsAMove lets a writer die at each request of a move, and then deletes the record
// by a key that it has before and after. The record exists all the time. So it is deleted, and
// does not come back under its new identity.
func TestDeletionFollowsAMove(t *testing.T) {
	t.Parallel()
	for _, on := range []catalog.Condition{always, {Match: []string{catalog.AnyETag}}, {Differ: []string{`"1"`}}} {
		for n, died := 2, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{Latency: latency}, people, "lastname")
				c := w.catalog()
				old := w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "ssn": "5", "lastname": "Faux"})
				c.Close()
				next := rec(t, `{"eid":"1","npi":"8","ssn":"5","lastname":"Smith"}`)
				victim, p := w.mortal(n, true, nil)
				_, _ = victim.Replace(t.Context(), next, by("npi", "7"), always)
				victim.Close()
				died = p.Dead()
				if deleted, err := c.Delete(t.Context(), by("eid", "1"), on); deleted != 1 || err != nil {
					t.Errorf("%d deleted, %v", deleted, err)
				}
				if _, err := c.Recover(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
				w.wantEverywhere(c, nil, append(old, next))
				c.Close()
			})
			if t.Failed() {
				t.Fatalf("died at request %d, condition %v", n, on)
			}
		}
	}
}

// TestNewestOfOneRecord reads several partitions, of which one has an older row of a record that was
// moved or replaced. Each record is returned once.
func TestNewestOfOneRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, "eid,score", "lastname")
		c := w.catalog()
		// A number in an odd spelling and its text are two partitions of one query.
		w.insertAll(c, map[string]any{"eid": "1", "score": "7.0", "lastname": "b"})
		c.Close()
		old := w.rows("People", "")
		restore := func() { // as if the process had died before it wrote this row
			for _, row := range old {
				if row.Key.Partition == "5_score7.0" {
					w.write("People", storage.Op{Kind: storage.Replace, Entity: row})
				}
			}
		}
		q := by("score", "7.0")
		for _, sort := range []string{"a", "c", "b"} { // ahead of it, behind it, where it was
			moved := rec(t, `{"eid":"1","score":7,"lastname":"`+sort+`"}`)
			if _, err := c.Replace(t.Context(), moved, by("eid", "1"), always); err != nil {
				t.Fatal(err)
			}
			c.Close()
			restore()
			w.wantFound(c, q, moved)
			first, err := c.Find(t.Context(), catalog.Lookup{Keys: q.Keys, Top: 1})
			if err != nil || len(first.Records) != 1 || !record.Equal(first.Records[0], moved) {
				t.Errorf("the first record is %v, %v, want %v", first.Records, err, moved)
			}
		}
	})
}

// TestReadsCheckTheSchema lets a process with an outdated schema read on.
func TestReadsCheckTheSchema(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: latency}, "eid,npi", "lastname")
		old := w.catalog()
		r := w.insertAll(old, map[string]any{"eid": "1", "npi": "7-7", "lastname": "x"})
		old.Close()
		var err error
		if w.schema, err = index.Parse("eid,npi:digits", "lastname"); err != nil {
			t.Fatal(err)
		}
		c := w.on(w.account, nil)
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			w.migrate(c)
		}()
		// Until the change is done, reads answer what is right, or that they can't.
		for done := false; !done; {
			select {
			case <-moved:
				done = true
			case <-time.After(time.Second):
			}
			for _, reader := range []*catalog.Catalog{old, c} {
				found, err := reader.Find(t.Context(), by("npi", "7-7"))
				if err != nil {
					wantKind(t, err, problem.Conflict)
				} else if len(found.Records) != 1 {
					t.Errorf("the answer is %v", found.Records)
				}
				_, _, err = reader.Get(t.Context(), strings.Repeat("0", 64))
				if err == nil {
					t.Error("a record of no id")
				}
			}
		}
		_, err = old.Find(t.Context(), by("npi", "7-7"))
		wantKind(t, err, problem.Conflict)
		w.wantFound(c, by("npi", "77"), r...)
		// The check costs no time: it runs beside the query.
		time.Sleep(time.Minute)
		start := time.Now()
		w.wantFound(c, by("npi", "77"), r...)
		if d := time.Since(start); d != latency {
			t.Errorf("the query took %v, a request takes %v", d, latency)
		}
	})
}
