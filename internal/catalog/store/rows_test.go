package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

const id = "2524556159999999999-ffff-abcdefghijkl" // contains the first tick of 2000

var (
	moved = wal.Write{
		First: "f1", Identity: "i2", Row: "faux:00000001", Partitions: []index.PartitionKey{"3_eid1", "3_npi7"}, Version: 18, Fresh: true,
		Instead: &wal.FormerIdentity{Identity: "i1", Version: 17}, Lineage: &wal.FormerIdentity{Identity: "i0", Version: 12},
	}
	gone = wal.Write{First: "f1", Identity: "i1", Row: "faux:00000000", Partitions: []index.PartitionKey{"3_eid1", "3_npi5"}, Version: 18, Gone: true, Next: &wal.FormerIdentity{Identity: "i2", Version: 18}, Lineage: &wal.FormerIdentity{Identity: "i0", Version: 12}}
)

func parse(t *testing.T, text string) record.Record {
	t.Helper()
	r, err := record.Parse([]byte(text))
	proof.Must(t, err)
	return r
}

func schema(t *testing.T, keys, row string) index.Schema {
	t.Helper()
	s, err := index.Parse(keys, row)
	proof.Must(t, err)
	return s
}

// TestFormat1 checks a row of each kind in format 1. If one of these texts must change, older programs cannot read the rows, so
// the format needs a new number.
func TestFormat1(t *testing.T) {
	t.Parallel()
	r := parse(t, `{"eid":"1","npi":7,"tags":["a"]}`)
	s := store.Store{Schema: schema(t, "eid,npi", "lastname")}
	e := store.Entry{Entry: wal.Entry{Kind: wal.Replace, Writes: []wal.Write{gone, moved}}, ID: id, Shard: "04", Record: r}
	const writes = `"[{\"first\":\"f1\",\"identity\":\"i1\",\"row\":\"faux:00000000\",\"partitions\":[\"3_eid1\",\"3_npi5\"],\"version\":18,\"gone\":true,\"next\":{\"identity\":\"i2\",\"version\":18},\"line\":{\"identity\":\"i0\",\"version\":12}},` +
		`{\"first\":\"f1\",\"identity\":\"i2\",\"row\":\"faux:00000001\",\"partitions\":[\"3_eid1\",\"3_npi7\"],\"version\":18,\"fresh\":true,` +
		`\"instead\":{\"identity\":\"i1\",\"version\":17},\"line\":{\"identity\":\"i0\",\"version\":12}}]"`
	const fields = `"eid":"1","npi":7,"tsw_j_tags":"[\"a\"]"`
	if kinds := fmt.Sprintf("%s %s %s %s", wal.Insert, wal.Replace, wal.Delete, wal.Undo); kinds != "insert replace delete undo" {
		t.Errorf("the kinds of operations are %s", kinds)
	}
	for name, tt := range map[string]struct {
		row  storage.Entity
		want string
	}{
		"index row": {store.IndexRow(moved, "3_npi7", r), `{"PartitionKey":"3_npi7","RowKey":"faux:00000001",` + fields +
			`,"tsw_line":"{\"identity\":\"i0\",\"version\":12}","tsw_identity":"i2","tsw_version@odata.type":"Edm.Int64","tsw_version":"18"}`},
		"tombstone": {store.IndexRow(gone, "3_npi5", r),
			`{"PartitionKey":"3_npi5","RowKey":"faux:00000000","tsw_gone":true,"tsw_first":"f1","tsw_next":"{\"identity\":\"i2\",\"version\":18}","tsw_line":"{\"identity\":\"i0\",\"version\":12}","tsw_identity":"i1","tsw_version@odata.type":"Edm.Int64","tsw_version":"18"}`},
		"head": {store.HeadRow(gone, id, "c1", true), `{"PartitionKey":"08","RowKey":"h|f1|i1","Sure":true,"Format@odata.type":"Edm.Int64","Format":"1",` +
			`"Write":"{\"first\":\"f1\",\"identity\":\"i1\",\"row\":\"faux:00000000\",\"partitions\":[\"3_eid1\",\"3_npi5\"],\"version\":18,\"gone\":true,\"next\":{\"identity\":\"i2\",\"version\":18},\"line\":{\"identity\":\"i0\",\"version\":12}}","Entry":"` + id + `","Content":"c1"}`},
		"entry": {store.EntryRow(store.EntryPrefix, e), `{"PartitionKey":"04","RowKey":"e|` + id + `",` + fields +
			`,"tsw_format@odata.type":"Edm.Int64","tsw_format":"1","tsw_kind":"replace","tsw_writes":` + writes + `}`},
		"change": {store.EntryRow(store.ChangePrefix, e), `{"PartitionKey":"04","RowKey":"c|` + id + `",` + fields +
			`,"tsw_format@odata.type":"Edm.Int64","tsw_format":"1","tsw_kind":"replace","tsw_writes":` + writes + `}`},
		"schema": {s.SchemaRow(store.Ready), `{"PartitionKey":"schema","RowKey":"","Format@odata.type":"Edm.Int64","Format":"1","Schema":"eid:lower,npi:lower;lastname:text","State":"ready"}`},
	} {
		if diff := cmp.Diff(tt.want, string(tt.row.AppendJSON(nil))); diff != "" {
			t.Errorf("the row %s differs (-want +got):\n%s", name, diff)
		}
	}
}

// TestOtherFormats checks that rows of another format are refused. For a newer format, the error must contain advice.
func TestOtherFormats(t *testing.T) {
	t.Parallel()
	for format, newer := range map[int64]bool{0: false, 2: true} {
		head, entry := store.HeadRow(moved, id, "c1", true), store.EntryRow(store.EntryPrefix, store.Entry{ID: id})
		for i, p := range head.Properties {
			if p.Name == "Format" {
				head.Properties[i] = storage.Int64Property("Format", format)
			}
		}
		for i, p := range entry.Properties {
			if p.Name == "tsw_format" {
				entry.Properties[i] = storage.Int64Property("tsw_format", format)
			}
		}
		_, headErr := store.HeadOf(head)
		_, entryErr := store.EntryOf(entry)
		for _, err := range []error{headErr, entryErr} {
			if err == nil || errors.Is(err, store.ErrNewer) != newer {
				t.Errorf("the error for format %d is %v", format, err)
			}
		}
	}
}
