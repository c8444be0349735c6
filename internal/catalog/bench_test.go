package catalog_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// person returns one of many records with three index keys.
func person(t testing.TB, i int) record.Record {
	return rec(t, fmt.Sprintf(`{"eid":"F%d","npi":%d,"ssn":"123-45-%04d","lastname":"Faux","city":"Bern","wage":41.5,"active":true}`, i, 1000000000+i, i))
}

// TestTransactions states what each operation costs: how many requests, and how many of them its
// caller waits for, one after the other, in time that is nothing but requests.
func TestTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: latency}, people, "lastname")
		c := w.catalog()
		w.did(catalog.Created)(c.Insert(t.Context(), person(t, 0), "")) // looks at the schema
		c.Close()
		smith := rec(t, `{"eid":"F1","npi":1000000001,"ssn":"123-45-0001","lastname":"Smith"}`)
		raised := rec(t, `{"eid":"F1","npi":1000000001,"ssn":"123-45-0001","lastname":"Smith","wage":2}`)
		var id catalog.Written
		old := catalog.Condition{Match: []string{`"1"`}}
		refused := func(kind problem.Kind, do func() error) func() error {
			return func() error {
				wantKind(t, do(), kind)
				return nil
			}
		}
		costs := []struct {
			name     string
			requests int64
			awaited  float64 // 0: nobody waits
			do       func() error
		}{
			{"insert", 5, 2, func() error { _, err := c.Insert(t.Context(), person(t, 1), ""); return err }},
			{"a minute", 0, 0, func() error { time.Sleep(time.Minute); return nil }},
			{"query, a minute later", 2, 1, func() error { _, err := c.Find(t.Context(), by("ssn", "123450001")); return err }}, // asks for the schema meanwhile
			{"query", 1, 1, func() error { _, err := c.Find(t.Context(), by("ssn", "123450001")); return err }},
			// Heads of the first key; head to be; the three rows to be; commit; a read
			// and a write in each of three partitions; the change.
			{"replace that moves the rows", 13, 6, func() error { _, err := c.Replace(t.Context(), smith, by("eid", "F1"), always); return err }},
			{"replace of contents, behind a move", 10, 5, func() (err error) { id, err = c.Put(t.Context(), raised, always); return err }},
			{"patch by the first key", 10, 5, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":3}`), by("eid", "F1"), always)
				return err
			}},
			{"replace at its address", 9, 4, func() error { _, err := c.Replace(t.Context(), raised, catalog.Lookup{ID: id.ID}, always); return err }},
			// One to claim the key; the commit keeps the answer.
			{"patch with an Idempotency-Key", 11, 6, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":5}`), by("eid", "F1"), once)
				return err
			}},
			{"the same again", 6, 6, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":5}`), by("eid", "F1"), once)
				return err
			}},
			// A refusal looks whether the shard has a write to carry out.
			{"a refused put", 2, 2, refused(problem.Unmet, func() error { _, err := c.Put(t.Context(), raised, old); return err })},
			{"a refused deletion by another key", 3, 3, refused(problem.Unmet, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450000"), old, nil); return err })},
			// Its commit, the entry twice, and the head come before that.
			{"a refused insertion", 5, 5, refused(problem.Conflict, func() error { _, err := c.Insert(t.Context(), smith, ""); return err })},
			{"delete", 9, 4, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450000"), always, nil); return err }},
			// The query meets the row that tells where the record was before it moved, and
			// looks whether the shard has a move to complete.
			{"delete what has moved lately", 10, 4, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450001"), always, nil); return err }},
			// The query meets its tombstones, and looks whether the shard has writes to complete.
			{"delete it again", 2, 2, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450001"), always, nil); return err }},
			{"Maintain, with nothing to do", 4*shards + 2, 0, func() error { // 17 of them look for old claims, once an hour
				time.Sleep(time.Minute)
				return c.Maintain(t.Context())
			}},
			// For each of three times that a record went: its head, and a deletion in each of three
			// partitions. Where it went by a move, a read in each, too: its tombstones came in transactions, whose
			// answers have no ETag here. For each of two shards: its entries, and a transaction in the log.
			{"Maintain, minutes later", 3*shards + 1 + 3*4 + 3 + 2*2, 0, func() error {
				time.Sleep(2 * time.Minute)
				return c.Maintain(t.Context())
			}},
			// A transaction for each of two shards, and one each for the key's claim and answer.
			{"Maintain, a day later", 4*shards + 2 + 2 + 2, 0, func() error {
				time.Sleep(25 * time.Hour)
				return c.Maintain(t.Context())
			}},
		}
		for _, cost := range costs {
			w.emulator.ResetCounts()
			start := time.Now()
			if err := cost.do(); err != nil {
				t.Fatalf("%s: %v", cost.name, err)
			}
			if n := float64(time.Since(start)) / float64(latency); cost.awaited > 0 && n != cost.awaited {
				t.Errorf("%s waits for %v requests, want %v", cost.name, n, cost.awaited)
			}
			c.Close()
			if got := w.emulator.Counts().TableTransactions(); got != cost.requests {
				t.Errorf("%s: %d transactions, want %d: %+v", cost.name, got, cost.requests, w.emulator.Counts())
			}
		}
	})
}

const shards = 16

// latency is what a request takes in the tests of speed.
const latency = 10 * time.Millisecond
