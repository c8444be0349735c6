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

// twice contains deletions that a host or a caller sends twice, with an id. Three records have the npi 7: one has eid 1, and
// the ID and ETag in here, and two have eid 5.
var twice = []struct {
	name  string
	many  bool
	query func(here catalog.Meta) (catalog.Lookup, catalog.Condition)
}{
	{"an ID", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return catalog.Lookup{ID: here.ID}, always
	}},
	{"an ID with a condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return catalog.Lookup{ID: here.ID}, catalog.Condition{Match: []string{here.ETag}}
	}},
	{"a first key with a condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return by("eid", "1"), catalog.Condition{Match: []string{here.ETag}}
	}},
	{"another key with a condition", false, func(here catalog.Meta) (catalog.Lookup, catalog.Condition) {
		return by("ssn", "1"), catalog.Condition{Match: []string{here.ETag}}
	}},
	{"a first key", true, func(catalog.Meta) (catalog.Lookup, catalog.Condition) { return by("eid", "5"), always }},
	{"another key", true, func(catalog.Meta) (catalog.Lookup, catalog.Condition) { return by("npi", "7"), always }},
}

// repeated is the number of cases that were run. It determines the first request at which the process dies, so runs with -count
// differ.
var repeated int

// TestRepeatedDeletes lets a process die at each request of a deletion, or loses the deletion's answer. After that, others may
// write. Then another process gets the same request. It must return the first answer, or delete the remaining records and keep
// the records that others have written. The same request with another id must count as a new request.
func TestRepeatedDeletes(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	apart := testsize.Slow(29, 7, 1) // in a small run, each case starts with a different request, and only some combinations are run
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
							t.Errorf("the deletion makes only %d requests", n)
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
	var since []string // records that others write after the first try
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
		t.Fatalf("the second try fails: %v", err)
	}
	if did := w.deletions(c) - before; did > 0 && did != again.Records || answered && (did > 0 || again != first) {
		t.Errorf("the first try deleted %d records, and returned %+v, error %v; the second try deleted %d records, and returned %+v", before, first, firstErr, did, again)
	}
	if !many && again != (catalog.Deleted{Records: 1}) {
		t.Errorf("the deletion of one record returns %+v", again)
	}
	if many && again.Repeated != (claimed && !recorded) {
		t.Errorf("the first try has made a claim: %v, and recorded its answer: %v; the second try returns %+v", claimed, recorded, again)
	}
	if third, err := c.Delete(t.Context(), q, on, nil); err != nil || third != again {
		t.Errorf("the third try returns %+v, error %v; want %+v", third, err, again)
	}
	left := strings.Join(w.find(c, by("npi", "7")), "\n")
	for _, text := range since {
		if !strings.Contains(left, text) && (claimed || !many) {
			t.Errorf("a record written after the first try was deleted: %s", text)
		}
	}
	if others := strings.Count(left, "\n") + 1 - len(since); many && q.Keys["npi"] != "" && claimed && left != "" && others > 0 {
		t.Errorf("a record written before the first try remains: %s", left)
	}
	q, on = query(here.Meta, "id-2")
	if done, err := c.Delete(t.Context(), q, on, nil); many && (err != nil || done.Repeated || len(w.find(c, q)) > 0) {
		t.Errorf("the request with another id returns %+v, error %v", done, err)
	}
	c.Close()
	w.maintain(c)
	w.check(c)
	w.nextDay(c)
	if rows := w.rows("PeopleWAL", "i|"); len(rows) > 0 {
		t.Errorf("claims remain after a day: %v", rows)
	}
	return process.Dead()
}

// deletions returns the number of deletions in the log, after the catalog's background work has ended.
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

// TestRequestsOfDeletesWithAnID counts the additional requests of a deletion with a host's or a caller's id.
func TestRequestsOfDeletesWithAnID(t *testing.T) {
	t.Parallel()
	more := map[string][2]int64{ // additional requests with an invocation id, and with a key, by name
		"an ID": {0, 1}, "an ID with a condition": {0, 1},
		"a first key with a condition": {0, 1}, "another key with a condition": {1, 1},
		"a first key": {2, 2}, "another key": {2, 2},
		"an ID without a record": {1, 2}, // also reads a stored answer
	}
	nothing := twice[0]
	nothing.name, nothing.query = "an ID without a record", func(catalog.Meta) (catalog.Lookup, catalog.Condition) {
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
			t.Errorf("%s: %d additional requests, want %d", tt.name, got, more[tt.name])
		}
		t.Logf("%s: %d requests without an id, %d with an invocation id, %d with a key", tt.name, plain, plain+got[0], plain+got[1])
	}
}

// TestDeletionOfAnOldWrite lets the first try die after its claim. Then another process completes an insertion that was
// acknowledged before the claim, and updates the head. The repetition must delete the record, although the head is newer than the
// claim.
func TestDeletionOfAnOldWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query catalog.Lookup
		held  []string // results of the deletion's first query
	}{
		{by("eid", "5"), []string{"GET", "PeopleWAL", "RowKey ge 'h|"}},
		{by("npi", "7"), []string{"GET", "/People()"}},
	} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			victim, _ := w.mortal(5, false, nil) // requests: the schema, the commit, two rows, and the move of the entry to the changes
			w.wantOutcome(catalog.Created)(victim.Insert(t.Context(), rec(t, five), ""))
			victim.Close()
			time.Sleep(time.Second)
			once := catalog.Condition{Invocation: "id"}
			first, _ := w.mortal(2, true, nil) // requests: the schema, and the claim
			if done, err := first.Delete(t.Context(), tt.query, once, nil); err == nil {
				t.Errorf("the first try of %v did not die: %+v", tt.query, done)
			}
			hold, reached, release := holdOnce(tt.held...)
			held := w.gated(hold)
			var g sync.WaitGroup
			g.Go(func() {
				if done, err := held.Delete(t.Context(), tt.query, once, nil); err != nil || done != (catalog.Deleted{Records: 1, Repeated: true}) {
					t.Errorf("the deletion of %v returns %+v, error %v", tt.query, done, err)
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

// TestClaimsAreKept checks that claims of invocation ids are kept for an hour, and claims of keys for a day. The key of a
// deletion must be refused with any other request.
func TestClaimsAreKept(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		for _, on := range []catalog.Condition{{Invocation: "id"}, {Once: "key"}} {
			if _, err := c.Delete(t.Context(), by("npi", "7"), on, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Delete(t.Context(), by("npi", "8"), catalog.Condition{Invocation: "id"}, nil); err != nil {
			t.Error(err) // different requests may have the same invocation id
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
				t.Errorf("after %v, there are %d claims, want %d: %v", kept.after, len(got), kept.rows, got)
			}
		}
	})
}
