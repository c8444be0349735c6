package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// A process dies at every n-th request in these tests, where n is everyRequest.
var everyRequest = testsize.Slow(13, 6, 1)

// TestEveryCrashPoint lets a writer die at each of its requests, before or after the request is carried out. If the writer
// retries, every index must contain the write when the retry returns. If no process retries, every index must contain either
// the old or the new record after Maintain.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	const old, moved = `{"eid":"1","npi":"7","lastname":"Faux"}`, `{"eid":"1","npi":"8","ssn":"9","lastname":"Smith"}`
	tests := []struct {
		name          string
		before, after string
		do            func(context.Context, *catalog.Catalog, record.Record) error
	}{
		{"insert", "", old, func(ctx context.Context, c *catalog.Catalog, r record.Record) error {
			_, err := c.Insert(ctx, r, "")
			return err
		}},
		{"replace", old, moved, func(ctx context.Context, c *catalog.Catalog, r record.Record) error {
			_, err := c.Replace(ctx, r, by("eid", "1"), always)
			return err
		}},
		{"delete", old, "", func(ctx context.Context, c *catalog.Catalog, _ record.Record) error {
			_, err := c.Delete(ctx, by("eid", "1"), always, nil)
			return err
		}},
	}
	for _, tt := range tests {
		for _, applied := range []bool{false, true} {
			for _, retried := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, applied %v, retried %v", tt.name, applied, retried), func(t *testing.T) {
					n := deaths(t, 1, testsize.Slow(7, 3, 1), func(t *testing.T, n int) bool { return crashOnce(t, n, applied, retried, tt.before, tt.after, tt.do) })
					if n < 6 {
						t.Errorf("the writer makes only %d requests", n)
					}
				})
			}
		}
	}
}

// crashOnce runs a write whose process dies at the n-th request, and reports whether the process has died.
func crashOnce(t *testing.T, n int, applied, retried bool, beforeText, afterText string, do func(context.Context, *catalog.Catalog, record.Record) error) bool {
	w, c := newCatalog(t, people, "lastname")
	var before, after []record.Record
	var r record.Record
	if beforeText != "" {
		before = append(before, rec(t, beforeText))
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), before[0], ""))
		c.Close()
	}
	if afterText != "" {
		r = rec(t, afterText)
		after = append(after, r)
	}
	victim, process := w.mortal(n, applied, nil)
	err := do(t.Context(), victim, r)
	victim.Close()
	if retried {
		if err := do(t.Context(), c, r); err != nil {
			t.Errorf("the retry returns the error %v", err)
		}
	}
	if retried || err == nil {
		w.wantEverywhere(c, after, before)
	}
	time.Sleep(time.Minute)
	w.maintain(c)
	if retried || err == nil || sameRecords(w.find(c, by("eid", "1")), after) {
		w.wantEverywhere(c, after, before)
	} else {
		w.wantEverywhere(c, before, after)
	}
	w.check(c)
	w.nextDay(c)
	w.check(c)
	return process.Dead()
}

func sameRecords(texts []string, records []record.Record) bool {
	return slices.EqualFunc(texts, records, func(s string, r record.Record) bool { return s == string(r.AppendJSON(nil)) })
}

// wantEverywhere checks that a query by each index key finds the records want, and does not find the records others.
func (w *world) wantEverywhere(c *catalog.Catalog, want, others []record.Record) {
	w.Helper()
	for _, field := range []string{"eid", "npi", "ssn"} {
		wanted := map[string][]record.Record{}
		for _, r := range others {
			if v, ok := r.Get(field); ok {
				wanted[v] = nil
			}
		}
		for _, r := range want {
			if v, ok := r.Get(field); ok {
				wanted[v] = append(wanted[v], r)
			}
		}
		for v, records := range wanted {
			w.wantFound(c, by(field, v), records...)
		}
	}
}

// TestOldEntryRestoresNoRecord deletes a record, its tombstones and its head, and then inserts the entry of the record's
// insertion again. The record must stay deleted.
func TestOldEntryRestoresNoRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.orphan(faux)
		entries := w.rows("PeopleWAL", "e|")
		if len(entries) != 1 {
			t.Fatalf("the pending entries are %v, want one", entries)
		}
		old := entries[0]
		replay := func() {
			t.Helper()
			proof.Must(t, w.account.Table("PeopleWAL").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: old.Row()}))
			w.recover(c)
		}
		replay()
		w.wantFound(c, by("eid", "F314"), rec(t, faux))
		w.delete(c, by("eid", "F314"), 1)
		c.Close()
		replay()
		w.wantFound(c, by("eid", "F314"))
		w.nextDay(c)
		if left := w.rows("People", ""); len(left) > 0 {
			t.Fatalf("tombstones remain: %v", left)
		}
		replay()
		if left := w.rows("People", ""); len(left) > 0 {
			t.Errorf("the old entry has restored the record: %v", left)
		}
		w.check(c)
	})
}

