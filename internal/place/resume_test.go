package place_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

func newJournal(t testing.TB, path string) *journal.File {
	t.Helper()
	j, err := journal.New(path, []byte(`{}`))
	proof.Must(t, err)
	return j
}

func reopen(t testing.TB, path string) *journal.File {
	t.Helper()
	j, err := journal.Read(path)
	proof.Must(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

var errDead = errors.New("dead")

// die begins an export with a journal, and ends as a killed process would, after some of the rows.
func die(t testing.TB, to place.Objects, path string, o place.Options, rows []storage.Entity) {
	t.Helper()
	o.Journal = newJournal(t, path)
	w, err := place.Create(t.Context(), to, newClaim(), o)
	proof.Must(t, err)
	if err := w.End(errors.Join(w.Add(storage.Rows(rows)), errDead)); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	proof.Must(t, o.Journal.Close())
}

// rowsAfter returns the rows after those that the export has.
func rowsAfter(w *place.Writer, rows []storage.Entity) []storage.Entity {
	last := w.Seal.Last()
	if last == nil {
		return rows
	}
	return rows[slices.IndexFunc(rows, func(e storage.Entity) bool { return e.Key == *last })+1:]
}

// ofExport returns all objects except the journal, which may be open.
func ofExport(t testing.TB, from place.Objects) map[string]string {
	t.Helper()
	all := content(t, from)
	delete(all, place.JournalName)
	delete(all, place.JournalName+".lock")
	return all
}

// An export that was killed at any row, with remains of the next file, is resumed to the same bytes, in a directory and in blobs, although answers
// are lost.
func TestResume(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	want := content(t, write(t, rows, o, 100))
	for dies := 0; dies <= len(rows); dies += testsize.Slow(60, 20, 10) {
		dir := t.TempDir()
		blobs, em := inBlobs(t)
		proof.Must(t, em.SetFaults("seed=3; reset-after p=0.2 on=put-blob"))
		for path, to := range map[string]place.Objects{filepath.Join(dir, place.JournalName): place.Directory(dir), filepath.Join(t.TempDir(), "checkpoint"): blobs} {
			die(t, to, path, o, rows[:dies])
			const foreign = "data/orders/data/000007-0123456789abcdef.jsonl.zst" // an object of another export in the same place
			for _, name := range []string{"data/000007-0123456789abcdef.jsonl.zst", "data/000008-0123456789abcdef.jsonl.zst.abcdefghijklmnop.part", foreign} {
				_, err := to.Put(t.Context(), name, []byte("a leftover"))
				proof.Must(t, err)
			}
			killed := func() { // simulates a process that was killed while it gave an object its name
				for _, name := range []string{place.ClaimName, place.FilesName, place.ManifestName, place.JournalName} {
					if to, ok := to.(place.Directory); ok {
						proof.Must(t, os.WriteFile(filepath.Join(string(to), name+".abcdefghijklmnop.part"), []byte("{"), 0o600))
					}
				}
			}
			killed()
			second := o
			second.Journal = reopen(t, path)
			w, err := place.Resume(t.Context(), to, second)
			if err != nil {
				t.Fatalf("%s: killed at row %d: got error %v", to.Address(), dies, err)
			}
			_, err = to.Get(t.Context(), foreign, 0, 1)
			proof.Must(t, err)
			proof.Must(t, to.Delete(t.Context(), foreign))
			if w.Seal.Last() != nil && w.Add(storage.Rows(rows[:1])) == nil {
				t.Errorf("%s: killed at row %d: the resumed export accepts a row that its files have", to.Address(), dies)
			}
			finish(t, w, rowsAfter(w, rows), o, 10+dies%7)
			proof.Must(t, second.Journal.Close())
			if diff := cmp.Diff(want, ofExport(t, to)); diff != "" {
				t.Fatalf("%s: killed at row %d (-want +got):\n%s", to.Address(), dies, diff)
			}
			killed()
			second.Journal = reopen(t, path)
			if _, err := place.Resume(t.Context(), to, second); !errors.Is(err, place.ErrComplete) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(want, ofExport(t, to)); diff != "" {
				t.Fatalf("%s: a complete export (-want +got):\n%s", to.Address(), diff)
			}
		}
	}
}

// dying are objects whose process is killed before it puts one of them.
type dying struct {
	place.Objects
	before string
}

func (d dying) Put(ctx context.Context, name string, content []byte) (bool, error) {
	if name == d.before {
		return false, errDead
	}
	return d.Objects.Put(ctx, name, content)
}

// An export that was killed after it had all rows, but before it had a manifest, does not accept rows that were added since, because its list of
// files already exists.
func TestResumeAfterTheLastRow(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	want := content(t, write(t, rows[:200], o, 100))
	dir := place.Directory(t.TempDir())
	path := filepath.Join(string(dir), place.JournalName)
	first := o
	first.Journal = newJournal(t, path)
	w, err := place.Create(t.Context(), dying{dir, place.ManifestName}, newClaim(), first)
	proof.Must(t, err)
	if err := completeExport(t, w, w.Add(storage.Rows(rows[:200])), manifest(o)); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	proof.Must(t, first.Journal.Close())
	o.Journal = reopen(t, path)
	if w, err = place.Resume(t.Context(), dir, o); err != nil || !w.Whole {
		t.Fatalf("got the writer %+v, error %v; want a writer with all rows", w, err)
	}
	finish(t, w, nil, o, 1)
	if diff := cmp.Diff(want, ofExport(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// resumeExport resumes an export with the given files, and compares the result. If the resume is refused, the objects must be unchanged.
func resumeExport(t *testing.T, files map[string]string, o place.Options, rows []storage.Entity, want map[string]string) error {
	t.Helper()
	dir := directory(t, files)
	j, err := journal.Read(filepath.Join(string(dir), place.JournalName))
	if err == nil {
		defer j.Close()
		o.Journal = j
		var w *place.Writer
		if w, err = place.Resume(t.Context(), dir, o); err == nil {
			finish(t, w, rowsAfter(w, rows), o, 10)
			files = want
		}
	}
	files = maps.Clone(files)
	delete(files, place.JournalName) // a resume writes a new journal
	if diff := cmp.Diff(files, ofExport(t, dir)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	return err
}

// If the journal or files of an export were changed before a resume, the resume is refused, or repeats the lost work. The list of files never
// differs.
func TestResumeAfterChanges(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	want := content(t, write(t, rows, o, 100))
	dead := place.Directory(t.TempDir())
	die(t, dead, filepath.Join(string(dead), place.JournalName), o, rows)
	whole := content(t, dead)
	lines := slices.Collect(strings.Lines(whole[place.JournalName]))
	if len(lines) < 5 { // the first line, the claim and three files
		t.Fatalf("too few files: %d lines", len(lines))
	}
	journalOf := func(lines ...string) func(map[string]string) {
		return func(f map[string]string) { f[place.JournalName] = strings.Join(lines, "") }
	}
	edited := func(i int, old, new string) func(map[string]string) {
		line := strings.Replace(lines[i], old, new, 1)
		if line == lines[i] {
			t.Fatalf("the text %s is not in %s", old, line)
		}
		return journalOf(slices.Replace(slices.Clone(lines), i, i+1, line)...)
	}
	dataOf := func(change func(f map[string]string, name string)) func(map[string]string) {
		return func(f map[string]string) {
			for name := range f {
				if strings.HasPrefix(name, place.DataPrefix+"000000") {
					change(f, name)
				}
			}
		}
	}
	changes := map[string]func(map[string]string){
		"the first file's line is deleted": journalOf(slices.Delete(slices.Clone(lines), 2, 3)...),
		"lines are swapped":                journalOf(lines[0], lines[1], lines[3], lines[2], lines[4]),
		"rows":                             edited(2, `rows\":`, `rows\":1`),
		"first":                            edited(3, `first\":{\"PartitionKey\":\"`, `first\":{\"PartitionKey\":\"a`),
		"last":                             edited(2, `last\":{\"PartitionKey\":\"`, `last\":{\"PartitionKey\":\"a`),
		"sha256":                           edited(2, `sha256\":\"`, `sha256\":\"0`),
		"a file is deleted":                dataOf(func(f map[string]string, name string) { delete(f, name) }),
		"a shorter file":                   dataOf(func(f map[string]string, name string) { f[name] = "x" }),
		"another claim": func(f map[string]string) {
			f[place.ClaimName] = strings.Replace(f[place.ClaimName], `"id":"id"`, `"id":"it"`, 1)
		},
	}
	for name, change := range changes {
		files := maps.Clone(whole)
		change(files)
		repeats := name == "lines are swapped" // the resume repeats the work of these lines
		if err := resumeExport(t, files, o, rows, want); err == nil && !repeats {
			t.Errorf("%s: the resume was not refused", name)
		}
		if t.Failed() {
			t.Fatalf("the change was: %s", name)
		}
	}
}

// forgetful reports that a data file is put, but does not store it.
type forgetful struct{ *place.Blobs }

func (f forgetful) Put(ctx context.Context, name string, content []byte) (bool, error) {
	if strings.HasPrefix(name, place.DataPrefix+"000001-") {
		return true, nil
	}
	return f.Blobs.Put(ctx, name, content)
}

// Complete fails before it writes the manifest if a data file was deleted or replaced, or was never stored.
func TestMissingFilesPreventTheManifest(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	whole := content(t, write(t, rows, o, 100))
	for name := range whole {
		if !strings.HasPrefix(name, place.DataPrefix) {
			continue
		}
		for _, with := range []string{"", "x"} {
			dir := place.Directory(t.TempDir())
			w, err := place.Create(t.Context(), dir, newClaim(), o)
			proof.Must(t, err)
			proof.Must(t, w.End(w.Add(storage.Rows(rows)))) // puts all files
			path := filepath.Join(string(dir), name)
			if err = os.Remove(path); err == nil && with != "" {
				err = os.WriteFile(path, []byte(with), 0o600)
			}
			proof.Must(t, err)
			if _, err = w.Complete(t.Context(), manifest(o)); !errors.Is(err, place.ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s replaced by %q: got error %v", name, with, err)
			}
			if _, err := dir.Get(t.Context(), place.ManifestName, 0, 1); err == nil {
				t.Errorf("%s replaced by %q: a manifest was written", name, with)
			}
		}
	}

	b, _ := inBlobs(t)
	proof.Must(t, b.Make(t.Context()))
	w, err := place.Create(t.Context(), forgetful{b}, newClaim(), o)
	proof.Must(t, err)
	err = completeExport(t, w, w.Add(storage.Rows(rows)), manifest(o))
	if !errors.Is(err, place.ErrDamaged) || !strings.Contains(err.Error(), "data/000001-") || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
}
