// Package journal reads and writes checkpoints, and the files that the flag --state names. Until [File.Renew] replaces the file, lines are only
// appended. The caller decides what the lines mean.
//
// A line is
//
//	CRC {"disk":N,"event":…}
//
// CRC has 8 hex digits: the CRC-32C of the previous line's CRC and the line's own JSON. This checksum reveals lines that were changed, moved or
// deleted. N is a number of bytes: when the line was written, the first N bytes of the file were known to be on the disk.
//
// The first line's event is {"version":1,"job":…,"lines":L}. The next L lines are the snapshot. The file gets its name only when these lines are on
// the disk. Later events are appended as they happen.
//
// A machine that crashes may lose the bytes that were not known to be on the disk: the end of the file is missing,
// contains zeros, or has gaps. Let D be the largest N in a good line. If the first bad line comes after the snapshot
// and beyond the first D bytes, this line and all later lines are ignored. The work that these lines recorded is done
// again. If the first bad line comes earlier, the file was damaged or changed, and is refused. If a file has lost
// whole lines at its end, the loss goes unnoticed.
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

const version = 1

// A new snapshot is worthwhile once the appended bytes exceed both compactBytes and the size of the last snapshot.
const compactBytes = 4 << 20

// ErrDamaged means that a line was written to the disk, and was damaged later.
var ErrDamaged = errors.New("is damaged")

// File is an open journal. Only one goroutine may use it.
type File struct {
	path string
	job  json.RawMessage
	read []json.RawMessage // the events of earlier runs

	lock    *Guard
	file    *os.File
	crc     []byte       // the CRC of the last line
	pending bytes.Buffer // lines that are not written yet
	start   int64        // the length of the snapshot in bytes
	size    int64        // the bytes written
	disk    int64        // the written bytes that are known to be on the disk
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

// New prepares a new journal. The journal's file must not exist. The first [File.Renew] creates the file, and stores
// `job` unchanged.
func New(path string, job json.RawMessage) (*File, error) {
	switch _, err := file.PathAt(path).Stat(); {
	case err == nil:
		return nil, fmt.Errorf("%s: %w", path, os.ErrExist)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, withPath(path, err)
	}
	return &File{path: path, job: job}, nil
}

// Read reads a journal to resume from, and locks it until [File.Close]. Call [Events] for the journal's events, and then [File.Renew] to begin the
// next run.
func Read(path string) (*File, error) {
	at := file.PathAt(path)
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

// Path returns the path with which the journal was opened.
func (f *File) Path() string { return f.path }

// Job returns the job with which the journal was created.
func (f *File) Job() json.RawMessage { return f.job }

// Resumed reports whether the journal was read from the file of an earlier run.
func (f *File) Resumed() bool { return f.read != nil }

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
		return fmt.Errorf("%w: line %d has changed since it was written", ErrDamaged, len(lines)+1)
	}
	f.job, f.read = first.Job, []json.RawMessage{}
	for _, l := range lines[1:] {
		f.read = append(f.read, l.Event)
	}
	return nil
}

// goodLines returns the lines before the first bad line, the offsets of all lines, good and bad, and the largest N in a good line (see the
// package comment).
func goodLines(text []byte) (lines []line, offsets []int64, known int64, err error) {
	var before []byte // the CRC of the previous line
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

func sum(before, body []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Appendf(nil, "%08x", crc32.Update(crc32.Checksum(before, table), table, body))
}

func decodeOpening(event json.RawMessage, h *opening) error {
	var any struct{ Version int }
	if err := json.Unmarshal(event, &any); err == nil && any.Version != version {
		return fmt.Errorf("has version %d, but this program knows only version %d", any.Version, version)
	}
	if err := decode(event, h); err != nil {
		return fmt.Errorf("begins with a line that this program does not understand: %w", err)
	}
	return nil
}

func decode(text []byte, v any) error {
	return strict.Unmarshal(text, v, strict.RejectUnknownMembers(true))
}

// Events calls `apply` with the events of earlier runs. It fails if an event has a field that T lacks, or if `apply` fails.
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

// Flush writes the appended events.
func (f *File) Flush() error {
	n, err := f.file.Write(f.pending.Bytes())
	f.size += int64(n)
	f.pending.Reset()
	return err
}

// Sync returns when the flushed events are on the disk.
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

// Grown reports whether enough was appended to make [File.Renew] worthwhile.
func (f *File) Grown() bool { return f.size-f.start > max(compactBytes, f.start) }

// Renew replaces the file with a snapshot. The snapshot's events replace all earlier events, including those that are not flushed yet.
func (f *File) Renew(snapshot []any) error {
	f.pending.Reset()
	f.crc, f.disk = nil, 0
	f.Append(opening{version, f.job, len(snapshot)})
	for _, event := range snapshot {
		f.Append(event)
	}
	defer f.pending.Reset()
	if f.lock == nil { // a new journal
		if err := f.acquire(); err != nil {
			return err
		}
	}
	if f.file != nil {
		f.file.Close()
	}
	err := f.put()
	if err == nil {
		f.file, err = file.PathAt(f.path).Open(os.O_APPEND | os.O_WRONLY)
	}
	f.start = int64(f.pending.Len())
	f.size, f.disk = f.start, f.start
	if err != nil {
		return fmt.Errorf("write %w", err)
	}
	return nil
}

// put writes the pending lines to a new file, which replaces the old one.
func (f *File) put() error {
	at := file.PathAt(f.path)
	if f.file == nil {
		_ = at.Clear() // removes the remains of killed processes
	}
	if f.file == nil && f.read == nil {
		return at.Create(func(w io.Writer) error {
			_, err := w.Write(f.pending.Bytes())
			return err
		})
	}
	return at.Replace(f.pending.Bytes())
}

// Close ends the run. Afterwards, another process may resume from the file.
func (f *File) Close() error {
	if f.file == nil {
		return f.release()
	}
	return errors.Join(f.Sync(), f.file.Close(), f.release())
}

// Remove deletes the file of finished work. A missing file is not an error. The lock file is deleted first. If the process is killed before
// it deletes the journal, the next process that resumes the work deletes the journal.
func (f *File) Remove() error {
	return errors.Join(f.release(), file.PathAt(f.path).Remove())
}
