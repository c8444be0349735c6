package catalog_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
)

// allTypes is a record with values of every type, and with names of every kind.
const allTypes = `{"active":true,"age":41,"badge":"0f8fad5b-d9cb-469f-a165-70867728950e","badge@odata.type":"Edm.Guid","big":5000000000,"eid":"1",` +
	`"first name":"Ann","hired":"2020-02-03T04:05:06Z","hired@odata.type":"Edm.DateTime","huge":"9007199254740993","huge@odata.type":"Edm.Int64",` +
	`"key":"AQID","key@odata.type":"Edm.Binary","lastname":"Faux","npi":"7","rate":3.0,"ssn":"123-45-6789","tags":["a",{"b":1}]}`

// stored runs a test with a catalog of format 1 from testdata/stored.txtar. The file contains rows of every kind. The last
// write was some minutes after 2000-01-01, when the virtual time begins.
func stored(t *testing.T, test func(t *testing.T, w *world, c *catalog.Catalog, texts map[string]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{}, people, "lastname")
		texts := emulatortest.Load(t, w.account, "testdata/stored.txtar")
		time.Sleep(time.Hour)
		test(t, w, w.catalog(), texts)
	})
}

// TestStoredRecordsAreRead checks that queries by every key find the stored records, and that cursors and ids of earlier
// answers are still valid.
func TestStoredRecordsAreRead(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, w *world, c *catalog.Catalog, texts map[string]string) {
		for _, q := range []catalog.Lookup{by("eid", "1"), by("npi", "7"), by("ssn", "123-45-6789")} {
			w.wantFound(c, q, rec(t, allTypes))
		}
		w.wantFound(c, by("npi", "9"), rec(t, `{"eid":"2","npi":"9","lastname":"Moss"}`))
		w.wantFound(c, by("npi", "8")) // the record has moved to another npi
		w.wantFound(c, by("eid", "20"))
		// For a record whose move is not completed, there are the rows of the old identity, and one row of the new identity.
		w.wantFound(c, catalog.Lookup{Keys: map[string]string{"npi": "13"}, Or: map[string][]string{"npi": {"17"}}}, rec(t, `{"eid":"6","npi":"17","lastname":"Mover"}`))

		r, meta, err := c.Get(t.Context(), texts["id"])
		if err != nil || !record.Equal(r, rec(t, allTypes)) || meta.ETag != texts["etag"] {
			t.Errorf("Get of the id %s returns %s, %+v, error %v", texts["id"], r.AppendJSON(nil), meta, err)
		}
		q := by("npi", "77")
		q.Cursor = texts["find"]
		w.wantFound(c, q, rec(t, `{"eid":"12","npi":"77","ssn":"555","lastname":"Many2"}`))

		list, err := c.List(t.Context(), catalog.Lookup{Cursor: texts["list"], Top: 2})
		if err != nil || len(slices.Collect(list.Records())) != 2 || string(slices.Collect(list.Records())[0].AppendJSON(nil)) != `{"eid":"12","lastname":"Many2","npi":"77","ssn":"555"}` {
			t.Errorf("the next page of the list contains %v, error %v", slices.Collect(list.Records()), err)
		}
	})
}

// TestStoredChanges checks that the stored changes are listed, and that a stored cursor is still valid.
func TestStoredChanges(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, _ *world, c *catalog.Catalog, texts map[string]string) {
		type change struct{ Kind, EID string }
		list := func(cursor string) (all []change) {
			changes, _, err := changes(t, c, cursor)
			proof.Must(t, err)
			for _, ch := range changes {
				eid, _ := ch.Record.Get("eid")
				all = append(all, change{string(ch.Kind), eid})
			}
			return all
		}
		older := []change{{"insert", "12"}, {"insert", "11"}, {"insert", "10"}, {"delete", "3"}, {"insert", "3"}, {"replace", "2"}, {"insert", "2"}, {"insert", "1"}}
		newest := []change{{"insert", "7"}, {"insert", "6"}, {"delete", "20"}, {"insert", "20"}, {"insert", "5"}, {"replace", "4"}, {"insert", "4"}}
		if diff := cmp.Diff(append(newest, older...), list("")); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		got := list(texts["changes"])
		if diff := cmp.Diff(append(newest, older...)[4:], got); diff != "" {
			t.Errorf("changes after the cursor (-want +got):\n%s", diff)
		}
	})
}

