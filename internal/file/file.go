// Package file opens and creates the files of this program: checkpoints, states, and the files of an export. Each of
// these files has a [Path].
//
// The directory that a user names may be a link. Each file in this directory must be a regular file, not a link. So if
// other users can write to the directory, they can neither redirect the program to other files nor make it wait for a
// pipe. A new file has a random name until it is complete. [OpenPipe] is for pipes and devices that the user names.
package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// The errors for files that the package refuses.
var (
	ErrNotRegular = errors.New("is a link, a pipe or a device, but must be a regular file")
	ErrName       = errors.New("is not a valid file name")
)

// Path is the path of a file, which may not exist yet.
type Path struct {
	dir  string // the directory, which may be a link
	name string // the file's name in the directory, with slashes
	own  bool   // the program has chosen the name, so the name must be valid on every system
}

// PathIn returns the path of a file whose name the program has chosen. The name uses slashes.
func PathIn(dir, name string) Path { return Path{dir, name, true} }

// PathAt returns the path of a file that the user names.
func PathAt(name string) Path { return Path{filepath.Dir(name), filepath.Base(name), false} }

// String returns the path as it appears in messages.
func (p Path) String() string { return filepath.Join(p.dir, filepath.FromSlash(p.name)) }

// devices matches the name of a Windows device, with or without an extension. (Microsoft Learn, "Naming Files, Paths, and
// Namespaces")
var devices = regexp.MustCompile(`^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *([.:].*)?$`)

// portable reports whether a file's name is also valid on Windows. On Windows, a name may contain a drive, some
// names are devices, and dots and spaces at the end of a name are ignored.
func portable(name string) bool {
	return !strings.ContainsAny(name, `\:*?"<>|`) && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, " ") && !devices.MatchString(name)
}

// leadsIn reports whether p.name is valid and leads to a file below p.dir. If the argument `windows` is true, neither the name
// nor the directory may be a Windows device.
func (p Path) leadsIn(windows bool) bool {
	ok := p.name != "." && fs.ValidPath(p.name) && !(windows && devices.MatchString(filepath.Base(p.dir)))
	for _, part := range strings.Split(p.name, "/") {
		ok = ok && (portable(part) || !p.own && !windows)
	}
	return ok
}

func (p Path) check() error {
	if !p.leadsIn(runtime.GOOS == "windows") {
		return fmt.Errorf("%s %w", p, ErrName)
	}
	return nil
}

// inDirectory calls fn with the path's directory. It fails if a directory between p.dir and the
// file is a link. Its errors begin with the path.
func (p Path) inDirectory(fn func(*os.Root) error) error { return p.withPath(p.inRoot(fn)) }

// withPath replaces the path in an error, such as a temporary file's path, with p.
func (p Path) withPath(err error) error {
	var other *fs.PathError
	var two *os.LinkError
	var written writeError
	switch {
	case errors.As(err, &written):
		return written.error
	case errors.As(err, &other):
		return fmt.Errorf("%s: %w", p, other.Err)
	case errors.As(err, &two):
		return fmt.Errorf("%s: %w", p, two.Err)
	}
	return err
}

// writeError is an error of the function that writes a file's content. The error is not about the file, so
// [Path.withPath] does not change the error's text.
type writeError struct{ error }

func (p Path) inRoot(fn func(*os.Root) error) error {
	if err := p.check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.dir + "/.") // with "/.", OpenRoot fails for a pipe; without it, OpenRoot would wait
	if err != nil {
		return err
	}
	defer root.Close()
	for i, c := range p.name {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(p.name[:i])
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is a link, but must be a directory", PathIn(p.dir, p.name[:i]))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fn(root)
}

