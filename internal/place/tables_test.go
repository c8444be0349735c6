package place_test

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

var hashes = regexp.MustCompile(`("(?:manifest|proof)":")[0-9a-f]{64}"`)

// part is an export within a place.
type part struct {
	place.Objects
	name string
}

func (p part) Put(ctx context.Context, name string, content []byte) (bool, error) {
	return p.Objects.Put(ctx, p.name+"/"+name, content)
}

func (p part) Get(ctx context.Context, name string, offset, most int64) ([]byte, error) {
	return p.Objects.Get(ctx, p.name+"/"+name, offset, most)
}

func (p part) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return p.Objects.List(ctx, p.name+"/"+prefix, func(name string, bytes int64) error {
		return fn(strings.TrimPrefix(name, p.name+"/"), bytes)
	})
}

// exportTable makes the export of one table within an export of many tables.
func exportTable(t testing.TB, to place.Objects, name string, rows []storage.Entity, began time.Time) {
	t.Helper()
	w, err := place.Create(t.Context(), part{to, name}, place.NewClaim(place.ExportID("id-"+name), nil, began, "test"), place.Options{Compress: place.None})
	proof.Must(t, err)
	m := manifest(place.Options{Compress: place.None})
	m.Table, m.StartedAt, m.FinishedAt = name, began, began.Add(time.Minute)
	proof.Must(t, completeExport(t, w, w.Add(storage.Rows(rows)), m))
}

func tablesClaim(id string) place.Claim {
	return place.NewTablesClaim(place.ExportID(id), []byte(`{}`), began, "test")
}

// exportTables makes an export of three tables.
func exportTables(t testing.TB, to place.Objects) {
	t.Helper()
	proof.Must(t, place.FreeOfTables(t.Context(), to), place.ClaimTables(t.Context(), to, tablesClaim("all"), false))
	rows := oddRows(t, 9)
	for i, name := range []string{"b", "a", "c"} {
		exportTable(t, to, name, rows[:i], began.Add(time.Duration(i)*time.Hour))
	}
	for range 2 { // twice, as after a crash
		proof.Must(t, place.SealTables(t.Context(), to, "all", []string{"b", "a", "c"}))
	}
}

// An export of many tables can be completed in a directory and in blobs. No other export can begin in the same place.
func TestTables(t *testing.T) {
	t.Parallel()
	blobs, _ := inBlobs(t)
	var was map[string]string
	for _, to := range []place.Objects{place.Directory(t.TempDir()), blobs} {
		exportTables(t, to)
		got, err := place.OpenTables(t.Context(), to)
		if err != nil || len(got.Tables) != 3 || got.Tables[2].Rows != 2 {
			t.Errorf("got the tables %+v, error %v; want 3 tables", got, err)
		}
		for _, err := range []error{place.FreeOfTables(t.Context(), to), place.ClaimTables(t.Context(), to, tablesClaim("other"), false)} {
			if !errors.Is(err, place.ErrTaken) {
				t.Errorf("another export in the same place: got error %v", err)
			}
		}
		if err := place.ClaimTables(t.Context(), to, tablesClaim("all"), true); err != nil {
			t.Errorf("the same export again: got error %v", err)
		}
		if err := place.SealTables(t.Context(), to, "all", []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "another program wrote it") {
			t.Errorf("a list of only some tables: got error %v", err)
		}
		all := content(t, to)
		if diff := cmp.Diff(was, all); was != nil && diff != "" {
			t.Errorf("(-directory +blobs):\n%s", diff)
		}
		was = all
	}
}

// OpenTables refuses an incomplete or changed export of many tables. The error names the defects.
func TestOpenTablesRefuses(t *testing.T) {
	t.Parallel()
	whole := place.Directory(t.TempDir())
	exportTables(t, whole)
	all := content(t, whole)
	changed := func(name, old, new string) func(map[string]string) {
		return func(f map[string]string) {
			if f[name] = strings.Replace(all[name], old, new, 1); f[name] == all[name] {
				t.Errorf("%s has no %s", name, old)
			}
		}
	}
	for want, change := range map[string]func(map[string]string){
		"is not a complete export of many tables: it has no tables.json": func(f map[string]string) { delete(f, place.TablesName) },
		"a is missing": func(f map[string]string) {
			maps.DeleteFunc(f, func(name, _ string) bool { return strings.HasPrefix(name, "a/") })
		},
		"b is not a complete export": func(f map[string]string) { delete(f, "b/"+place.ManifestName) },
		"c is another export":        func(f map[string]string) { f["c/"+place.ManifestName] = f["b/"+place.ManifestName] },
		"d is not in it":             func(f map[string]string) { f["d/"+place.ClaimName] = f["b/"+place.ClaimName] },
		"a is missing, b is not a complete export, c is another export": func(f map[string]string) {
			maps.DeleteFunc(f, func(name, _ string) bool { return strings.HasPrefix(name, "a/") })
			delete(f, "b/"+place.ManifestName)
			f["c/"+place.ManifestName] += " "
		},
		"tables.json has changed since it was written": changed(place.TablesName, `"b"`, `"d"`),
		"tables.json has version 2":                    changed(place.TablesName, `"version":1`, `"version":2`),
		`its format is "tablesweep-export"`:            func(f map[string]string) { f[place.TablesName] = f["a/"+place.ManifestName] },
		"tables.json: unexpected end of JSON input":    func(f map[string]string) { f[place.TablesName] = "" },
		"does not match the text before it":            changed(place.TablesName, `"proof"`, `"prooF"`),
	} {
		files := maps.Clone(all)
		change(files)
		dir := directory(t, files)
		if _, err := place.OpenTables(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	text := all[place.TablesName]
	for i := range len(text) {
		bad := []byte(text)
		bad[i] ^= byte(1 << (i % 8))
		dir := stored{place.TablesName: string(bad)}
		if _, err := place.OpenTables(t.Context(), dir); err == nil || errors.Is(err, errors.ErrUnsupported) { // the object was accepted, and the exports were read
			t.Fatalf("byte %d is changed: %s: got error %v", i, bad, err)
		}
	}
}

// TestStoredTablesFormat checks the stored form. If the form changes, other versions cannot read the export, so the version must change as well.
func TestStoredTablesFormat(t *testing.T) {
	t.Parallel()
	dir := place.Directory(t.TempDir())
	exportTables(t, dir)
	got := content(t, dir)
	for name, want := range map[string]string{
		"tables-claim.json": `{"format":"tablesweep-tables","version":1,"id":"all","request":{},"startedAt":"2026-11-23T10:00:00Z","program":"test"`,
		"tables.json": `{"format":"tablesweep-tables","version":1,"id":"all","account":"acme","startedAt":"2026-11-23T10:00:00Z","finishedAt":"2026-11-23T12:01:00Z","tables":[` +
			`{"name":"a","id":"id-a","rows":1,"manifest":"…"},{"name":"b","id":"id-b","rows":0,"manifest":"…"},{"name":"c","id":"id-c","rows":2,"manifest":"…"}]`,
	} {
		if text := hashes.ReplaceAllString(got[name], `$1…"`); text != want+`,"proof":"…"}`+"\n" {
			t.Errorf("%s: got %s", name, text)
		}
	}
}
