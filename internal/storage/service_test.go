package storage_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// openEmulator returns a new account of embedded storage.
func openEmulator(t *testing.T) (*storage.Account, *emulator.Emulator) {
	t.Helper()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	return a, em
}

func open(t *testing.T, connection string, o storage.Options) *storage.Account {
	t.Helper()
	c, err := storage.ParseConnection(connection)
	proof.Must(t, err)
	a, err := storage.Open(c, o)
	proof.Must(t, err)
	return a
}

// onEach runs a test on embedded storage and on Azurite.
func onEach(t *testing.T, test func(*testing.T, *storage.Account)) {
	t.Run("emulator", func(t *testing.T) {
		a, _ := openEmulator(t)
		test(t, a)
	})
	t.Run("azurite", func(t *testing.T) {
		connection := os.Getenv("TABLESWEEP_AZURITE")
		if connection == "" {
			t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
		}
		test(t, open(t, connection, storage.Options{}))
	})
}

// newTable creates a table with a unique name.
func newTable(t *testing.T, a *storage.Account) *storage.Table {
	t.Helper()
	table := a.Table("T" + rand.Text())
	for range 2 { // the second time, the table exists
		proof.Must(t, table.Create(t.Context()))
	}
	return table
}

func row(pk, rk string) storage.Entity {
	return storage.Entity{Key: key.Key{Partition: pk, Row: rk}, Properties: []storage.Property{storage.StringProperty("Text", "x")}}
}

// oddKeys contains keys that aztables handles wrongly in batches, and others that easily cause errors in URLs and filters.
var oddKeys = []string{"", "o'b", "''", "50%", "%27", "a+b", "a b", "é", "😀", "\ue000", "\ufffd", "a&b=c;d:e,f", "$x()", strings.Repeat("k", 512)}

func TestOddKeys(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		for _, k := range oddKeys {
			e := row(k, k)
			for _, op := range []storage.OpKind{storage.Insert, storage.Replace, storage.Merge, storage.Delete, storage.Insert} {
				if err := table.Write(t.Context(), storage.Op{Kind: op, Row: e.Row()}); err != nil {
					t.Errorf("key %q, operation %d: error %v", k, op, err)
				}
			}
			got, found, err := table.Get(t.Context(), e.Key)
			if err != nil || !found || !storage.Equal(got, e) {
				t.Errorf("key %q is read as %v, found %v, error %v", k, got, found, err)
			}
		}
		var n int
		err := table.All(t.Context(), storage.Query{Top: 3}, func(p storage.Page) error { n += len(p.Rows); return nil })
		if err != nil || n != len(oddKeys) {
			t.Errorf("got %d rows, error %v; want %d", n, err, len(oddKeys))
		}
	})
}

// Azurite's parser of transactions ends lines at U+2028 and U+2029, and reads a row key that begins with a comma as a part
// of the partition key.
func TestTransactionsForAzurite(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		const text = "a\u2028b\u2029c"
		want := []key.Key{{Partition: "c", Row: ","}, {Partition: "c", Row: ",,"}, {Partition: "c", Row: "a,"}, {Partition: "c", Row: "b"}}
		b, batches := table.Batch(), 1
		for _, k := range want {
			op := storage.Op{Kind: storage.Replace, Row: storage.Entity{Key: k, Properties: []storage.Property{storage.StringProperty("Text", text)}}.Row()}
			if b.Add(op) {
				continue
			}
			proof.Must(t, b.Do(t.Context()))
			b, batches = table.Batch(), batches+1
			b.Add(op)
		}
		if err := b.Do(t.Context()); err != nil || batches != 3 {
			t.Errorf("got error %v after %d transactions, want 3, because rows with a comma are sent alone", err, batches)
		}
		p, err := table.Query(t.Context(), storage.Query{})
		if err != nil || !slices.Equal(p.Keys(), want) {
			t.Errorf("got keys %q, error %v; want %q", p.Keys(), err, want)
		}
		for _, e := range p.Entities() {
			if e.Get("Text") != text {
				t.Errorf("row %v has the value %q, want %q", e.Key, e.Get("Text"), text)
			}
		}
	})
}