// ByLink reports whether the path dir/name contains a link below dir.
func ByLink(dir, name string) bool {
	at := dir
	for _, part := range strings.Split(path.Clean(name), "/") {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// Stat returns the info of the file, which must be a regular file.
func (p Path) Stat() (info fs.FileInfo, err error) {
	err = p.inDirectory(func(root *os.Root) error {
		info, err = p.stat(root)
		return err
	})
	return info, err
}

func (p Path) stat(root *os.Root) (fs.FileInfo, error) {
	info, err := root.Lstat(p.name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", p, ErrNotRegular)
	}
	return info, err
}

// Open opens a file for reading or writing, with the flags of [os.OpenFile].
func (p Path) Open(flag int) (f *os.File, err error) {
	err = p.inDirectory(func(root *os.Root) error {
		info, err := p.stat(root)
		if errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0 {
			f, err = root.OpenFile(p.name, flag|os.O_EXCL, 0o600)
			return err
		}
		if err != nil {
			return err
		}
		if f, err = root.OpenFile(p.name, flag&^os.O_CREATE|syscall.O_NONBLOCK, 0); err != nil {
			return err
		}
		opened, err := f.Stat()
		if err == nil && !os.SameFile(info, opened) { // the file was replaced before it was opened
			err = fmt.Errorf("%s %w", p, ErrNotRegular)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Read returns a file's content.
func (p Path) Read() ([]byte, error) {
	f, err := p.Open(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Create creates a file and its directories. The file gets its name only after `write` has returned and the content is on the disk. The error is
// [fs.ErrExist] if the name is taken.
func (p Path) Create(write func(io.Writer) error) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.own {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return err
		}
	}
	return p.inDirectory(func(root *os.Root) error {
		if _, err := root.Lstat(p.name); err == nil {
			return fmt.Errorf("%s: %w", p, fs.ErrExist)
		}
		if err := root.MkdirAll(path.Dir(p.name), 0o700); err != nil {
			return err
		}
		return p.put(root, write, func(temp string) error {
			err := root.Link(temp, p.name) // unlike a rename, a link does not replace a file
			if err == nil || errors.Is(err, fs.ErrExist) {
				return err
			}
			if _, err := root.Lstat(p.name); err == nil { // this file system has no links, and the name is taken
				return fmt.Errorf("%s: %w", p, fs.ErrExist)
			}
			return root.Rename(temp, p.name)
		})
	})
}

// Replace creates or replaces a file. At every moment, the path leads to the complete old content or to the complete
// new content.
func (p Path) Replace(content []byte) error {
	return p.inDirectory(func(root *os.Root) error {
		if _, err := p.stat(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		write := func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		}
		return p.put(root, write, func(temp string) error { return root.Rename(temp, p.name) })
	})
}

// put writes a temporary file. Then it calls the function `move`, which gives the temporary file the path's name.
func (p Path) put(root *os.Root, write func(io.Writer) error, move func(temp string) error) error {
	temp := p.name + "." + strings.ToLower(rand.Text()[:tempDigits]) + tempExt
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err != nil {
		if own := (*fs.PathError)(nil); !errors.As(err, &own) || own.Path != f.Name() {
			err = writeError{err}
		}
	} else {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = move(temp)
	}
	if gone := root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if d, openErr := root.Open(path.Dir(p.name)); err == nil && openErr == nil { // opening fails on systems that cannot sync a directory
		_ = d.Sync()
		d.Close()
	}
	return err
}

// Remove removes a file. A missing file is not an error.
func (p Path) Remove() error {
	err := p.inDirectory(func(root *os.Root) error { return root.Remove(p.name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	tempDigits = 16
	tempExt    = ".part"
)

var temporary = regexp.MustCompile(`^(.+)\.[a-z2-7]{16}\.part$`)

// Temporary reports whether a name is the name of an incomplete file that a killed process has left behind. It returns the name that the complete
// file would have.
func Temporary(name string) (of string, ok bool) {
	if m := temporary.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	return "", false
}

// Clear removes the incomplete files that killed processes have left beside the file. While Clear runs, other processes must not write the file.
func (p Path) Clear() error {
	return p.inDirectory(func(root *os.Root) error {
		d, err := root.Open(path.Dir(p.name))
		if err != nil {
			return err
		}
		defer d.Close()
		names, err := d.Readdirnames(-1)
		for _, name := range names {
			if of, ok := Temporary(name); ok && of == path.Base(p.name) {
				err = errors.Join(err, root.Remove(path.Join(path.Dir(p.name), name)))
			}
		}
		return err
	})
}
