package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/function"
	"tablesweep/internal/host"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// nightly exports all tables at three, and keeps two backups.
const nightly = `[{"name":"nightly","cron":"0 0 3 * * *","keep":{"last":2},
	"request":{"source":{"tables":"T[0-9]*"},"action":{"type":"copy","destination":{"container":"backups","prefix":"{date}"}}}}]`

// TestNightly has three handler processes back tables up, night after night, by a service's clock that is set on. The processes are killed
// under it.
func TestNightly(t *testing.T) {
	t.Parallel()
	if !testsize.Full() {
		t.Skip("runs processes for half a minute; in full it does")
	}
	var ahead atomic.Int64 // of the service's clock
	e, err := emulator.New(emulator.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	proof.Must(t, err)
	server, err := e.Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
	t.Cleanup(func() { server.Close() })
	c, err := storage.ParseConnection(server.ConnectionString())
	proof.Must(t, err)
	account, err := storage.Open(c, storage.Options{})
	proof.Must(t, err)
	for i := range 30 {
		var rows []storage.Entity
		for r := range 10 * i {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprint(r / 7), Row: fmt.Sprint(r % 7)}, Properties: []storage.Property{storage.Int64Property("N", int64(r))}})
		}
		emulatortest.Table(t, account, fmt.Sprintf("T%02d", i), rows)
	}
	d := newDemo(t, 3, 0)
	d.Connection, d.more["TABLESWEEP_SCHEDULES"] = server.ConnectionString(), nightly
	functions := function.Functions(function.App{})
	for i := range functions {
		if functions[i].Name == "Maintain" {
			functions[i].Schedule = "* * * * * *" // by the machine's clock, which goes slower than the storage's
		}
	}
	app, err := host.Start(t.Context(), host.Options{
		Root: d.Root, Executable: d.Executable, Addr: "127.0.0.1:0", Instances: d.Instances, Settings: d.settings(), Functions: functions,
	})
	proof.Must(t, err)
	t.Cleanup(app.Close)
	ask := func(method, path string, answer any) error {
		req, err := http.NewRequestWithContext(t.Context(), method, app.URL()+path, strings.NewReader("{}"))
		proof.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("%s %s: %s", method, path, resp.Status)
		}
		if answer == nil {
			return nil
		}
		return json.NewDecoder(resp.Body).Decode(answer)
	}
	var list engine.ScheduleList
	look := func() *engine.Run {
		if err := ask("GET", "/api/schedules", &list); err != nil || len(list.Schedules) != 1 {
			return nil // a process was killed
		}
		return list.Schedules[0].Success
	}
	r := rand.New(rand.NewPCG(1, 2))
	for night := range 3 {
		for look(); len(list.Schedules) == 0; look() {
			time.Sleep(50 * time.Millisecond)
		}
		ahead.Add(int64(list.Schedules[0].Next.Sub(time.Now().Add(time.Duration(ahead.Load()))) + time.Second))
		kills := 0
		for due := *list.Schedules[0].Next; ; time.Sleep(200 * time.Millisecond) {
			if s := look(); s != nil && s.Occurrence.Equal(due) {
				break
			}
			if kills < 4 && app.Kill(r.IntN(3)) {
				kills++
			}
			if s := list.Schedules[0]; s.Last != nil && s.Last.State == ledger.Failed {
				t.Fatalf("night %d: %+v", night, s.Last)
			}
		}
		t.Logf("night %d: %d processes killed", night, kills)
	}
	var backups engine.BackupList
	for len(backups.Backups) != 2 || slices.ContainsFunc(backups.Backups, func(b engine.BackupStatus) bool { return b.Deleting != nil }) {
		look()
		_ = ask("GET", "/api/schedules/nightly/backups", &backups)
		time.Sleep(50 * time.Millisecond)
	}
	for _, b := range backups.Backups {
		has(t, account, b.Place)
	}
}

// has fails the test unless an export of many has the rows of all 30 tables.
func has(t *testing.T, account *storage.Account, at engine.TableRef) {
	t.Helper()
	in := func(prefix string) *place.Blobs {
		b, err := place.InContainer(account, at.Container, prefix)
		proof.Must(t, err)
		return b
	}
	all, err := place.OpenTables(t.Context(), in(at.Prefix))
	if err != nil || len(all.Tables) != 30 {
		t.Fatalf("%d tables, %v", len(all.Tables), err)
	}
	for _, table := range all.Tables {
		x, err := place.Open(t.Context(), in(at.Prefix+"/"+table.Name))
		proof.Must(t, err)
		got, err := emulatortest.All(t.Context(), x, storage.Query{})
		if want := emulatortest.Rows(t, account.Table(table.Name)); err != nil || !slices.EqualFunc(got, want, storage.Equal) {
			t.Errorf("%s: %d rows, want %d; %v", table.Name, len(got), len(want), err)
		}
	}
}
