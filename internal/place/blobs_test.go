package place_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// inBlobs returns a place in embedded storage, and the emulator, which can lose answers.
func inBlobs(t testing.TB) (*place.Blobs, *emulator.Emulator) {
	t.Helper()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	b, err := place.InContainer(a, "backups", "orders")
	proof.Must(t, err)
	return b, em
}

// The address has no slash at its end, because messages add a slash and an object's name.
func TestBlobsAddress(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	for prefix, want := range map[string]string{"": "/backups", "base/": "/backups/base", "/a/b//": "/backups/a/b"} {
		b, err := place.InContainer(a, "backups", prefix)
		if err != nil || !strings.HasSuffix(b.Address(), want) {
			t.Errorf("prefix %q: got %v, error %v, want an address that ends with %s", prefix, b, err, want)
		}
	}
}

// An export does not write to a place that has any blobs. A checkpoint is valid only for its own export.
func TestBlobsRefuse(t *testing.T) {
	t.Parallel()
	to, _ := inBlobs(t)
	if _, err := place.Open(t.Context(), to); !errors.Is(err, place.ErrNoExport) || !strings.Contains(err.Error(), "there is no such container") {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	j := newJournal(t, path)
	o := place.Options{Compress: place.Zstd, FileBytes: 2000, Journal: j}
	rows := oddRows(t, 50)
	w, err := place.Create(t.Context(), to, newClaim(), o)
	proof.Must(t, err)
	dead := errors.New("dead")
	if err := w.End(errors.Join(w.Add(storage.Rows(rows)), dead)); !errors.Is(err, dead) || w.Seal.Last() == nil {
		t.Fatal(err)
	}
	proof.Must(t, j.Close())
	if _, err := place.Open(t.Context(), to); !errors.Is(err, place.ErrNoExport) || !strings.Contains(err.Error(), "it has no manifest.json") {
		t.Errorf("got %v", err)
	}
	if _, err := place.Create(t.Context(), to, newClaim(), place.Options{}); !errors.Is(err, place.ErrTaken) || !strings.Contains(err.Error(), "it contains data/") {
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
			proof.Must(t, to.Delete(t.Context(), name))
		}
	}
	resume("is damaged: data/000001-")
	proof.Must(t, to.Delete(t.Context(), place.ClaimName))
	if _, err := place.Create(t.Context(), to, newClaim(), place.Options{}); !errors.Is(err, place.ErrTaken) || !strings.Contains(err.Error(), "it contains data/") {
		t.Errorf("got %v", err)
	}
	proof.Must(t, place.PutClaim(t.Context(), to, place.NewClaim("another", nil, began, "test")))
	resume("is taken: it contains an export")
	for name, text := range content(t, to) {
		if name != place.ClaimName && all[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
}
