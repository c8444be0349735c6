package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

const five = `{"eid":"5","lastname":"First","npi":"7"}`

// twice are deletions that a host or a caller sends again, with an id. Three records match npi 7: eid 1, at
// the address and with the ETag of here, and two with eid 5.
var twice = []struct {
	name  string
	many  bool
	query func(here catalog.Meta) (catalog.Lookup, catalog.Condition)
}{
	{"a Location", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return catalog.Lookup{ID: here.ID}, always
	}},
	{"a Location on condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return catalog.Lookup{ID: here.ID}, catalog.Condition{Match: []string{here.ETag}}
	}},
	{"a first key on condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return by("eid", "1"), catalog.Condition{Match: []string{here.ETag}}
	}},
	{"another key on condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return by("ssn", "1"), catalog.Condition{Match: []string{here.ETag}}
	}},
	{"a first key", true, func(catalog.Meta) (catalog.Lookup, catalog.Condition) { return by("eid", "5"), always }},
	{"another key", true, func(catalog.Meta) (catalog.Lookup, catalog.Condition) { return by("npi", "7"), always }},
}

// repeated is how many cases were run: one more with -count begins with another request.
var repeated int

// TestRepeatedDeletes lets the process that deletes die with each of its requests, or live and its answer get lost. Others write,
// or nobody. Then the same request comes again to another process: it returns what was done, or does the rest,
// and leaves what the others have written. The same request under another id is another one.
func TestRepeatedDeletes(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	apart := testsize.Slow(29, 7, 1) // small, each case starts with another request, and any two of the three have all their values
	for _, tt := range twice {
		for _, keyed := range []bool{false, true} {
			for _, applied := range []bool{false, true} {
				for _, alone := range []bool{false, true} {
					if !testsize.Full() && keyed != applied != alone {
						continue
					}
					t.Run(fmt.Sprintf("%s, keyed %v, applied %v, alone %v", tt.name, keyed, applied, alone), func(t *testing.T) {
						repeated++
						n := deaths(t, 1+repeated%apart, apart, func(t *testing.T, n int) (died bool) {
							return deleteTwice(t, n, applied, alone, tt.many, func(here catalog.Meta, id string) (catalog.Lookup, catalog.Condition) {
								q, on := tt.query(here)
								if on.Invocation = id; keyed {
									on.Once, on.Invocation = id, "another"
								}
								return q, on
							})
						})
						if n < 5 {
							t.Errorf("only %d requests", n)
						}
					})
				}
			}
		}
	}
}

func deleteTwice(t *testing.T, n int, applied, alone, many bool, query func(here catalog.Meta, id string) (catalog.Lookup, catalog.Condition)) bool {
	w, c := newCatalog(t, people, "lastname")
	one := rec(t, `{"eid":"1","npi":"7","ssn":"1","lastname":"Faux"}`)
	here, err := c.Insert(t.Context(), one, "")
	proof.Must(t, err)
	w.insertMany(c, []record.Record{rec(t, five), rec(t, `{"eid":"5","npi":"7","lastname":"Second"}`)})
	time.Sleep(time.Second)
	q, on := query(here.Meta, "id-1")
	victim, process := w.mortal(n, applied, nil)
	first, firstErr := victim.Delete(t.Context(), q, on, nil)
	victim.Close()
	answered := firstErr == nil && !process.Dead()
	time.Sleep(time.Second)
	var since []string // the records that others write
	if !alone {
		for _, text := range []string{string(one.AppendJSON(nil)), five, `{"eid":"5","npi":"7","lastname":"Third"}`} {
			r := rec(t, text)
			done, err := c.Insert(t.Context(), r, "")
			proof.Must(t, err)
			if done.Outcome == catalog.Created {
				since = append(since, string(r.AppendJSON(nil)))
			}
		}
		time.Sleep(time.Second)
	}
	before := w.deletions(c)
	claims := w.rows("PeopleWAL", "i|")
	claimed := len(claims) > 0
	recorded := claimed && claims[0].Get("Answer") != ""
	again, err := c.Delete(t.Context(), q, on, nil)
	if err != nil {
		t.Fatalf("again: %v", err)
	}
	if did := w.deletions(c) - before; did > 0 && did != again.Records || answered && (did > 0 || again != first) {
		t.Errorf("the first try deleted %d, and answered %+v, %v; the second deleted %d, and answered %+v", before, first, firstErr, did, again)
	}
	if !many && again != (catalog.Deleted{Records: 1}) {
		t.Errorf("one record: %+v", again)
	}
	if many && again.Repeated != (claimed && !recorded) {
		t.Errorf("the first try has claimed (%v) and recorded its answer (%v): %+v", claimed, recorded, again)
	}
	if third, err := c.Delete(t.Context(), q, on, nil); err != nil || third != again {
		t.Errorf("a third time %+v, %v; want %+v", third, err, again)
	}
	left := strings.Join(w.find(c, by("npi", "7")), "\n")
	for _, text := range since {
		if !strings.Contains(left, text) && (claimed || !many) {
			t.Errorf("written since and gone: %s", text)
		}
	}
	if others := strings.Count(left, "\n") + 1 - len(since); many && q.Keys["npi"] != "" && claimed && left != "" && others > 0 {
		t.Errorf("left of what was there before: %s", left)
	}
	q, on = query(here.Meta, "id-2")
	if done, err := c.Delete(t.Context(), q, on, nil); many && (err != nil || done.Repeated || len(w.find(c, q)) > 0) {
		t.Errorf("another one: %+v, %v", done, err)
	}
	c.Close()
	w.maintain(c)
	w.check(c)
	w.nextDay(c)
	if rows := w.rows("PeopleWAL", "i|"); len(rows) > 0 {
		t.Errorf("claims are left: %v", rows)
	}
	return process.Dead()
}

