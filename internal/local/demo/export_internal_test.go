package demo

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

const container = "exports"

// fill creates a table with rows.
func (d *demo) fill(t *testing.T, table string, rows []storage.Entity) {
	t.Helper()
	to := d.account.Table(table)
	err := errors.Join(to.Delete(t.Context()), to.Create(t.Context()))
	if err == nil {
		_, err = action.Copy{Destination: to}.Copy(t.Context(), storage.Rows(rows))
	}
	proof.Must(t, err)
}

// copied copies rows between places with the app, and kills the given number of handler processes with SIGKILL at even distances.
func (d *demo) copied(t *testing.T, from, to scans.TableRef, rows, kills int) {
	t.Helper()
	var s status.Status
	err := d.call(t.Context(), "POST", "/api/scans", scans.Request{
		Source: from, SegmentSize: 20, SegmentsPerInvocation: 2, Action: scans.Action{Type: scans.Copy, Destination: &to},
	}, http.StatusAccepted, &s)
	proof.Must(t, err)
	killed := 0
	for at := "/api/scans/" + string(s.ID); s.State == "" || s.State == "running"; time.Sleep(10 * time.Millisecond) {
		if err := d.call(t.Context(), "GET", at, nil, http.StatusOK, &s); err != nil {
			t.Logf("a killed handler did not answer: %v", err)
			continue
		}
		if killed < kills && s.State == "running" && s.Rows.Scanned >= int64(rows*(killed+1)/(kills+2)) && d.host.Kill(killed%d.Instances) {
			killed++
		}
	}
	if s.State != "succeeded" || s.Rows.Scanned != int64(rows) || s.Rows.Written != int64(rows) || s.Rows.Failed != 0 || s.Steps.Pending != 0 {
		t.Fatalf("the scan's figures are %+v, want %d rows", s, rows)
	}
	if killed < (kills+1)/2 {
		t.Errorf("killed only %d processes", killed)
	}
	t.Logf("%s%s to %s%s: %d rows, %d steps, %d processes killed", from.Table, from.Container, to.Table, to.Container, rows, s.Steps.Done, killed)
}

// exportAndImport exports a table to a container and imports it again with the app, and compares both with the table. It returns the sorted hashes of the
// export's files.
func (d *demo) exportAndImport(t *testing.T, table string, rows, kills int) (hashes []string) {
	t.Helper()
	export := scans.TableRef{Container: container, Prefix: table + "/" + rand.Text()} // an earlier test may have left another export
	d.copied(t, scans.TableRef{Table: table}, export, rows, kills)
	objects, err := place.InContainer(d.account, container, export.Prefix)
	proof.Must(t, err)
	e, err := place.Open(t.Context(), objects)
	proof.Must(t, err)
	n := 0
	err = objects.List(t.Context(), "", func(name string, _ int64) error {
		n++
		if name, ok := strings.CutPrefix(name, place.DataPrefix); ok {
			_, hash, _ := strings.Cut(name, "-")
			hashes = append(hashes, hash)
		}
		return nil
	})
	slices.Sort(hashes)
	if m := e.Manifest(); err != nil || n != len(hashes)+3 || m.Files.Count != len(hashes) || m.Rows != int64(rows) || m.Table != table || m.FinishedAt.Before(m.StartedAt) {
		t.Errorf("the export has %d objects, error %v, manifest %+v", n, err, m)
	}
	back := table + "back"
	proof.Must(t, d.account.Table(back).Delete(t.Context()))
	d.copied(t, export, scans.TableRef{Table: back}, rows, kills)
	source := sweep.Spec{Source: d.account.Table(table)}
	for name, to := range map[string]storage.Source{"export": e, "import": d.account.Table(back)} {
		r, err := verify.Compare(t.Context(), source, to, verify.Options{})
		if err != nil || r.Differences() > 0 || r.Rows != int64(rows) {
			t.Errorf("table %s differs: %+v, error %v", name, r, err)
		}
	}
	return hashes
}

// TestExportWhileProcessesAreKilled exports a table and imports it again with three processes, which are killed again and again. Both must be exact, and the
// export's files must have the same bytes as those of an export without kills.
func TestExportWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	rows, kills := testsize.Slow(400, 800, 8833), testsize.Slow(1, 3, 20)
	em := emulatortest.New(t, emulator.Options{Latency: 2 * time.Millisecond})
	d := newDemo(t, 3, 1)
	d.Connection = emulatortest.Serve(t, em)
	stop, err := d.start(t.Context())
	proof.Must(t, err)
	defer stop()
	var hashes [2][]string
	for i, table := range []string{"nasty", "nastytwin"} { // a separate table has no hints of an earlier scan
		d.fill(t, table, emulatortest.NastyRows(rows))
		hashes[i] = d.exportAndImport(t, table, rows, kills*(1-i))
	}
	if !slices.Equal(hashes[0], hashes[1]) {
		t.Errorf("%d files, and %d without kills, or their content differs", len(hashes[0]), len(hashes[1]))
	}
}
