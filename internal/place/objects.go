package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tablesweep/internal/file"
)

// Objects are the objects of an export: files in a directory, or blobs below a prefix. Names may contain slashes. An object never changes. The
// methods may be called concurrently.
type Objects interface {
	// Put creates an object durably and completely, or not at all. If an object with this name exists, Put changes nothing and returns false without
	// an error.
	Put(ctx context.Context, name string, content []byte) (made bool, err error)
	// Get reads at most the given number of bytes from an offset. It returns fewer bytes if the object ends earlier. If the object does not exist, the
	// error is [fs.ErrNotExist].
	Get(ctx context.Context, name string, offset, most int64) ([]byte, error)
	// List calls fn with the objects whose names start with the prefix.
	List(ctx context.Context, prefix string, fn func(name string, bytes int64) error) error
	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, name string) error
	// Address identifies the place, without secrets.
	Address() string
	// Parents returns the places that contain this place, the nearest first.
	Parents() []Objects
}

// CheckObjects checks that the objects whose names start with the prefix have the given lengths. Other programs may
// have deleted or replaced objects. If an object is missing or has another length, the error is [ErrDamaged].
// For each object that is not in lengths, CheckObjects calls the function `other` with the object's name.
func CheckObjects(ctx context.Context, o Objects, prefix string, lengths map[string]int64, other func(name string)) error {
	there := map[string]int64{}
	err := o.List(ctx, prefix, func(name string, bytes int64) error {
		if _, ours := lengths[name]; !ours {
			other(name)
			return nil
		}
		there[name] = bytes
		return nil
	})
	if err != nil {
		return err
	}
	for name, want := range lengths {
		switch bytes, ok := there[name]; {
		case !ok:
			return fmt.Errorf("%s %w: %s does not exist", o.Address(), ErrDamaged, name)
		case bytes != want:
			return fmt.Errorf("%s %w: %s has %d bytes, but %d were written", o.Address(), ErrDamaged, name, bytes, want)
		}
	}
	return nil
}

// Directory stores an export's objects as files. The first Put creates the directory.
type Directory string

func (d Directory) pathTo(name string) file.Path { return file.PathIn(string(d), name) }

// Address implements [Objects].
func (d Directory) Address() string {
	path, err := filepath.Abs(string(d))
	if err != nil {
		return string(d)
	}
	return path
}

// Parents implements [Objects]. It first resolves the links in the directory's path.
func (d Directory) Parents() (above []Objects) {
	path := resolved(d.Address())
	for path != filepath.Dir(path) {
		path = resolved(filepath.Dir(path))
		above = append(above, Directory(path))
	}
	return above
}

func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// Put implements [Objects]. The file gets its name only after its content is on the disk.
func (d Directory) Put(_ context.Context, name string, content []byte) (made bool, err error) {
	if !strings.Contains(name, "/") { // the data directory may contain many files, so Put does not remove incomplete files there; Leftover finds them
		_ = d.pathTo(name).Clear() // safe, because the export is locked
	}
	err = d.pathTo(name).Create(func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// clear removes the remains of killed processes, except those in the data directory. The export
// must be locked.
func (d Directory) clear() (err error) {
	for _, name := range []string{ClaimName, FilesName, ManifestName, JournalName} {
		err = errors.Join(err, d.pathTo(name).Clear())
	}
	return err
}

// Get implements [Objects].
func (d Directory) Get(_ context.Context, name string, offset, most int64) ([]byte, error) {
	f, err := d.pathTo(name).Open(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, max(0, min(most, info.Size()-offset)))
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// List implements [Objects].
func (d Directory) List(_ context.Context, prefix string, fn func(name string, bytes int64) error) error {
	return fs.WalkDir(os.DirFS(string(d)), ".", func(name string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // the directory does not exist, or another process has deleted an object since it was listed
			return nil
		case err != nil:
			return fmt.Errorf("list %s: %w", d, err)
		case info.IsDir() || !strings.HasPrefix(name, prefix):
			return nil
		}
		return fn(name, info.Size())
	})
}

// Delete implements [Objects].
func (d Directory) Delete(_ context.Context, name string) error { return d.pathTo(name).Remove() }
