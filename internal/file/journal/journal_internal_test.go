package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/file"
	"tablesweep/internal/proof"
	"tablesweep/internal/task"
)

// event is an event in the journals of these tests.
type event struct {
	N int `json:"n"`
}

func newFile(t testing.TB, path string, snapshot ...any) *File {
	t.Helper()
	f, err := New(path, []byte(`{"a":1}`))
	proof.Must(t, err)
	proof.Must(t, f.Renew(snapshot))
	return f
}

// write appends an event, and syncs the file if sync is set.
func write(t testing.TB, f *File, n int, sync bool) {
	t.Helper()
	f.Append(event{n})
	err := f.Flush()
	if err == nil && sync {
		err = f.Sync()
	}
	proof.Must(t, err)
}

// read returns the numbers of the events in a text.
func read(text []byte) (numbers []int, err error) {
	var f File
	if err := f.parse(text); err != nil {
		return nil, err
	}
	err = Events(&f, func(e event) error {
		numbers = append(numbers, e.N)
		return nil
	})
	return numbers, err
}

func content(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	proof.Must(t, err)
	return text
}

// stored is a journal of a snapshot and two lines. The file was synced between the two lines.
const stored = `75a01acf {"disk":0,"event":{"version":1,"job":{"a":1},"lines":1}}
a5f4e7f1 {"disk":0,"event":{"n":1}}
32a32fa9 {"disk":102,"event":{"n":2}}
b8ef68f2 {"disk":140,"event":{"n":3}}
`

// TestStoredFormat checks the form of the file. If the form changes, other versions of the program cannot read the file, so the version must change
// as well.
func TestStoredFormat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	f := newFile(t, path, event{1})
	write(t, f, 2, true)
	write(t, f, 3, false)
	proof.Must(t, f.Close())
	if diff := cmp.Diff(strings.Split(stored, "\n"), strings.Split(string(content(t, path)), "\n")); diff != "" {
		t.Errorf("(-stored +written)\n%s", diff)
	}
	again, err := Read(path)
	if err != nil || string(again.Job()) != `{"a":1}` || !again.Resumed() || f.Resumed() {
		t.Fatalf("got the job %s, error %v", again.Job(), err)
	}
	defer again.Close()
	if numbers, err := read([]byte(stored)); err != nil || !slices.Equal(numbers, []int{1, 2, 3}) {
		t.Errorf("got the events %v, error %v", numbers, err)
	}
}

// chained returns lines with the given JSON texts, as another version of the program may write them.
func chained(texts ...string) []byte {
	var all bytes.Buffer
	var crc []byte
	for _, text := range texts {
		crc = sum(crc, []byte(text))
		fmt.Fprintf(&all, "%s %s\n", crc, text)
	}
	return all.Bytes()
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	const head, one = `{"disk":0,"event":{"version":1,"job":{},"lines":0}}`, `{"disk":0,"event":{"n":1}}`
	for _, tt := range []struct {
		name string
		text []byte
		want string
	}{
		{"nothing", nil, "is not a file of this program"},
		{"another file", []byte("PK\x03\x04\n"), "is not a file of this program"},
		{"JSON lines", []byte(`{"version":1}` + "\n"), "is not a file of this program"},
		{"a later version", chained(`{"disk":0,"event":{"version":2,"way":"other"}}`), "has version 2, but this program knows only version 1"},
		{"an unknown member of the first line", chained(strings.Replace(head, `"lines"`, `"more":1,"lines"`, 1)), "begins with a line that this program does not understand"},
		{"an unknown member of a line", chained(head, strings.Replace(one, `"event"`, `"more":1,"event"`, 1)), "line 2: "},
		{"an unknown member of an event", chained(head, strings.Replace(one, `"n"`, `"m"`, 1)), "line 2: "},
		{"another spelling", chained(head, strings.Replace(one, `"n"`, `"N"`, 1)), "line 2: "},
		{"no head", chained(head, one, one)[len(head)+10:], "line 1 has changed since it was written"},
		{"a snapshot without its end", chained(strings.Replace(head, `"lines":0`, `"lines":2`, 1), one), "line 3 has changed since it was written"},
	} {
		if _, err := read(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %s", tt.name, err, tt.want)
		}
	}
	if numbers, err := read(chained(head, one)); err != nil || len(numbers) != 1 {
		t.Errorf("reading the unchanged lines: got %v, error %v", numbers, err)
	}
}

// TestDamagedJournals reads a journal that was changed, or whose end a machine has lost. The journal must be refused, or must return the first of the written
// events. A journal that has lost only bytes that were not known to be on the disk must not be refused.
func TestDamagedJournals(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	f := newFile(t, path, event{0}, event{1})
	known := f.disk
	for n := 2; n < 60; n++ {
		known = f.disk
		write(t, f, n, n%7 == 0 && n < 50)
	}
	proof.Must(t, f.Close())
	whole := content(t, path)
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	r := rand.New(rand.NewPCG(27, 2))
	refused, tries := 0, 3000
	for try := range tries {
		i, j := r.IntN(len(lines)), r.IntN(len(lines))
		other, lost := slices.Clone(lines), false
		text := slices.Clone(whole)
		switch at := int(known) + r.IntN(len(whole)-int(known)); try % 7 {
		case 0:
			text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		case 1:
			text = bytes.Join(slices.Delete(other, i, i+1), nil)
		case 2:
			other[i], other[j] = other[j], other[i]
			text = bytes.Join(other, nil)
		case 3:
			text = bytes.Join(slices.Insert(other, j, other[i]), nil)
		case 4: // does not change the CRC
			other[i] = append(slices.Clone(other[i][:9]), other[j][9:]...)
			text = bytes.Join(other, nil)
		case 5:
			text, lost = text[:at], true
		case 6:
			clear(text[at:min(len(text), at+1+r.IntN(200))])
			lost = true
		}
		numbers, err := read(text)
		if err != nil {
			refused++
		}
		if err != nil && lost {
			t.Fatalf("try %d: got error %v", try, err)
		}
		for i, n := range numbers {
			if i != n {
				t.Fatalf("try %d: got the events %v", try, numbers)
			}
		}
		if err == nil && len(numbers) < 50 {
			t.Fatalf("try %d: got only the events %v", try, numbers)
		}
	}
	if refused < tries/4 || refused > tries*5/7 {
		t.Errorf("%d of %d journals were refused", refused, tries)
	}
}

