package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/emulator"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// inserter writes what it is given, and prints the outcomes.
type inserter struct {
	*catalog.Catalog
	out    io.Writer
	upsert bool
}

func newInserter(t *testing.T, out io.Writer) *inserter {
	t.Helper()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	cat := people(t, a, "eid", "at")
	t.Cleanup(cat.Close)
	proof.Must(t, cat.Prepare(t.Context()))
	return &inserter{Catalog: cat, out: out}
}

func (in *inserter) run(ctx context.Context, input io.Reader) error {
	return Arriving(ctx, input, func(rows []Row) error {
		write := func(ctx context.Context, r record.Record) (catalog.Written, error) {
			if in.upsert {
				return in.Put(ctx, r, catalog.Condition{})
			}
			return in.Insert(ctx, r, "")
		}
		return Write(context.WithoutCancel(ctx), in.Catalog, rows, write, func(row Row, r catalog.Result) error {
			_, err := fmt.Fprintf(in.out, "%d %s\n", row.Line, r.Outcome)
			return err
		})
	})
}

// The last line of a record counts, however many records are under way.
func TestInsertKeepsTheOrderOfARecord(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := newInserter(t, &out)
	last := map[int]int{}
	var input strings.Builder
	for i := range 5 {
		fmt.Fprintf(&input, "{\"eid\":\"Person%d\",\"at\":\"x\"}\n", i)
	}
	proof.Must(t, in.run(t.Context(), strings.NewReader(input.String())))
	input.Reset()
	for n := range 100 {
		who := rand.IntN(5)
		last[who] = n
		fmt.Fprintf(&input, "{\"eid\":\"%s%d\",\"at\":\"x\",\"n\":%d}\n", []string{"person", "PERSON"}[n%2], who, n)
	}
	in.upsert = true
	proof.Must(t, in.run(t.Context(), strings.NewReader(input.String())))
	if got := strings.Count(out.String(), "replaced\n"); got != 100 {
		t.Errorf("%d lines tell a replacement, want 100:\n%s", got, &out)
	}
	for who, n := range last {
		r, err := in.Find(t.Context(), catalog.Lookup{Keys: map[string]string{"eid": fmt.Sprint("person", who)}})
		if err != nil || len(r.Records) != 1 {
			t.Fatalf("%v, %v", r.Records, err)
		}
		if got, _ := r.Records[0].Get("n"); got != fmt.Sprint(n) {
			t.Errorf("person %d has n %s, and its last line %d", who, got, n)
		}
	}
}

// What is not about one record ends the command.
func TestInsertStopsAtFailures(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := newInserter(t, &out)
	if err := in.run(t.Context(), strings.NewReader(strings.Repeat(`{"eid":"1","at":"x"}`+"\n", 3)+strings.Repeat("x", lines.MaxBytes+1))); err == nil || !strings.Contains(err.Error(), "line 4 is longer") {
		t.Errorf("got %v, want the line that is too long", err)
	}
	if got := out.String(); got != "1 created\n2 unchanged\n3 unchanged\n" {
		t.Errorf("printed\n%s", got)
	}
	out.Reset()
	proof.Must(t, in.Log.Delete(t.Context()))
	var input strings.Builder
	for i := range 100 {
		fmt.Fprintf(&input, "{\"eid\":\"%d\",\"at\":\"x\"}\n", i+2)
	}
	err := in.run(t.Context(), strings.NewReader(input.String()))
	if !storage.HasCode(err, "TableNotFound") || !strings.HasPrefix(err.Error(), "line 1: ") || out.Len() > 0 {
		t.Errorf("got %v, printed %s; want the first line's failure", err, &out)
	}
}
