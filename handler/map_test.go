package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/verify"
)

// another gives rows another PartitionKey, of two properties.
const another = `.PartitionKey = .Country + "-" + (.Items | tostring) | .RowKey = .RowKey + (.Name | ltrimstr("Name of a customer"))`

// repartitioned returns what another makes of typical rows, in table order.
func repartitioned(rows []storage.Entity) []storage.Entity {
	rows = slices.Clone(rows)
	for i, row := range rows {
		rows[i].Key = key.Key{Partition: fmt.Sprintf("Portugal-%d", i%50), Row: fmt.Sprintf("%s %d", row.Key.Row, i)}
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

// TestKilledCopy kills a copy that repartitions a table, in the middle of pages and between them. Each row must be there once, and counted once.
func TestKilledCopy(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	partitions, kills := testsize.Slow(30, 100, 10_000), testsize.Slow(2, 4, 20)
	_, a, connection := serveEmulator(t, emulator.Options{})
	g := newGate(t, connection)
	rows := typicalRows(partitions, 100)
	emulatortest.Table(t, a, "orders", rows)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("tablesweep", append(args, "--progress", "none", "--json")...)
		c.Env = append(os.Environ(), "AzureWebJobsStorage="+g.connection)
		return c
	}
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	args := []string{"copy", "--from", "orders", "--to", "another", "--map", another, "--checkpoint", checkpoint}
	batches := int64(len(rows) / 20) // of a page, each partition of 50 gets 20
	for i := range int64(kills) {
		g.kill(t, command(args...), func() bool { return g.batches.Load()*int64(kills+1) >= batches*(i+1) })
		args = []string{"copy", "--resume", checkpoint}
		if i == 0 {
			if out, err := command(append(args, "--map", ".")...).CombinedOutput(); err == nil {
				t.Errorf("it went on with another program: %s", out)
			}
		}
	}
	out, err := command(args...).Output()
	var r jobResult
	if err != nil || json.Unmarshal(out, &r) != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Failed > 0 {
		t.Errorf("it counted %s, %v; want %d rows", out, err, len(rows))
	}
	want := emulatortest.Table(t, a, "want", repartitioned(rows))
	same, err := verify.Compare(t.Context(), sweep.Spec{Source: want}, a.Table("another"), verify.Options{})
	if err != nil || same.Rows != r.Rows || same.Differences() > 0 {
		t.Errorf("%+v, %v", same, err)
	}
}
