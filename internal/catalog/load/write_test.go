package load

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// newCatalog returns an empty catalog.
func newCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	c := people(t, a, "eid", "at")
	t.Cleanup(c.Close)
	proof.Must(t, c.Prepare(t.Context()))
	return c
}

// TestInsertStopsAtFailures checks that an error ends the command if the error does not concern a single record.
func TestInsertStopsAtFailures(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newCatalog(t)
	insert := func(text string) error {
		return Arriving(t.Context(), strings.NewReader(text), func(rows []Row) error {
			write := func(ctx context.Context, r record.Record) (catalog.Written, error) { return c.Insert(ctx, r, "") }
			return Write(t.Context(), c, rows, write, func(row Row, r catalog.Result) error {
				_, err := fmt.Fprintf(&out, "%d %s\n", row.Line, r.Outcome)
				return err
			})
		})
	}
	if err := insert(strings.Repeat(`{"eid":"1","at":"x"}`+"\n", 3) + strings.Repeat("x", lines.MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "line 4 is longer") {
		t.Errorf("the error is %v, want one that names the line that is too long", err)
	}
	if got := out.String(); got != "1 created\n2 unchanged\n3 unchanged\n" {
		t.Errorf("the printed results are\n%s", got)
	}
	out.Reset()
	proof.Must(t, c.Log.Delete(t.Context()))
	var input strings.Builder
	for i := range 100 {
		fmt.Fprintf(&input, "{\"eid\":\"%d\",\"at\":\"x\"}\n", i+2)
	}
	err := insert(input.String())
	if !storage.HasCode(err, "TableNotFound") || !strings.HasPrefix(err.Error(), "line 1: ") || out.Len() > 0 {
		t.Errorf("the error is %v, printed %s; want the error of the first line", err, &out)
	}
}
