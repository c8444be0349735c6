package catalog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/storage"
)

// TestIndexThatWasSetBack: if the index table is restored from a backup that is more than a day
// old, recovery deletes the records in it that were deleted since.
func TestIndexThatWasSetBack(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "x"})
		c.Close()
		backup := w.rows("People", "")
		w.delete(c, by("eid", "1"), 1)
		c.Close()
		w.nextDay(c)
		for _, row := range backup {
			w.write("People", storage.Op{Kind: storage.Insert, Entity: row})
		}
		w.recover(c, time.Now().Add(-72*time.Hour))
		if _, err := check.Run(t.Context(), c, true, func(f catalog.Finding) { t.Logf("%+v", f) }); err != nil {
			t.Error(err)
		}
		w.wantFound(c, by("eid", "1"))
	})
}

// TestLogThatWasLost: if the log is lost, a half-deleted record is not adopted as an empty one.
func TestLogThatWasLost(t *testing.T) {
	t.Parallel()
	inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "x"})
		c.Close()
		live := w.rows("People", "")[0]
		time.Sleep(time.Second)
		w.delete(c, by("eid", "1"), 1)
		c.Close()
		// The log is lost, and one row is as if the deletion had not reached it.
		for _, row := range w.rows("PeopleWAL", "") {
			w.write("PeopleWAL", storage.Op{Kind: storage.Delete, Entity: row})
		}
		w.write("People", storage.Op{Kind: storage.Replace, Entity: live})
		time.Sleep(time.Second)
		for _, row := range w.rows("People", "") {
			if row.Get("tsw_gone") != "" { // its timestamp is newest
				w.write("People", storage.Op{Kind: storage.Replace, Entity: row})
			}
		}
		fresh := w.on(w.account, nil)
		if _, err := migrate.Run(t.Context(), fresh, false, func(f catalog.Finding) { t.Logf("%+v", f) }); err != nil { // a log that knows nothing
			t.Error(err)
		}
		if _, err := check.Run(t.Context(), fresh, true, func(f catalog.Finding) { t.Logf("%+v", f) }); err != nil {
			t.Error(err)
		}
		for _, row := range w.rows("People", "") {
			if row.Get("tsw_gone") == "" && row.Get("eid") != "1" {
				t.Errorf("row without the record: %v", row)
			}
		}
		if n := w.gone(); n > 0 {
			t.Errorf("%d tombstones are left behind", n)
		}
		w.check(fresh)
	})
}

// TestLargestRecord: records with 15 long index keys, and the largest record with the longest
// ones, are inserted, moved and deleted.
func TestLargestRecord(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ch                 string
		keyLength, columns int
	}{{"x", 500, 0}, {`"`, 500, 0}, {"<", 500, 0}, {"€", 500, 0}, {"x", 507, 224}} {
		t.Run(fmt.Sprint(tt.ch, tt.columns), func(t *testing.T) {
			value := strings.Repeat(tt.ch, tt.keyLength)
			fields := map[string]any{"sort": strings.Repeat("s", 500)}
			var keys []string
			for i := range 15 {
				keys = append(keys, fmt.Sprintf("k%02d", i))
				fields[keys[i]] = value
			}
			for i := range tt.columns {
				fields[fmt.Sprintf("f%03d", i)] = strings.Repeat("€", 2100)
			}
			w, c := newCatalog(t, strings.Join(keys, ","), "sort")
			w.insertAll(c, fields)
			fields["sort"] = strings.Repeat("t", 500)
			w.did(catalog.Replaced)(c.Replace(t.Context(), rec(t, mustJSON(fields)), by("k00", value), always))
			w.delete(c, by("k00", value), 1)
			c.Close()
		})
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