// TestStoredEntries checks that unfinished writes are completed, that a repair tries parked entries again, and that tombstones
// are deleted. A deletion that finds a tombstone must complete the tombstone's write.
func TestStoredEntries(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, w *world, c *catalog.Catalog, _ map[string]string) {
		if got := len(w.rows("PeopleWAL", "e|")); got != 4 {
			t.Fatalf("%d entries are pending, want 4", got)
		}
		w.delete(c, by("npi", "14"), 0)
		if got := len(w.rows("PeopleWAL", "e|")); got != 3 {
			t.Errorf("%d entries are pending, want 3, because the entry of the tombstone is applied", got)
		}
		proof.Must(t, c.Maintain(t.Context()))
		if got := len(w.rows("PeopleWAL", "e|")); got != 1 {
			t.Errorf("%d entries are pending, want only the parked entry", got)
		}
		for _, row := range w.rows("People", "tomb:") {
			t.Errorf("the tombstone %v remains, although its head is Sure and no entry is pending", row.Key)
		}
		w.wantEverywhere(c, []record.Record{
			rec(t, `{"eid":"8","npi":"15","ssn":"16","lastname":"Pending"}`),
			rec(t, `{"eid":"6","npi":"17","lastname":"Mover"}`),
		}, []record.Record{
			rec(t, `{"eid":"6","npi":"13","lastname":"Mover"}`),
			rec(t, `{"eid":"7","npi":"14","lastname":"Leaver"}`),
			rec(t, `{"eid":"9","npi":"18","lastname":"Parked"}`),
		})
		w.recover(c)
		w.wantFound(c, by("npi", "18"), rec(t, `{"eid":"9","npi":"18","lastname":"Parked"}`))
		w.check(c)
		w.nextDay(c)
		w.check(c)
		for _, row := range append(w.rows("People", ""), w.rows("PeopleWAL", "")...) {
			if row.Get("tsw_gone") != "" || len(row.Key.Row) > 1 && row.Key.Row[1] == '|' && row.Key.Row[0] != 'h' && row.Key.Row[0] != 'c' {
				t.Errorf("the row %v remains after a day", row.Key)
			}
		}
	})
}

// TestStoredRecordsAreChanged checks that stored records can be changed with their stored ETags, and that a used
// Idempotency-Key stays used.
func TestStoredRecordsAreChanged(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, w *world, c *catalog.Catalog, texts map[string]string) {
		w.recover(c)
		once := rec(t, `{"eid":"3","npi":"10","lastname":"Once"}`)
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), once, "key-1"))
		w.wantFound(c, by("eid", "3")) // the record was deleted

		if done, err := c.Insert(t.Context(), rec(t, allTypes), ""); err != nil || done.Outcome != catalog.Unchanged || done.ETag != texts["etag"] {
			t.Errorf("the insertion of the same record returns %+v, error %v", done, err)
		}
		_, err := c.Patch(t.Context(), []byte(`{"npi":"70"}`), by("eid", "1"), catalog.Condition{Match: []string{`"1"`}})
		wantKind(t, err, problem.Unmet)
		w.wantOutcome(catalog.Replaced)(c.Patch(t.Context(), []byte(`{"npi":"70"}`), by("eid", "1"), catalog.Condition{Match: []string{texts["etag"]}}))
		w.wantFound(c, by("npi", "7"))
		tomb := rec(t, `{"eid":"20","npi":"21","lastname":"Tomb"}`)
		w.wantOutcome(catalog.Created)(c.Insert(t.Context(), tomb, ""))
		w.wantFound(c, by("npi", "21"), tomb)
		w.delete(c, by("npi", "77"), 3)
		c.Close()
		w.check(c)
		w.nextDay(c)
		w.check(c)
	})
}

// TestStoredMigration continues an interrupted migration. It must not wait again for writers that were stopped long ago.
func TestStoredMigration(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, w *world, c *catalog.Catalog, _ map[string]string) {
		other := parsed(t, "eid,npi", "npi")
		wantKind(t, catalog.New(catalog.Options{Index: c.Index, Log: c.Log, Schema: other}).Prepare(t.Context()), problem.Conflict)

		w.suffix = "Moving"
		moving := w.openOn(w.account, nil)
		wantKind(t, moving.Prepare(t.Context()), problem.Moving)
		w.schema = other
		moving = w.openOn(w.account, nil)
		t.Cleanup(moving.Close)
		wantKind(t, moving.Prepare(t.Context()), problem.Moving)
		start := time.Now()
		w.migrate(moving)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the migration took %v, although writers were stopped an hour ago", took)
		}
		w.prepare(moving)
		for _, n := range []string{"0", "1", "2"} {
			w.wantFound(moving, by("npi", "n"+n), rec(t, `{"eid":"`+n+`","npi":"n`+n+`","ssn":"s`+n+`","lastname":"Move`+n+`"}`))
		}
		w.check(moving)
	})
}
