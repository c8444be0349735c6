package place_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/journal"
)

// inBlobs returns a place in embedded storage, and what makes its answers get lost.
func inBlobs(t testing.TB) (*place.Blobs, *emulator.Emulator) {
	t.Helper()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	b, err := place.InContainer(a, "backups", "orders")
	if err != nil {
		t.Fatal(err)
	}
	return b, em
}

// Messages put a slash and an object's name behind the address.
func TestBlobsAddress(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	for prefix, want := range map[string]string{"": "/backups", "base/": "/backups/base", "/a/b//": "/backups/a/b"} {
		b, err := place.InContainer(a, "backups", prefix)
		if err != nil || !strings.HasSuffix(b.Address(), want) {
			t.Errorf("%q: %v, %v", prefix, b, err)
		}
	}
}

// An export to blobs that dies at any row goes on to the objects that a directory has, whatever answers get lost.
func TestResumeInBlobs(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	want := content(t, write(t, rows, o, 100))
	for dies := 0; dies <= len(rows); dies += 60 {
		to, em := inBlobs(t)
		if err := em.SetFaults("seed=3; reset-after p=0.2 on=put-blob"); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		j, err := journal.New(path, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		first := o
		first.Journal = j
		w, err := place.Create(t.Context(), to, claim(), first)
		if err != nil {
			t.Fatal(err)
		}
		dead := errors.New("dead")
		if _, err := w.End(t.Context(), errors.Join(w.Add(rows[:dies]), dead), nil); !errors.Is(err, dead) {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Put(t.Context(), "data/000007-0123456789abcdef.jsonl.zst", []byte("a leftover")); err != nil {
			t.Fatal(err)
		}
		second := o
		second.Journal = reopen(t, path)
		if w, err = place.Resume(t.Context(), to, second); err != nil {
			t.Fatalf("died at %d: %v", dies, err)
		}
		rest := rows
		if last := w.Seal.Last(); last != nil {
			rest = rows[slices.IndexFunc(rows, func(e storage.Entity) bool { return e.Key == *last })+1:]
		}
		finish(t, w, rest, o, 10)
		if err := second.Journal.Close(); err != nil {
			t.Fatal(err)
		}
		if err := em.SetFaults(""); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, content(t, to)); diff != "" {
			t.Fatalf("died at %d (-want +got):\n%s", dies, diff)
		}
		second.Journal = reopen(t, path)
		if _, err := place.Resume(t.Context(), to, second); !errors.Is(err, place.ErrComplete) {
			t.Errorf("got %v", err)
		}
	}
}

func reopen(t testing.TB, path string) *journal.File {
	t.Helper()
	j, err := journal.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// A place in blobs that has something is not written to, and a checkpoint is good for its own export alone.
func TestBlobsRefuse(t *testing.T) {
	t.Parallel()
	to, _ := inBlobs(t)
	if _, err := place.Open(t.Context(), to); !errors.Is(err, place.ErrNoExport) || !strings.Contains(err.Error(), "there is no such container") {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	j, err := journal.New(path, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	o := place.Options{Compress: place.Zstd, FileBytes: 2000, Journal: j}
	rows := oddRows(t, 50)
	w, err := place.Create(t.Context(), to, claim(), o)
	if err != nil {
		t.Fatal(err)
	}
	dead := errors.New("dead")
	if _, err := w.End(t.Context(), errors.Join(w.Add(rows), dead), nil); !errors.Is(err, dead) || w.Seal.Last() == nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := place.Open(t.Context(), to); !errors.Is(err, place.ErrNoExport) || !strings.Contains(err.Error(), "it has no manifest.json") {
		t.Errorf("got %v", err)
	}
	if _, err := place.Create(t.Context(), to, claim(), place.Options{}); !errors.Is(err, place.ErrTaken) || !strings.Contains(err.Error(), "it has data/") {
		t.Errorf("got %v", err)
	}
	resume := func(want string) {
		t.Helper()
		o.Journal = reopen(t, path)
		if _, err := place.Resume(t.Context(), to, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		o.Journal.Close()
	}
	all := content(t, to)
	for name := range all {
		if strings.HasPrefix(name, place.DataPrefix+"000001") {
			if err := to.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	resume("is damaged: files.jsonl, line 2: data/000001-")
	if err := to.Delete(t.Context(), place.ClaimName); err != nil {
		t.Fatal(err)
	}
	if _, err := place.Create(t.Context(), to, claim(), place.Options{}); !errors.Is(err, place.ErrTaken) || !strings.Contains(err.Error(), "it has data/") {
		t.Errorf("got %v", err)
	}
	if err := place.PutClaim(t.Context(), to, place.NewClaim("another", nil, began, "test")); err != nil {
		t.Fatal(err)
	}
	resume("is taken: it has an export")
	for name, text := range content(t, to) {
		if name != place.ClaimName && all[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
}