func TestBatchErrorsNameTheOperation(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		proof.Must(t, table.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: row("p", "there").Row()}))
		there, _, err := table.Get(t.Context(), key.Key{Partition: "p", Row: "there"})
		proof.Must(t, err)
		fine := func(rk string) storage.Op { return storage.Op{Kind: storage.Replace, Row: row("p", rk).Row()} }
		for _, tt := range []struct {
			name   string
			bad    storage.Op
			status int
			code   string
		}{
			{"exists", storage.Op{Kind: storage.Insert, Row: row("p", "there").Row()}, 409, "EntityAlreadyExists"},
			{"missing", storage.Op{Kind: storage.Delete, Row: row("p", "missing").Row()}, 404, "ResourceNotFound"},
			{"changed", storage.Op{Kind: storage.Merge, Row: there.Row(), IfMatch: `W/"datetime'2000-01-01T00%3A00%3A00Z'"`}, 412, "UpdateConditionNotSatisfied"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				err := table.Write(t.Context(), fine("1"), fine("2"), tt.bad, fine("3"))
				e, ok := err.(*storage.Error)
				if !ok || e.Status != tt.status || e.Code != tt.code || e.Temporary() || e.Message == "" || strings.Contains(e.Message, "\n") {
					t.Fatalf("got error %#v, want %d %s", err, tt.status, tt.code)
				}
				if e.Index != 2 {
					t.Errorf("the error names operation %d, want 2", e.Index)
				}
				if _, found, err := table.Get(t.Context(), key.Key{Partition: "p", Row: "1"}); found || err != nil {
					t.Errorf("a failed batch has written a row, error %v", err)
				}
			})
		}
		err = table.Write(t.Context(), storage.Op{Kind: storage.Merge, Row: there.Row(), IfMatch: there.ETag})
		if err != nil {
			t.Errorf("merge with the row's ETag: error %v", err)
		}
	})
}

func TestErrorsOfTheService(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		_, err := a.Table("Nowhere").Query(t.Context(), storage.Query{})
		if !storage.NotFound(err) || !storage.HasCode(err, "TableNotFound") || !storage.Permanent(err) {
			t.Errorf("missing table: error %v", err)
		}
		if err := a.Table("Nowhere").Delete(t.Context()); err != nil {
			t.Errorf("delete of a missing table: error %v", err)
		}
		if _, err := newTable(t, a).Query(t.Context(), storage.Query{Filter: "A is B"}); !storage.Permanent(err) {
			t.Errorf("invalid filter: error %v", err)
		}
	})
}

func TestQueryReadsRangesByTokens(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		for _, pk := range []string{"a", "b", "c"} {
			var ops []storage.Op
			for i := range 7 {
				ops = append(ops, storage.Op{Kind: storage.Insert, Row: row(pk, fmt.Sprint(i)).Row()})
			}
			proof.Must(t, table.Write(t.Context(), ops...))
		}
		b := "b"
		for _, tt := range []struct {
			name string
			r    key.Range
			want int
		}{
			{"all", key.Range{}, 21},
			{"from", key.Range{Low: &key.Bound{Key: "b"}}, 14},
			{"behind", key.Range{Low: &key.Bound{Key: "b", Open: true}}, 7},
			{"between", key.Range{Low: &key.Bound{Key: "a", Open: true}, High: &key.Bound{Key: "c", Open: true}}, 7},
			{"up to", key.Range{High: &key.Bound{Key: "b"}}, 14},
			{"partition", key.Range{Partition: &b}, 7},
			{"partition behind", key.Range{Partition: &b, Low: &key.Bound{Key: "3", Open: true}}, 3},
		} {
			var keys []key.Key
			err := table.All(t.Context(), storage.Query{Range: tt.r, Top: 2, Select: []string{"Text"}}, func(p storage.Page) error {
				if p.Date.IsZero() || len(p.Rows) > 2 {
					t.Errorf("range %s: got a page of %d rows with the date %v", tt.name, len(p.Rows), p.Date)
				}
				keys = append(keys, p.Keys()...)
				return nil
			})
			if err != nil || len(keys) != tt.want {
				t.Errorf("range %s: got %d rows, error %v; want %d", tt.name, len(keys), err, tt.want)
			}
			for _, k := range keys {
				if !tt.r.Contains(k) {
					t.Errorf("range %s: row %v is outside", tt.name, k)
				}
			}
		}
	})
}

