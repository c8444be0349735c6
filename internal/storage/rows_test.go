package storage_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// A single operation is sent as a plain request, and is refused with the same error as an operation of a batch.
func TestSingleOperations(t *testing.T) {
	long := strings.Repeat("é", 400) // 2,400 bytes in a URL
	for _, tt := range []struct {
		pk, rk string
		batch  int64 // number of transactions
	}{
		{"p", "r", 0}, {"o'b", "a;b c%&+é😀", 0}, {"", "r", 1}, {"p", "", 1}, {"p", long, 1}, {long, "r", 1},
	} {
		a, em := openEmulator(t)
		table := newTable(t, a)
		em.ResetCounts()
		if err := table.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: row(tt.pk, tt.rk).Row()}); err != nil {
			t.Errorf("keys %q, %q: error %v", tt.pk, tt.rk, err)
		}
		if c := em.Counts(); c.Batch != tt.batch || c.Update != 1-tt.batch {
			t.Errorf("keys %q, %q: %d transactions and %d plain requests, want %d transactions", tt.pk, tt.rk, c.Batch, c.Update, tt.batch)
		}
	}
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		for _, pk := range []string{"p", ""} { // as a plain request, and in a transaction
			write := func(kind storage.OpKind, ifMatch string) error {
				return table.Write(t.Context(), storage.Op{Kind: kind, Row: row(pk, "r").Row(), IfMatch: ifMatch})
			}
			old := `W/"datetime'2000-01-01T00%3A00%3A00Z'"`
			for i, tt := range []struct {
				kind    storage.OpKind
				ifMatch string
				status  int
			}{
				{storage.Delete, "", 404}, {storage.Replace, "*", 404}, {storage.Merge, "*", 404}, {storage.Insert, "", 0},
				{storage.Insert, "", 409}, {storage.Replace, old, 412}, {storage.Merge, old, 412}, {storage.Delete, old, 412}, {storage.Delete, "", 0},
			} {
				err := write(tt.kind, tt.ifMatch)
				e, refused := err.(*storage.Error)
				if refused != (tt.status != 0) || !refused && err != nil {
					t.Errorf("partition %q, operation %d: got error %v, want status %d", pk, i, err, tt.status)
				} else if refused && (e.Status != tt.status || e.Index != 0 || e.Code == "" || e.Message == "" || strings.Contains(e.Message, "\n") || strings.HasPrefix(e.Message, "0:")) {
					t.Errorf("partition %q, operation %d: got %+v, want status %d", pk, i, e, tt.status)
				}
			}
		}
		err := a.Table("Nowhere").Write(t.Context(), storage.Op{Kind: storage.Delete, Row: row("p", "r").Row()})
		if !storage.HasCode(err, "TableNotFound") {
			t.Errorf("missing table: got error %v", err)
		}
	})
}

// TestRowsAreWrittenAsTheyWere writes rows that a query has read, and compares the copies.
func TestRowsAreWrittenAsTheyWere(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		source, destination := newTable(t, a), newTable(t, a)
		property := func(name string, of storage.Type, value string) storage.Property {
			return storage.Property{Name: name, Type: of, Value: jsontext.Value(value)}
		}
		typed := storage.Entity{Key: key.Key{Partition: "p'é", Row: "😀"}, Properties: []storage.Property{
			storage.StringProperty("S", "a\"\\\n\u2028é<&>"), storage.StringProperty("Empty", ""), property("B", storage.Boolean, "false"),
			property("I", storage.Int32, "-3"), storage.Int64Property("L", math.MaxInt64), property("D", storage.Double, "3.0"), property("E", storage.Double, "1e300"),
			property("N", storage.Double, `"NaN"`), property("Inf", storage.Double, `"-Infinity"`), storage.TimeProperty("T", time.Unix(1, 1234567)),
			property("G", storage.GUID, `"c9da6455-213d-42c9-9a79-3e9149a57833"`), storage.BinaryProperty("X", []byte{0, 1, 255}),
		}}
		rows := []storage.Entity{typed, row("p'é", "2"), row("q", "1")}
		for _, k := range oddKeys {
			rows = append(rows, row("odd", k))
		}
		for _, r := range rows {
			proof.Must(t, source.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: r.Row()}))
		}
		for _, q := range []storage.Query{{}, {Select: []string{"S", "D", "Text"}}} {
			p, err := source.Query(t.Context(), q)
			if err != nil || len(p.Rows) != len(rows) {
				t.Fatalf("got %d rows, error %v", len(p.Rows), err)
			}
			for _, r := range p.Rows {
				if err := destination.Write(t.Context(), storage.Op{Kind: storage.Replace, Row: r}); err != nil {
					t.Error(err)
				}
			}
			got, err := destination.Query(t.Context(), storage.Query{})
			if err != nil || !slices.EqualFunc(p.Entities(), got.Entities(), storage.Equal) {
				t.Errorf("select %v: got %v, error %v; want %v", q.Select, got.Entities(), err, p.Entities())
			}
		}
	})
}

// TestBodiesAreNotMixed writes many rows concurrently, over separate connections, while answers are lost and requests
// are repeated. No request may have another request's body.
func TestBodiesAreNotMixed(t *testing.T) {
	t.Parallel()
	_, em := openEmulator(t)
	table := newTable(t, open(t, emulatortest.Serve(t, em), storage.Options{}))
	// The third try succeeds, so that no request waits for long.
	proof.Must(t, em.SetFaults("seed=1; busy p=0.1 times=2; reset-before p=0.1 times=2; reset-after p=0.1 times=2; timeout-after p=0.1 times=2"))
	var g task.Group
	g.SetLimit(64)
	for i := range 150 {
		g.Go(func() error {
			var ops []storage.Op
			for j := range 1 + i%3 {
				e := row(fmt.Sprintf("p%d", i), fmt.Sprint(j))
				e.Properties = append(e.Properties, storage.StringProperty("Of", strings.Repeat(e.Key.Partition, 1+i%50)))
				ops = append(ops, storage.Op{Kind: storage.Replace, Row: e.Row()})
			}
			return table.Write(t.Context(), ops...)
		})
	}
	proof.Must(t, g.Wait())
	if len(em.FaultCounts()) < 4 {
		t.Errorf("only the faults %v occurred", em.FaultCounts())
	}
	n := 0
	err := table.All(t.Context(), storage.Query{}, func(p storage.Page) error {
		for _, e := range p.Rows {
			if n++; strings.Count(string(e.JSON()), e.Key.Partition) < 2 {
				t.Errorf("row %v contains %s", e.Key, e.JSON())
			}
		}
		return nil
	})
	if err != nil || n != 150+150 {
		t.Errorf("got %d rows, error %v", n, err)
	}
}

// TestETagOfAWrite: after a single write, the row's ETag is the one in the answer.
func TestETagOfAWrite(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, a *storage.Account) {
		table := newTable(t, a)
		e := row("p", "it's 1")
		for _, kind := range []storage.OpKind{storage.Insert, storage.Replace, storage.Merge} {
			b := table.Batch()
			b.Add(storage.Op{Kind: kind, Row: e.Row()})
			proof.Must(t, b.Do(t.Context()))
			if got, _, err := table.Get(t.Context(), e.Key); err != nil || got.ETag == "" || b.ETag() != got.ETag {
				t.Errorf("kind %d: the answer has ETag %q, the row has %q, error %v", kind, b.ETag(), got.ETag, err)
			}
		}
	})
}
