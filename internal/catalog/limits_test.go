package catalog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/emulator"
	"tablesweep/internal/storage"
)

// TestIndexThatWasSetBack: if the index table is restored from a backup that is more than a day
// old, recovery deletes the records in it that were deleted since.
func TestIndexThatWasSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
		c := w.catalog()
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "x"})
		c.Close()
		backup := w.rows("People", "")
		if n, err := c.Delete(t.Context(), by("eid", "1"), always); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		c.Close()
		time.Sleep(25 * time.Hour)
		w.maintain(c)
		for _, row := range backup {
			w.write("People", storage.Op{Kind: storage.Insert, Entity: row})
		}
		if _, err := c.Recover(t.Context(), time.Now().Add(-72*time.Hour)); err != nil {
			t.Error(err)
		}
		if _, err := check.Run(t.Context(), c, true, func(f catalog.Finding) { t.Logf("%+v", f) }); err != nil {
			t.Error(err)
		}
		w.wantFound(c, by("eid", "1"))
	})
}

// TestLogThatWasLost: if the log is lost, a half-deleted record is not adopted as an empty one.
func TestLogThatWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
		c := w.catalog()
		w.insertAll(c, map[string]any{"eid": "1", "npi": "7", "lastname": "x"})
		c.Close()
		var live storage.Entity
		for _, row := range w.rows("People", "") {
			if row.Key.Partition == "3_eid1" {
				live = row
			}
		}
		time.Sleep(time.Second)
		if n, err := c.Delete(t.Context(), by("eid", "1"), always); n != 1 || err != nil {
			t.Fatal(n, err)
		}
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
		sum, err := check.Run(t.Context(), fresh, false, func(f catalog.Finding) { t.Errorf("after repair: %+v", f) })
		t.Log(sum, err)
	})
}

// TestLongKeys: records may have 15 index keys with the longest values.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	for _, ch := range []string{"x", `"`, "<", "€"} {
		for _, n := range []int{300, 500} {
			t.Run(fmt.Sprint(ch, n), func(t *testing.T) {
				var keys []string
				fields := map[string]any{"sort": "1"}
				for i := range 15 {
					k := fmt.Sprintf("k%02d", i)
					keys = append(keys, k)
					fields[k] = strings.Repeat(ch, n)
				}
				w := newWorld(t, emulator.Options{}, strings.Join(keys, ","), "sort")
				c := w.catalog()
				w.insertAll(c, fields)
				fields["sort"] = "2"
				b := rec(t, mustJSON(fields))
				if _, err := c.Replace(t.Context(), b, by("k00", strings.Repeat(ch, n)), always); err != nil {
					t.Errorf("replace: %v", err)
				}
				if n, err := c.Delete(t.Context(), by("k00", strings.Repeat(ch, n)), always); n != 1 || err != nil {
					t.Errorf("delete: %d, %v", n, err)
				}
				c.Close()
			})
		}
	}
}

// TestLargestRecord: the largest record with the longest keys is inserted, moved and deleted.
func TestLargestRecord(t *testing.T) {
	t.Parallel()
	var keys []string
	fields := map[string]any{"sort": strings.Repeat("s", 500)}
	for i := range 15 {
		k := fmt.Sprintf("k%02d", i)
		keys = append(keys, k)
		fields[k] = strings.Repeat("x", 507)
	}
	for i := range 224 {
		fields[fmt.Sprintf("f%03d", i)] = strings.Repeat("€", 2100)
	}
	w := newWorld(t, emulator.Options{}, strings.Join(keys, ","), "sort")
	c := w.catalog()
	t.Log(len(fields), "fields")
	w.insertAll(c, fields)
	fields["sort"] = strings.Repeat("t", 500)
	if _, err := c.Replace(t.Context(), rec(t, mustJSON(fields)), by("k00", strings.Repeat("x", 507)), always); err != nil {
		t.Errorf("replace: %v", err)
	}
	if n, err := c.Delete(t.Context(), by("k00", strings.Repeat("x", 507)), always); n != 1 || err != nil {
		t.Errorf("delete: %d, %v", n, err)
	}
	c.Close()
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