// deletions counts the deletions in the log, once nothing goes on behind the catalog's answers.
func (w *world) deletions(c *catalog.Catalog) (n int) {
	w.Helper()
	c.Close()
	for _, prefix := range []string{store.EntryPrefix, store.ChangePrefix} {
		for _, row := range w.rows("PeopleWAL", prefix) {
			if row.Get("tsw_kind") == "delete" {
				n++
			}
		}
	}
	return n
}

// TestDeletesWithAnIDCostLittle counts the requests that an id costs, of a host's and of a caller's.
func TestDeletesWithAnIDCostLittle(t *testing.T) {
	t.Parallel()
	more := map[string][2]int64{ // by name: with an invocation id, with a key
		"a Location": {0, 1}, "a Location on condition": {0, 1},
		"a first key on condition": {0, 1}, "another key on condition": {1, 1},
		"a first key": {2, 2}, "another key": {2, 2},
		"a Location of nothing": {1, 2}, // its answer is looked for
	}
	nothing := twice[0]
	nothing.name, nothing.query = "a Location of nothing", func(catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return catalog.Lookup{ID: strings.Repeat("0", 64)}, always
	}
	for _, tt := range append(slices.Clone(twice), nothing) {
		requests := func(with catalog.Condition) (n int64) {
			inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
				here, err := c.Insert(t.Context(), rec(t, `{"eid":"1","npi":"7","ssn":"1","lastname":"Faux"}`), "")
				proof.Must(t, err)
				w.insertMany(c, []record.Record{rec(t, five), rec(t, `{"eid":"5","npi":"7","lastname":"Second"}`)})
				c.Close()
				time.Sleep(time.Second)
				w.emulator.ResetCounts()
				q, on := tt.query(here.Meta)
				on.Once, on.Invocation = with.Once, with.Invocation
				if _, err := c.Delete(t.Context(), q, on, nil); (err != nil) != (tt.name == nothing.name) {
					t.Error(err)
				}
				c.Close()
				n = w.emulator.Counts().TableTransactions()
			})
			return n
		}
		plain := requests(always)
		got := [2]int64{requests(catalog.Condition{Invocation: "id"}) - plain, requests(catalog.Condition{Once: "key"}) - plain}
		if got != more[tt.name] {
			t.Errorf("%s: %d requests more, want %d", tt.name, got, more[tt.name])
		}
		t.Logf("%s: %d requests, with an id %d, with a key %d", tt.name, plain, plain+got[0], plain+got[1])
	}
}

// TestDeletionOfAnOldWrite: after a first try has died with its claim, another process completes an insertion that was acknowledged
// before, and touches the head by that. The repetition deletes the record all the same.
func TestDeletionOfAnOldWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query catalog.Lookup
		held  []string // the deletion's first query
	}{
		{by("eid", "5"), []string{"GET", "PeopleWAL", "RowKey ge 'h|"}},
		{by("npi", "7"), []string{"GET", "/People()"}},
	} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			victim, _ := w.mortal(5, false, nil) // the schema, the commit, two rows, and it is to move the entry to the changes
			w.did(catalog.Created)(victim.Insert(t.Context(), rec(t, five), ""))
			victim.Close()
			time.Sleep(time.Second)
			once := catalog.Condition{Invocation: "id"}
			first, _ := w.mortal(2, true, nil) // the schema, the claim
			if done, err := first.Delete(t.Context(), tt.query, once, nil); err == nil {
				t.Errorf("the first try of %v lives: %+v", tt.query, done)
			}
			hold, reached, release := holdOnce(tt.held...)
			held := w.gated(hold)
			var g sync.WaitGroup
			g.Go(func() {
				if done, err := held.Delete(t.Context(), tt.query, once, nil); err != nil || done != (catalog.Deleted{Records: 1, Repeated: true}) {
					t.Errorf("%v: %+v, %v", tt.query, done, err)
				}
			})
			<-reached
			time.Sleep(time.Second)
			w.recover(c)
			close(release)
			g.Wait()
			held.Close()
			w.check(c)
		})
	}
}

// TestClaimsAreKept: those of invocations for an hour, and those of keys for a day. A key of a deletion is no other request's.
func TestClaimsAreKept(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		for _, on := range []catalog.Condition{{Invocation: "id"}, {Once: "key"}} {
			if _, err := c.Delete(t.Context(), by("npi", "7"), on, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Delete(t.Context(), by("npi", "8"), catalog.Condition{Invocation: "id"}, nil); err != nil {
			t.Error(err) // a host has chosen the id
		}
		_, err := c.Delete(t.Context(), by("npi", "8"), catalog.Condition{Once: "key"}, nil)
		wantKind(t, err, problem.KeyReused)
		for _, kept := range []struct {
			after time.Duration
			rows  int
		}{{0, 3}, {50 * time.Minute, 3}, {15 * time.Minute, 1}, {22 * time.Hour, 1}, {2 * time.Hour, 0}} {
			time.Sleep(kept.after)
			w.maintain(c)
			w.maintain(w.catalog())
			if got := w.rows("PeopleWAL", "i|"); len(got) != kept.rows {
				t.Errorf("%v later %d claims are left, want %d: %v", kept.after, len(got), kept.rows, got)
			}
		}
	})
}
