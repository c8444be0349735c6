package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/job"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// nastyTable returns rows of every type, and with odd keys, in table order.
func nastyTable() []storage.Entity {
	rows := emulatortest.NastyRows(testsize.Slow(1000, 1500, 8833))
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

// TestNastyTableInBlobs: a table of odd rows goes out to blobs and in again, and is equal.
func TestNastyTableInBlobs(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	t.Run("emulator", func(t *testing.T) {
		t.Parallel()
		_, a, connection := serveEmulator(t, emulator.Options{})
		exportNasty(t, a, connection, nastyTable())
	})
	t.Run("azurite", func(t *testing.T) {
		t.Parallel()
		a, connection := azurite(t)
		rows := nastyTable()
		for i := range rows { // Azurite takes a text of 64 KiB in a transaction, but not alone
			rows[i].Properties = slices.DeleteFunc(rows[i].Properties, func(p storage.Property) bool { return p.Name == "Long" })
		}
		exportNasty(t, a, connection, rows)
	})
}

// azurite opens Azurite's account.
func azurite(t *testing.T) (*storage.Account, string) {
	t.Helper()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	return accountOf(t, connection), connection
}

func exportNasty(t *testing.T, a *storage.Account, connection string, rows []storage.Entity) {
	name := "x" + strings.ToLower(rand.Text())
	emulatortest.Table(t, a, name, rows)
	for _, args := range [][]string{
		{"export", "--from", name, "--to", "blob:" + name + "/a/b", "--verify"},
		{"import", "--from", "blob:" + name + "/a/b", "--to", name + "back", "--verify"},
		{"verify", "--from", name, "--to", name + "back"},
		{"copy", "--from", "blob:" + name + "/a/b", "--to", "blob:" + name + "/c", "--compress", "none"},
		{"verify", "--from", "blob:" + name + "/c", "--to", name + "back"},
	} {
		small(t, append(args, "--from-connection", connection)...)
	}
}

// TestSASIsNotKept: what a checkpoint keeps of a command has no SAS, and asks for it again.
func TestSASIsNotKept(t *testing.T) {
	t.Parallel()
	to := "https://acme.blob.core.windows.net/backups/orders?sv=1&sig=SECRET"
	point := job.Checkpoint{Command: "copy", New: filepath.Join(t.TempDir(), "c.ckpt")}
	record, err := point.Begin(copyOf(t, "--from", "orders", "--to", to).given(), job.Facts{})
	if text := string(record.Request); err != nil || strings.Contains(text, "SECRET") || !strings.Contains(text, `"again":["to"]`) {
		t.Error(err, text)
	}
	proof.Must(t, errors.Join(point.File.Renew([]any{struct{}{}}), point.File.Close()))
	for _, tt := range []struct {
		args       []string
		from, want string
	}{{nil, "", "give --to again"}, {[]string{"--to", to}, "orders", ""}} {
		again := job.Checkpoint{Command: "copy", Resume: point.New}
		set, err := again.Open(copyOf(t, tt.args...).given())
		if set["from"] != tt.from || tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%v: %v, %v", tt.args, set, err)
		}
		if err := again.File.Close(); err != nil {
			t.Error(err)
		}
	}
}