// TestInvalidEntriesDoNotStopMaintain inserts entries that cannot be applied into the log. Maintain must apply the other
// entries.
func TestInvalidEntriesDoNotStopMaintain(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		for n := 2; n <= 4; n++ { // the writers of several records die
			victim, _ := w.mortal(n, true, nil)
			_, _ = victim.Insert(t.Context(), rec(t, `{"eid":"`+string(rune('0'+n))+`","lastname":"x"}`), "")
		}
		entries := w.rows("PeopleWAL", "e|")
		log := w.account.Table("PeopleWAL")
		later := entries[0]
		later.Key.Row = "e|0000000000000000000-aaaa"
		for i, p := range later.Properties {
			if p.Name == "tsw_format" {
				later.Properties[i] = storage.Int64Property("tsw_format", 9)
			}
		}
		garbage := storage.Entity{Key: entries[0].Key, Properties: []storage.Property{storage.StringProperty("a", "b")}}
		garbage.Key.Row = "e|zzz"
		for _, e := range []storage.Entity{later, garbage} {
			proof.Must(t, log.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: e.Row()}))
		}
		if found := w.findings(c, false); len(found) != 2 || !strings.Contains(found[0].Problem+found[1].Problem, "cannot be applied: the entry e|zzz cannot be read: this program does not know the row's format") {
			t.Errorf("check finds %+v", found)
		}
		w.pass(c, time.Minute)
		parked := w.rows("PeopleWAL", "e|")
		w.pass(c, time.Minute)
		if again := w.rows("PeopleWAL", "e|"); !slices.EqualFunc(again, parked, func(a, b storage.Entity) bool { return a.ETag == b.ETag }) {
			t.Errorf("Maintain has tried parked entries again: %v", again)
		}
		if len(parked) != 2 {
			t.Fatalf("the log contains the entries %v, want the parked ones", parked)
		}
		for _, e := range parked { // the entry of a later version is not parked
			if (e.Get("tsw_parked") == "") != (e.Get("tsw_format") == "9") {
				t.Errorf("the entry %v has the wrong reason", e)
			}
		}
		for _, eid := range []string{"2", "3", "4"} {
			if len(w.find(c, by("eid", eid))) != 1 {
				t.Errorf("record %s is not found", eid)
			}
		}
		w.recover(c)
		if found := w.findings(c, false); len(found) != 2 {
			t.Errorf("check finds %+v", found)
		}
	})
}

// TestRowKeyCollision inserts two records with the same row key and one common index value. (The published hash does not
// distinguish "|" in a value from "|" between values.) The second insertion is refused and leaves no rows, even if its writer
// dies.
func TestRowKeyCollision(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for n := 0; n <= 14; n++ { // the request at which the writer dies; 0 means never
		inBubble(t, "x,y,z", "sort", func(t *testing.T, w *world, c *catalog.Catalog) {
			first := rec(t, `{"x":"a|b","y":"c","z":"s","sort":"1"}`)
			w.wantOutcome(catalog.Created)(c.Insert(t.Context(), first, ""))
			second := rec(t, `{"x":"a","y":"b|c","z":"s","sort":"1"}`)
			if n == 0 { // a replacement detects the collision before its commit
				w.insertAll(c, map[string]any{"x": "a", "y": "other", "z": "s", "sort": "1"})
				_, err := c.Replace(t.Context(), second, by("x", "a"), always)
				wantKind(t, err, problem.Conflict)
				w.delete(c, by("y", "other"), 1)
			}
			victim, _ := w.mortal(n, true, nil)
			_, err := victim.Insert(t.Context(), second, "key")
			if err == nil {
				t.Error("the colliding record was inserted")
			} else if n == 0 {
				wantKind(t, err, problem.Conflict)
				_, err = victim.Insert(t.Context(), second, "key") // the same request again
				wantKind(t, err, problem.Conflict)
			}
			victim.Close()
			_, err = c.Insert(t.Context(), second, "key") // the same request again, before another process has completed or withdrawn the insertion
			wantKind(t, err, problem.Conflict)
			w.wantFound(c, by("x", "a"))
			w.wantFound(c, by("y", "b|c"))
			for range 2 {
				time.Sleep(time.Minute)
				_ = c.Maintain(t.Context()) // its error reports the withdrawn insertion
			}
			w.maintain(c)
			w.wantFound(c, by("z", "s"), first)
			w.wantFound(c, by("x", "a"))
			w.wantFound(c, by("y", "b|c"))
			w.check(c)
		})
	}
}
