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

// person returns the record with the number i. Each has three index keys.
func person(t testing.TB, i int) record.Record {
	return rec(t, fmt.Sprintf(`{"eid":"F%d","npi":%d,"ssn":"123-45-%04d","lastname":"Faux","city":"Bern","wage":41.5,"active":true}`, i, 1000000000+i, i))
}

// TestRequestsOfOperations counts the requests of each operation, and the requests for which its caller waits one after
// another.
func TestRequestsOfOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: latency}, people, "lastname")
		c := w.catalog()
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), person(t, 0), "")) // also reads the schema
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
			awaited  float64 // 0 if no caller waits
			do       func() error
		}{
			{"insert", 5, 2, func() error { _, err := c.Insert(t.Context(), person(t, 1), ""); return err }},
			{"a minute", 0, 0, func() error { time.Sleep(time.Minute); return nil }},
			{"query, a minute later", 2, 1, func() error { _, err := c.Find(t.Context(), by("ssn", "123450001")); return err }}, // also reads the schema
			{"query", 1, 1, func() error { _, err := c.Find(t.Context(), by("ssn", "123450001")); return err }},
			// A query for the heads, a read of the new head, reads of the three new rows, the commit, a read and a write in
			// each of three partitions, and the change.
			{"replace that moves the rows", 13, 6, func() error { _, err := c.Replace(t.Context(), smith, by("eid", "F1"), always); return err }},
			{"replace of contents, after a move", 10, 5, func() (err error) { id, err = c.Put(t.Context(), raised, always); return err }},
			{"patch by the first key", 10, 5, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":3}`), by("eid", "F1"), always)
				return err
			}},
			{"replace by ID", 9, 4, func() error { _, err := c.Replace(t.Context(), raised, catalog.Lookup{ID: id.ID}, always); return err }},
			// One request claims the key. The commit stores the answer.
			{"patch with an Idempotency-Key", 11, 6, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":5}`), by("eid", "F1"), once)
				return err
			}},
			{"the same write again", 6, 6, func() error {
				_, err := c.Patch(t.Context(), []byte(`{"wage":5}`), by("eid", "F1"), once)
				return err
			}},
			// Before a refusal, the catalog reads the shard's pending writes.
			{"a refused put", 2, 2, refused(problem.Unmet, func() error { _, err := c.Put(t.Context(), raised, old); return err })},
			{"a refused deletion by another key", 3, 3, refused(problem.Unmet, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450000"), old, nil); return err })},
			// Before the refusal, there are the commit, two reads of the entry, and a read of the head.
			{"a refused insertion", 5, 5, refused(problem.Conflict, func() error { _, err := c.Insert(t.Context(), smith, ""); return err })},
			{"delete", 9, 4, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450000"), always, nil); return err }},
			// The query finds the tombstone of the record's former place, so the deletion also reads the shard's pending moves.
			{"delete a record that has just moved", 10, 4, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450001"), always, nil); return err }},
			// The query finds the record's tombstones, so the deletion also reads the shard's pending writes.
			{"delete a deleted record", 2, 2, func() error { _, err := c.Delete(t.Context(), by("ssn", "123450001"), always, nil); return err }},
			{"Maintain without work", 4*shards + 2, 0, func() error { // 17 of these requests search for old claims, once an hour
				time.Sleep(time.Minute)
				return c.Maintain(t.Context())
			}},
			// Three records were deleted or moved. Each needs a read of the head, and a deletion in each of three partitions. A
			// move also needs a read in each partition, because transactions have written its tombstones, and their answers
			// contain no ETag here. Each of two shards needs a query for its entries, and a transaction in the log.
			{"Maintain, minutes later", 3*shards + 1 + 3*4 + 3 + 2*2, 0, func() error {
				time.Sleep(2 * time.Minute)
				return c.Maintain(t.Context())
			}},
			// A transaction for each of two shards, one for the key's claim, and one for its answer.
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
				t.Errorf("%s: the caller waits for %v requests, want %v", cost.name, n, cost.awaited)
			}
			c.Close()
			if got := w.emulator.Counts().TableTransactions(); got != cost.requests {
				t.Errorf("%s: %d requests, want %d; all counts: %+v", cost.name, got, cost.requests, w.emulator.Counts())
			}
		}
	})
}

const shards = 16

// latency is the duration of a request in the tests of speed.
const latency = 10 * time.Millisecond
