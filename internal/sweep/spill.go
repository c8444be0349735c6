package sweep

import (
	"errors"
	"fmt"
	"os"

	"tablesweep/internal/storage"
)

const (
	spillBlock = 64 << 10 // bytes; a page takes some of them, anywhere in the file
	spillMost  = 2 << 30  // bytes of a file
)

// spill is a temporary file for pages that were read ahead of their turn and don't fit
// into memory. It belongs to the run's loop.
type spill struct {
	file   *os.File
	raw    bool    // rows have JSON
	most   int64   // bytes that the file may have
	size   int64   // bytes that it has
	free   []int64 // blocks in it that hold nothing
	buffer []byte
}

// spilled is a page in the file.
type spilled struct {
	blocks []int64
	bytes  int
}

// store puts rows aside. It returns nil if there is no room for them, or no disk: they
// stay in memory then.
func (s *spill) store(rows []storage.Entity) *spilled {
	if s.file == nil && s.most > 0 && s.open() != nil {
		s.most = 0
	}
	s.buffer = s.buffer[:0]
	for _, e := range rows {
		s.buffer = append(e.AppendJSON(s.buffer), '\n')
	}
	p := &spilled{bytes: len(s.buffer)}
	for rest := s.buffer; len(rest) > 0; {
		var at int64
		switch n := len(s.free); {
		case n > 0:
			at, s.free = s.free[n-1], s.free[:n-1]
		case s.size+spillBlock <= s.most:
			at = s.size
			s.size += spillBlock
		default:
			s.free = append(s.free, p.blocks...)
			return nil
		}
		p.blocks = append(p.blocks, at)
		part := rest[:min(spillBlock, len(rest))]
		if _, err := s.file.WriteAt(part, at); err != nil { // such as a full disk
			s.free, s.most = append(s.free, p.blocks...), 0
			return nil
		}
		rest = rest[len(part):]
	}
	return p
}

// load returns the rows of a page and gives its room back.
func (s *spill) load(p *spilled) ([]storage.Entity, error) {
	text := make([]byte, p.bytes)
	for i, at := range p.blocks {
		from := i * spillBlock
		if _, err := s.file.ReadAt(text[from:min(from+spillBlock, p.bytes)], at); err != nil {
			return nil, fmt.Errorf("read rows back from the temporary file: %w", err)
		}
	}
	s.free = append(s.free, p.blocks...)
	return storage.ParseLines(text, s.raw)
}

func (s *spill) open() (err error) {
	s.file, err = CreateTemp()
	return err
}

// close removes the file.
func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	return RemoveTemp(s.file)
}

// CreateTemp makes a temporary file that nobody else can read. It has no name where the
// system allows that, so that it is gone however the process ends.
func CreateTemp() (*os.File, error) {
	f, err := os.CreateTemp("", "tablesweep-") // mode 0600
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // Windows keeps the names of open files; RemoveTemp tries again
	return f, nil
}

// RemoveTemp closes and removes a file that [CreateTemp] made.
func RemoveTemp(f *os.File) error {
	err := f.Close()
	if gone := os.Remove(f.Name()); err == nil && !errors.Is(gone, os.ErrNotExist) {
		err = gone
	}
	return err
}