// TestOneProcessAtATime checks that an open journal is locked, and that an existing journal is not made again.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	f := newFile(t, path)
	if _, err := Read(path); !errors.Is(err, ErrLocked) {
		t.Errorf("reading an open journal: got error %v", err)
	}
	if _, err := New(path, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("making an existing journal: got error %v", err)
	}
	proof.Must(t, f.Close())
	again, err := Read(path)
	proof.Must(t, err)
	proof.Must(t, again.Close())
	if left, err := filepath.Glob(path + ".*"); len(left) > 0 || err != nil {
		t.Errorf("the remaining files are %v, error %v", left, err)
	}
}

// TestLockRemoved checks that locking a file that its holder has just removed does not count. The process must lock the next file instead.
func TestLockRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	var held atomic.Int64
	var group task.Group
	for range 8 {
		group.Go(func() error {
			for locked := 0; locked < 200; {
				g, err := Lock(path)
				if errors.Is(err, ErrLocked) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					return err
				}
				if n := held.Add(1); n != 1 {
					t.Errorf("%d processes hold the lock", n)
				}
				runtime.Gosched()
				held.Add(-1)
				if locked++; g.Close() != nil {
					t.Error("not closed")
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestRemoveLeavesNothing checks that Remove deletes the file, and the remains of a process that was killed while it renewed the file.
func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoint")
	f := newFile(t, path)
	proof.Must(t, f.Close())
	proof.Must(t, os.WriteFile(path+".abcdefghijklmnop.part", []byte("half a snaps"), 0o600))
	f, err := Read(path)
	proof.Must(t, err)
	proof.Must(t, f.Renew(nil))
	for range 2 { // removing a missing file is not an error
		if err := errors.Join(f.Close(), f.Remove()); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("the remaining files are %v, error %v", left, err)
	}
}

// TestLinksAreRefused checks that neither the file nor its lock is opened through a link.
func TestLinksAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "checkpoint"), filepath.Join(dir, "victim")
	f := newFile(t, victim)
	proof.Must(t, f.Close())
	before, err := os.ReadFile(victim)
	proof.Must(t, err)
	if err := os.Symlink(victim, path); err != nil {
		t.Skip(err)
	}
	_, newErr := New(path, nil)
	_, readErr := Read(path)
	if !errors.Is(newErr, file.ErrNotRegular) || !errors.Is(readErr, file.ErrNotRegular) {
		t.Errorf("got the errors %v and %v", newErr, readErr)
	}
	proof.Must(t, os.Rename(path, victim+lockExt))
	if _, err := Read(victim); !errors.Is(err, file.ErrNotRegular) {
		t.Errorf("a link in place of the lock file: got error %v", err)
	}
	if after, err := os.ReadFile(victim); string(after) != string(before) || err != nil {
		t.Errorf("%q became %q, %v", before, after, err)
	}
}

// TestNewFileReplacesNothing checks that a new journal does not overwrite a file that another process has made since.
func TestNewFileReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	f, err := New(path, nil)
	proof.Must(t, err)
	defer f.Close()
	proof.Must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if err := f.Renew(nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" || err != nil {
		t.Errorf("the file contains %q, error %v; want it unchanged", text, err)
	}
}

// FuzzParse damages a journal in three ways: it changes a byte, inserts text, and cuts off the end. The journal must be refused, or must return the
// first of the written events.
func FuzzParse(f *testing.F) {
	f.Add(`{"n":1}`+"\n"+`{"n":2}`+"\n"+`[]`, 1, 40, byte(1), 60, "x", 5)
	f.Add(`{"n":1}`, 0, 0, byte(0), 0, "", 0)
	f.Add("1\n2\n3\n4", 2, 0, byte(0), 75, "\n", 0)
	f.Fuzz(func(t *testing.T, events string, snapshot, at int, by byte, in int, text string, cut int) {
		written := strings.Split(events, "\n")
		for _, e := range written {
			if !json.Valid([]byte(e)) {
				return
			}
		}
		if snapshot < 0 || snapshot > len(written) {
			return
		}
		whole := &File{job: []byte(`{}`)}
		whole.Append(opening{version, whole.job, snapshot})
		for _, e := range written {
			whole.Append(json.RawMessage(e))
			whole.disk = int64(whole.pending.Len())
		}
		content := whole.pending.Bytes()
		if at >= 0 && at < len(content) {
			content[at] ^= by
		}
		if in >= 0 && in <= len(content) {
			content = slices.Insert(content, in, []byte(text)...)
		}
		content = content[:len(content)-min(max(cut, 0), len(content))]
		var read File
		if read.parse(content) != nil {
			return
		}
		if len(read.read) > len(written) || len(read.read) < snapshot {
			t.Fatalf("got %d of %d events; %d of them are the snapshot", len(read.read), len(written), snapshot)
		}
		for i, e := range read.read {
			if want, err := json.Marshal(json.RawMessage(written[i])); err != nil || !bytes.Equal(e, want) {
				t.Errorf("event %d is %s, want %s", i, e, want)
			}
		}
	})
}
