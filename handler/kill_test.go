package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/testsize"
)

// TestKilledCopy kills a copy some times, at even distances, and resumes it. The copy
// must be exact, and what is done twice must be little.
func TestKilledCopy(t *testing.T) {
	t.Parallel()
	kills := testsize.Slow(2, 5, 10)
	em, a, connection := serveEmulator(t, emulator.Options{Latency: 10 * time.Millisecond})
	rows := manyRows(testsize.Slow(1000, 4000, 8000), 10)
	emulatortest.Table(t, a, "source", rows)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("handler", append([]string{"copy", "--progress", "none", "--json"}, args...)...)
		c.Env = append(os.Environ(), "AzureWebJobsStorage="+connection)
		return c
	}
	em.ResetCounts()
	if out, err := command("--from", "source", "--to", "whole").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := em.Counts().TableTransactions()
	em.ResetCounts()
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	args := []string{"--from", "source", "--to", "pieces", "--checkpoint", checkpoint}
	for i := range kills {
		c := command(args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for em.Counts().TableTransactions() < whole*int64(i+1)/int64(kills+1) {
			time.Sleep(time.Millisecond) // the other process is no part of this one's time
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		args = []string{"--resume", checkpoint}
	}
	out, err := command(args...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var result jobResult
	if err := json.Unmarshal(out, &result); err != nil || result.Rows != int64(len(rows)) || result.Written != result.Rows {
		t.Errorf("it counted %s, %v; want %d rows", out, err, len(rows))
	}
	requests := em.Counts().TableTransactions()
	each := float64(requests-whole) / float64(kills)
	t.Logf("%d requests uninterrupted, %d with %d kills: %.0f more each", whole, requests, kills, each)
	if each > 2*sweep.DefaultWorkers { // what was under way, and the pages that it came from
		t.Errorf("a kill costs %.0f requests", each)
	}
	sameRows(t, a, "pieces", len(rows))
}

// serveEmulator serves embedded storage over HTTP until the test ends.
func serveEmulator(t testing.TB, o emulator.Options) (*emulator.Emulator, *storage.Account, string) {
	t.Helper()
	em, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server, err := em.Serve(context.WithoutCancel(t.Context()), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c, err := storage.ParseConnection(server.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	a, err := storage.Open(c, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return em, a, server.ConnectionString()
}
