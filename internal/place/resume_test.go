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

	"tablesweep/internal/place"
)

// An export whose list was changed before it goes on is refused: it would end without rows, or unreadable.
func TestResumeRefusesChangedIndex(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	whole := content(t, write(t, rows, o, 100))
	delete(whole, place.ManifestName)
	lines := strings.SplitAfter(strings.TrimSuffix(whole[place.FilesName], "\n"), "\n")
	if len(lines) < 3 {
		t.Fatalf("too few files: %d", len(lines))
	}
	whole[place.FilesName] = strings.Join(lines[:len(lines)-1], "")
	last := len(lines) - 2
	file := func(i int) place.File {
		f, err := place.ParseFile([]byte(strings.TrimSpace(lines[i])))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	edited := func(i int, edit func(*place.File)) func(map[string]string) {
		return func(files map[string]string) {
			f := file(i)
			edit(&f)
			files[place.FilesName] = strings.Replace(files[place.FilesName], lines[i], string(asLine(t, f))+"\n", 1)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"the first line gone": func(f map[string]string) { f[place.FilesName] = strings.Join(lines[1:last+1], "") },
		"a line gone": func(f map[string]string) {
			f[place.FilesName] = strings.Join(slices.Delete(slices.Clone(lines[:last+1]), last-1, last), "")
		},
		"lines swapped":     func(f map[string]string) { f[place.FilesName] = lines[1] + lines[0] },
		"a key ahead":       edited(last, func(f *place.File) { f.Last = place.Key{PartitionKey: "\ufffd\ufffd\ufffd"} }),
		"a key behind":      edited(last, func(f *place.File) { f.Last = f.First }),
		"fewer rows":        edited(last, func(f *place.File) { f.Rows-- }),
		"another page":      edited(last, func(f *place.File) { f.Pages[0].Hash = strings.Repeat("0", 16) }),
		"another hash":      edited(0, func(f *place.File) { f.SHA256 = strings.Repeat("0", 64) }),
		"another last file": func(f map[string]string) { f[file(last).Path] = strings.Repeat("x", int(file(last).Bytes)) },
		"a shorter file":    func(f map[string]string) { f[file(0).Path] = "x" },
	} {
		files := maps.Clone(whole)
		change(files)
		dir := place.Directory(t.TempDir())
		for name, text := range files {
			if _, err := dir.Put(t.Context(), name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		w, err := place.Resume(t.Context(), dir, o)
		if err == nil {
			t.Errorf("%s: taken", name)
			_ = w.FileDraft.Pages.End(errors.New("enough"))
		} else if !strings.Contains(err.Error(), "is damaged: files.jsonl, line ") {
			t.Errorf("%s: got %v", name, err)
		}
		there := content(t, dir)
		if !maps.Equal(files, there) {
			t.Errorf("%s: the objects have changed", name)
		}
	}
}

// A process that died while it wrote the claim leaves a part of it, which no other export minds.
func TestPartOfClaim(t *testing.T) {
	t.Parallel()
	dir := place.Directory(t.TempDir())
	if _, err := dir.Put(t.Context(), place.ClaimName+".part", []byte(`{"form`)); err != nil {
		t.Fatal(err)
	}
	w, err := place.Create(t.Context(), dir, claim(), place.Options{Compress: place.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, w, oddRows(t, 3), place.Options{Compress: place.Zstd}, 3)
	if there := content(t, dir); len(there) != 4 {
		t.Errorf("got %v", slices.Sorted(maps.Keys(there)))
	}
}

// forgetful says of a data file that it is put, and has none.
type forgetful struct{ *place.Blobs }

func (f forgetful) Put(ctx context.Context, name string, content []byte) (bool, error) {
	if strings.HasPrefix(name, place.DataPrefix+"000001-") {
		return true, nil
	}
	return f.Blobs.Put(ctx, name, content)
}

// What was put and is gone, replaced, or was never there by the end is noticed before the manifest.
func TestVanishedFiles(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 300)
	o := place.Options{Compress: place.Zstd, FileBytes: 16_000}
	whole := content(t, write(t, rows, o, 100))
	for name := range whole {
		if name == place.ManifestName || name == place.ClaimName {
			continue
		}
		for _, with := range []string{"", "x"} {
			dir := place.Directory(t.TempDir())
			w, err := place.Create(t.Context(), dir, claim(), o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.End(t.Context(), w.Add(rows), func() (place.Manifest, error) { // all files have been put
				path := filepath.Join(string(dir), name)
				if with == "" {
					return manifest(o), os.Remove(path)
				}
				return manifest(o), os.WriteFile(path, []byte(with), 0o600)
			})
			if !errors.Is(err, place.ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s replaced by %q: got %v", name, with, err)
			}
			if _, err := dir.Get(t.Context(), place.ManifestName, 0, 1); err == nil {
				t.Errorf("%s replaced by %q: there is a manifest", name, with)
			}
		}
	}

	b, _ := inBlobs(t)
	if err := b.Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, err := place.Create(t.Context(), forgetful{b}, claim(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.End(t.Context(), w.Add(rows), func() (place.Manifest, error) { return manifest(o), nil })
	if !errors.Is(err, place.ErrDamaged) || !strings.Contains(err.Error(), "data/000001-") || !strings.Contains(err.Error(), "or was never there") {
		t.Errorf("got %v", err)
	}
}

// unreadable has objects that may be listed and put, but not read.
type unreadable struct{ place.Directory }

var errUnreadable = errors.New("no permission to read")

func (unreadable) Get(context.Context, string, int64, int64) ([]byte, error) {
	return nil, errUnreadable
}

// Who may not read is told so before anything is put: a resume would be too late.
func TestReadsFirst(t *testing.T) {
	t.Parallel()
	dir := unreadable{place.Directory(t.TempDir())}
	if _, err := place.Create(t.Context(), dir, claim(), place.Options{Compress: place.Zstd}); !errors.Is(err, errUnreadable) {
		t.Errorf("got %v", err)
	}
	if err := dir.List(t.Context(), "", func(name string, _ int64) error { return errors.New(name) }); err != nil {
		t.Errorf("there is %v", err)
	}
}
