// Package file opens and makes the files that this program keeps: checkpoints, states, and what stands in an export. All of them go
// through a [Path].
//
// The directory that the user names may be a link. Each file in it must be a regular one, and no link. So nobody who can write into a
// shared directory can lead the program elsewhere, or make it wait for a pipe. A new file has a random name until it is whole.
// [OpenPipe] is for pipes and devices that the user names.
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

// Errors of a file that is not taken.
var (
	ErrNotRegular = errors.New("is a link, a pipe or a device, and must be a regular file")
	ErrName       = errors.New("is not a valid file name")
)

// Path is where a file stands, or is to stand.
type Path struct {
	dir  string // may be a link
	name string // in it, with slashes
	own  bool   // the program has chosen the name: it must be valid on each system
}

// In returns the path of a file of this program in a directory. The name has slashes.
func In(dir, name string) Path { return Path{dir, name, true} }

// At returns the path of a file that the user names.
func At(name string) Path { return Path{filepath.Dir(name), filepath.Base(name), false} }

// String returns the path for messages.
func (p Path) String() string { return filepath.Join(p.dir, filepath.FromSlash(p.name)) }

// devices are names that Windows gives to devices, whatever stands behind a dot. (Microsoft Learn, "Naming Files, Paths, and
// Namespaces")
var devices = regexp.MustCompile(`^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *([.:].*)?$`)

// portable reports whether a name of a file is one on Windows, too: no drive, no device, no other spelling of another name.
func portable(name string) bool {
	return !strings.ContainsAny(name, `\:*?"<>|`) && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, " ") && !devices.MatchString(name)
}

// leadsIn reports whether the name leads to a file in the directory. On Windows, neither of them may name a device.
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

// within calls fn with the directory, unless the directories in it that lead to the file are links. Its errors begin with the path.
func (p Path) within(fn func(*os.Root) error) error { return p.about(p.inRoot(fn)) }

// about returns the error with the path in place of that of another file, such as a temporary one.
func (p Path) about(err error) error {
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

// writeError is an error that a function which writes a file has of something else. It keeps its text.
type writeError struct{ error }

func (p Path) inRoot(fn func(*os.Root) error) error {
	if err := p.check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.dir + "/.") // fails at once for a pipe, which would be waited for
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
			err = fmt.Errorf("%s is a link, and must be a directory", In(p.dir, p.name[:i]))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fn(root)
}

// ByLink reports whether a part of a name in a directory is a link.
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

// Stat returns what is known of the file, which must be a regular one.
func (p Path) Stat() (info fs.FileInfo, err error) {
	err = p.within(func(root *os.Root) error {
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

// Open opens a file, to be read or, by the flags of [os.OpenFile], to be written. With [os.O_CREATE], it is made if it is missing.
func (p Path) Open(flag int) (f *os.File, err error) {
	err = p.within(func(root *os.Root) error {
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
		if err == nil && !os.SameFile(info, opened) { // it was replaced meanwhile
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

// Create makes a file, which gets its name when write is done and the file is on the disk, and the directories in which it stands. The
// error is [fs.ErrExist] if there is something of that name.
func (p Path) Create(write func(io.Writer) error) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.own {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return err
		}
	}
	return p.within(func(root *os.Root) error {
		if _, err := root.Lstat(p.name); err == nil {
			return fmt.Errorf("%s: %w", p, fs.ErrExist)
		}
		if err := root.MkdirAll(path.Dir(p.name), 0o700); err != nil {
			return err
		}
		return p.put(root, write, func(temp string) error {
			err := root.Link(temp, p.name) // a rename would replace
			if err == nil || errors.Is(err, fs.ErrExist) {
				return err
			}
			if _, err := root.Lstat(p.name); err == nil { // a file system without links
				return fmt.Errorf("%s: %w", p, fs.ErrExist)
			}
			return root.Rename(temp, p.name)
		})
	})
}

// Replace makes a file, or replaces one: its path always leads to the old content or to the new one, whole.
func (p Path) Replace(content []byte) error {
	return p.within(func(root *os.Root) error {
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

// put writes a temporary file, which move then gives the path's name.
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
	if d, openErr := root.Open(path.Dir(p.name)); err == nil && openErr == nil { // where a directory can be synced
		_ = d.Sync()
		d.Close()
	}
	return err
}

// Remove removes a file. One that is gone is no error.
func (p Path) Remove() error {
	err := p.within(func(root *os.Root) error { return root.Remove(p.name) })
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

// Temporary reports whether a name is that of a file which is not whole, and returns the name that it gets when it is. A killed process
// leaves such a file.
func Temporary(name string) (of string, ok bool) {
	if m := temporary.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	return "", false
}

// Clear removes what killed processes have left of new content of the file. No other process may be writing it.
func (p Path) Clear() error {
	return p.within(func(root *os.Root) error {
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
