// Package journal keeps a checkpoint's file, or a state's: lines that are only appended, each of which tells whether it
// is as it was written, and whether those before it are. It does not know what the lines mean.
//
// A line is
//
//	CRC {"disk":N,"event":…}
//
// CRC has 8 hex digits: the CRC-32C of the CRC of the line before it and its own JSON. So lines
// that have changed, moved or gone do not go unnoticed. N is how many bytes of the file were known to be on the
// disk when the line was written.
//
// The first line's event is {"version":1,"job":…,"lines":L}. The next L lines are the snapshot. These are
// written first, and the file gets its name when they are on the disk. Everything else is
// appended as it happens.
//
// A machine that crashes may lose what was not known to be on the disk: the end is cut off,
// zeroed or has holes. So the first bad line ends the file, if it lies behind the snapshot and
// not before the largest N of all good lines. What it and those behind it recorded is done again. A
// bad line before that was damaged, or changed by somebody: such a file is refused. If the end is cut off between
// two lines, nothing shows that.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	strict "github.com/go-json-experiment/json"

	"tablesweep/internal/file"
)

// version changes with the form of the file.
const version = 1

// compactBytes is how much is appended at least before the snapshot should be renewed: as
// much as the snapshot has, if that is more.
const compactBytes = 4 << 20

// ErrDamaged is the error of a file with a line that is not as it was written, although it was known
// to be on the disk.
var ErrDamaged = errors.New("is damaged")

// File is a journal under way. It belongs to one goroutine.
type File struct {
	path string
	job  json.RawMessage
	read []json.RawMessage // events of earlier runs

	lock    *Guard
	file    *os.File
	crc     []byte       // of the last line
	pending bytes.Buffer // lines not written yet
	start   int64        // bytes of the snapshot
	size    int64        // bytes written
	disk    int64        // of these, known to be on the disk
}

// opening is the first line's event.
type opening struct {
	Version int             `json:"version"`
	Job     json.RawMessage `json:"job"`
	Lines   int             `json:"lines"`
}

// line is a line's JSON.
type line struct {
	Disk  int64           `json:"disk"`
	Event json.RawMessage `json:"event"`
}

// New prepares a journal in a file that must not exist; it is made by the first
// [File.Renew]. job is kept as it is.
func New(path string, job json.RawMessage) (*File, error) {
	switch _, err := file.At(path).Stat(); {
	case err == nil:
		return nil, fmt.Errorf("%s: %w", path, os.ErrExist)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, about(path, err)
	}
	return &File{path: path, job: job}, nil
}

// Read reads a journal to go on from, and locks it until [File.Close]. [Events] returns what
// it holds, and [File.Renew] begins the next run.
func Read(path string) (*File, error) {
	at := file.At(path)
	if _, err := at.Stat(); err != nil {
		return nil, err
	}
	f := &File{path: path}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	text, err := at.Read()
	if err != nil {
		return nil, errors.Join(err, f.release())
	}
	if err := f.parse(text); err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w", path, err), f.release())
	}
	return f, nil
}

// Path returns the path that the journal was opened by.
func (f *File) Path() string { return f.path }

// Job returns what the journal was made with.
func (f *File) Job() json.RawMessage { return f.job }

// Resumed reports whether the journal has events of an earlier run. It may have had more.
func (f *File) Resumed() bool { return f.read != nil }

// parse reads a file's text.
func (f *File) parse(text []byte) error {
	lines, offsets, known, err := goodLines(text)
	if err != nil {
		return err
	}
	var first opening
	if len(lines) > 0 {
		if err := decodeOpening(lines[0].Event, &first); err != nil {
			return err
		}
	}
	if len(lines) <= first.Lines || len(lines) < len(offsets) && offsets[len(lines)] < known {
		return fmt.Errorf("%w: line %d is not as it was written", ErrDamaged, len(lines)+1)
	}
	f.job, f.read = first.Job, []json.RawMessage{}
	for _, l := range lines[1:] {
		f.read = append(f.read, l.Event)
	}
	return nil
}