func TestBatchLimits(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		b := table.Batch()
		for i := 0; b.Add(storage.Op{Kind: storage.Insert, Row: row("p", fmt.Sprint(i)).Row()}); i++ {
		}
		if b.Rows() != storage.MaxBatchRows {
			t.Errorf("the batch accepted %d rows, want %d", b.Rows(), storage.MaxBatchRows)
		}
		if err := b.Do(t.Context()); err != nil {
			t.Error(err)
		}
		large := row("q", "")
		for i := range 15 {
			large.Properties = append(large.Properties, storage.StringProperty(fmt.Sprint("L", i), strings.Repeat("x", 32<<10)))
		}
		b = table.Batch()
		for i := 0; b.Add(storage.Op{Kind: storage.Insert, Row: large.Row()}); i++ {
			large.Key.Row = fmt.Sprint(i)
		}
		if b.Rows() < 7 || b.Rows() > 8 { // 480 KiB each, at most 4 MiB in all
			t.Errorf("the batch accepted %d large rows, want 7 or 8", b.Rows())
		}
		if err := b.Do(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueue(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		q, err := a.Queue("q-" + strings.ToLower(rand.Text()))
		proof.Must(t, err)
		for range 2 {
			proof.Must(t, q.Create(t.Context()))
		}
		const text = "<a>&\"é😀"
		proof.Must(t, q.Put(t.Context(), text))
		if n, err := q.Length(t.Context()); n != 1 || err != nil {
			t.Errorf("got length %d, error %v", n, err)
		}
		first, err := q.Get(t.Context(), storage.MaxGetMessages, time.Minute)
		if err != nil || len(first) != 1 || first[0].Text != text || first[0].DequeueCount != 1 {
			t.Fatalf("got messages %v, error %v", first, err)
		}
		if _, err := q.Update(t.Context(), first[0], 0); err != nil {
			t.Fatal(err)
		}
		second, err := q.Get(t.Context(), 1, time.Minute)
		if err != nil || len(second) != 1 || second[0].Text != text || second[0].DequeueCount != 2 {
			t.Fatalf("got messages %v, error %v", second, err)
		}
		if err := q.Delete(t.Context(), first[0]); !storage.NotFound(err) && !storage.HasCode(err, "PopReceiptMismatch") {
			t.Errorf("delete with an old receipt: error %v", err)
		}
		if err := q.Delete(t.Context(), second[0]); err != nil {
			t.Error(err)
		}
	})
}

// A busy service slows its callers down, but does not make their requests fail. Every try counts as a request.
func TestBusyServiceIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, em := openEmulator(t)
		table := newTable(t, a)
		for _, faults := range []string{"seed=1; busy p=0.7", "seed=1; busy p=0.7 retry-after=3s", "seed=1; timeout-before p=0.7", "seed=2; timeout-after p=0.7", "seed=1; reset-before p=0.7"} {
			proof.Must(t, em.SetFaults(faults))
			em.ResetCounts()
			start := time.Now()
			var counter storage.Counter
			counted := table.With(storage.RequestOptions{Counter: &counter})
			for i := range 10 {
				if err := counted.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: row("p", fmt.Sprint(i)).Row()}); err != nil {
					t.Errorf("faults %s: error %v", faults, err)
				}
			}
			if counter.Requests() <= 10 || counter.Requests() != em.Counts().TableTransactions() {
				t.Errorf("%s: counted %d requests, but the service got %d; want more than 10", faults, counter.Requests(), em.Counts().TableTransactions())
			}
			if time.Since(start) < time.Second {
				t.Errorf("%s: no pause between tries", faults)
			}
		}
	})
}

func TestMayWrite(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		if exists, err := table.MayWrite(t.Context()); !exists || err != nil {
			t.Errorf("MayWrite: exists %v, error %v; want permission", exists, err)
		}
		if err := table.MayDelete(t.Context()); err != nil {
			t.Errorf("MayDelete: error %v; want permission", err)
		}
		if p, err := table.Query(t.Context(), storage.Query{}); err != nil || len(p.Rows) > 0 {
			t.Errorf("after the checks the table has %d rows, error %v; want none", len(p.Rows), err)
		}
		if exists, err := a.Table("nothere").MayWrite(t.Context()); exists || err != nil {
			t.Errorf("MayWrite: exists %v, error %v; want no table", exists, err)
		}
		if err := a.Table("nothere").MayDelete(t.Context()); !storage.HasCode(err, "TableNotFound") {
			t.Errorf("MayDelete: error %v; want a missing table", err)
		}
	})
}

func TestMayNotWrite(t *testing.T) {
	t.Parallel()
	_, em := openEmulator(t)
	wrong := strings.Replace(em.ConnectionString(), "AccountKey=", "AccountKey=AAAA", 1)
	a := open(t, wrong, storage.Options{Transport: em.Transport()})
	if _, err := a.Table("table").MayWrite(t.Context()); !storage.Permanent(err) {
		t.Errorf("MayDelete with a wrong key: error %v", err)
	}
	if err := a.Table("table").MayDelete(t.Context()); !storage.Permanent(err) {
		t.Errorf("MayWrite with a wrong key: error %v", err)
	}
}
