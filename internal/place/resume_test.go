package place_test

import (
	"errors"
	"maps"
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