// goodLines returns the lines up to the first bad one, the offsets of all lines, and how much of
// the file some good line knew to be on the disk.
func goodLines(text []byte) (lines []line, offsets []int64, known int64, err error) {
	var before []byte // the CRC of the line before
	good := 0
	for at := 0; at < len(text); {
		one, _, whole := bytes.Cut(text[at:], []byte("\n"))
		crc, body, _ := bytes.Cut(one, []byte(" "))
		if whole && bytes.Equal(crc, sum(before, body)) {
			var l line
			if err := decode(body, &l); err != nil {
				return nil, nil, 0, fmt.Errorf("%w: line %d: %w", ErrDamaged, len(offsets)+1, err)
			}
			known = max(known, l.Disk)
			if good++; len(lines) == len(offsets) {
				lines = append(lines, l)
			}
		}
		offsets = append(offsets, int64(at))
		before, at = crc, at+len(one)+1
	}
	if good == 0 {
		return nil, nil, 0, errors.New("is not a file of this program")
	}
	return lines, offsets, known, nil
}

// sum returns the CRC of a line behind the one with the CRC before.
func sum(before, body []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Appendf(nil, "%08x", crc32.Update(crc32.Checksum(before, table), table, body))
}

func decodeOpening(event json.RawMessage, h *opening) error {
	var any struct{ Version int }
	if err := json.Unmarshal(event, &any); err == nil && any.Version != version {
		return fmt.Errorf("has version %d; this program knows version %d", any.Version, version)
	}
	if err := decode(event, h); err != nil {
		return fmt.Errorf("has a line 1 that this program does not know: %w", err)
	}
	return nil
}

// decode reads JSON whose members are all known.
func decode(text []byte, v any) error {
	return strict.Unmarshal(text, v, strict.RejectUnknownMembers(true))
}

// Events calls apply with the events of earlier runs. It fails if an event has an unknown member, or if apply
// does.
func Events[T any](f *File, apply func(T) error) error {
	for i, event := range f.read {
		var one T
		err := decode(event, &one)
		if err == nil {
			err = apply(one)
		}
		if err != nil {
			return fmt.Errorf("%s %w: line %d: %w", f.path, ErrDamaged, i+2, err)
		}
	}
	return nil
}

// Append adds an event, which [File.Flush] writes.
func (f *File) Append(event any) {
	text, err := json.Marshal(event)
	if err == nil {
		text, err = json.Marshal(line{f.disk, text})
	}
	if err != nil {
		panic("journal: internal error: " + err.Error())
	}
	f.crc = sum(f.crc, text)
	fmt.Fprintf(&f.pending, "%s %s\n", f.crc, text)
}

// Flush writes what was appended.
func (f *File) Flush() error {
	n, err := f.file.Write(f.pending.Bytes())
	f.size += int64(n)
	f.pending.Reset()
	return err
}

// Sync returns when what was flushed is on the disk.
func (f *File) Sync() error {
	if f.disk == f.size {
		return nil
	}
	err := f.file.Sync()
	if err == nil {
		f.disk = f.size
	}
	return err
}

// Grown reports whether so much was appended that [File.Renew] pays.
func (f *File) Grown() bool { return f.size-f.start > max(compactBytes, f.start) }

// Renew replaces the file by a snapshot: events that say what all earlier ones and those that
// are not flushed say.
func (f *File) Renew(snapshot []any) error {
	f.pending.Reset()
	f.crc, f.disk = nil, 0
	f.Append(opening{version, f.job, len(snapshot)})
	for _, event := range snapshot {
		f.Append(event)
	}
	defer f.pending.Reset()
	if f.lock == nil { // a new one
		if err := f.acquire(); err != nil {
			return err
		}
	}
	if f.file != nil {
		f.file.Close()
	}
	err := f.put()
	if err == nil {
		f.file, err = file.At(f.path).Open(os.O_APPEND | os.O_WRONLY)
	}
	f.start = int64(f.pending.Len())
	f.size, f.disk = f.start, f.start
	if err != nil {
		return fmt.Errorf("write %w", err)
	}
	return nil
}

// put writes what is pending to a new file, in the place of the one before.
func (f *File) put() error {
	at := file.At(f.path)
	if f.file == nil {
		_ = at.Clear() // what killed processes have left
	}
	if f.file == nil && f.read == nil {
		return at.Create(func(w io.Writer) error {
			_, err := w.Write(f.pending.Bytes())
			return err
		})
	}
	return at.Replace(f.pending.Bytes())
}

// Close ends the run. Another process may go on with the file.
func (f *File) Close() error {
	if f.file == nil {
		return f.release()
	}
	return errors.Join(f.Sync(), f.file.Close(), f.release())
}

// Remove deletes the file, when nothing is left to go on with. One that is gone is no error. The lock's file goes first: if the process
// is killed in between, whoever goes on with the journal removes the rest.
func (f *File) Remove() error {
	return errors.Join(f.release(), file.At(f.path).Remove())
}
