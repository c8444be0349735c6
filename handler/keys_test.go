package main

import (
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
)

// The command steps over the rows of a partition whose key it has seen: about a query for each
// partition, however many pages the partition has.
func TestKeysStepOverRows(t *testing.T) {
	t.Parallel()
	em, a, connection := serveEmulator(t, emulator.Options{})
	rows := manyRows(30, 40)
	if err := a.Table("big").Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (action.Copy{Destination: a.Table("big")}).Copy(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := em.SetFaults("short-page p=1 rows=10"); err != nil {
		t.Fatal(err)
	}
	em.ResetCounts()
	var out strings.Builder
	c := rootCommand()
	c.SetArgs([]string{"keys", "--table", "big", "--connection", connection})
	c.SetOut(&out)
	if err := execute(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	keys := strings.Fields(out.String())
	if requests := em.Counts().TableTransactions(); len(slices.Compact(keys)) != 30 || requests > 70 {
		t.Errorf("%d keys by %d requests, want 30 by 70 at most", len(keys), requests)
	}
}
