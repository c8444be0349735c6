package sweep

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/scan"
)

func newCheckpoint(t testing.TB, path string) *Checkpoint {
	t.Helper()
	f, err := journal.New(path, []byte(`{}`))
	return mustOpen(t, f, err)
}

func readCheckpoint(t testing.TB, path string) *Checkpoint {
	t.Helper()
	f, err := journal.Read(path)
	return mustOpen(t, f, err)
}

// mustOpen returns the checkpoint in a journal.
func mustOpen(t testing.TB, f *journal.File, err error) *Checkpoint {
	t.Helper()
	proof.Must(t, err)
	c, err := NewCheckpoint(f)
	proof.Must(t, err)
	return c
}

// These functions are for tests outside of the package.
var NewCheckpointAt, ReadCheckpointAt = newCheckpoint, readCheckpoint

// journalOf makes a journal of the given events. The first snapshot events are its snapshot.
func journalOf(t testing.TB, snapshot int, events ...string) (*journal.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoint")
	f, err := journal.New(path, []byte(`{}`))
	proof.Must(t, err)
	var first []any
	for _, e := range events[:snapshot] {
		first = append(first, json.RawMessage(e))
	}
	err = f.Renew(first)
	for _, e := range events[snapshot:] {
		f.Append(json.RawMessage(e))
	}
	proof.Must(t, err, f.Flush(), f.Close())
	f, err = journal.Read(path)
	proof.Must(t, err)
	return f, path
}

// fromEvents returns the checkpoint of a journal with a snapshot of two events and the given further events.
func fromEvents(t testing.TB, events ...string) (*Checkpoint, error) {
	t.Helper()
	f, _ := journalOf(t, 2, events...)
	return NewCheckpoint(f)
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	const node = `{"node":{"id":1,"step":{}}}`
	for _, last := range []string{node, `{"read":2}`, `{"end":3}`, `{"steal":1}`, `{"read":1,"children":[{"id":1,"step":{}}]}`, `{"read":1,"more":1}`, `{"node":{"id":2,"step":{},"wanted":["a"]}}`} {
		if _, err := fromEvents(t, `{}`, node, last); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "line 4: ") {
			t.Errorf("event %s: got error %v, want that line 4 is damaged", last, err)
		}
	}
	if _, err := fromEvents(t, `{}`, node, `{"read":1}`); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsStayRare appends to a checkpoint with a large snapshot, such as that of a long list of rows. The bytes written for snapshots must not
// exceed the appended bytes.
func TestSnapshotsStayRare(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	c := newCheckpoint(t, path)
	f := &frontier{}
	const many = 4 << 20 // the number of appended bytes after which another snapshot is written
	f.add(savedStep{Step: scan.Step{State: []byte(`"` + strings.Repeat("x", 7*many/2) + `"`)}})
	proof.Must(t, c.rewrite(f, Totals{}))
	defer c.close()
	rows := span{Last: key.Key{Row: strings.Repeat("y", many)}}
	appended, snapshots := 0, 0
	for size := int64(0); appended < 5; appended++ {
		c.append(line{Did: 1, Span: &rows})
		proof.Must(t, c.flush(f, Totals{}))
		info, err := os.Stat(path)
		proof.Must(t, err)
		if info.Size() < size {
			snapshots++
		}
		size = info.Size()
	}
	if snapshots != 1 {
		t.Errorf("%d snapshots while 5 lines of more than a quarter of one were appended, want 1", snapshots)
	}
}

// FuzzRestore restores a checkpoint from any events. Restoring must not panic, and a restored state must survive a snapshot.
func FuzzRestore(f *testing.F) {
	f.Add(`{"listed":true,"after":{"Partition":"a","Row":""}}` + "\n" + `{"node":{"id":1,"step":{"range":{}},"wanted":["a"]},"after":{"Partition":"","Row":""}}`)
	f.Add(`{"differences":[{"kind":"extra","key":{"Partition":"","Row":""}}]}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"left":2,"differences":[{"kind":"missing","key":{"Partition":"","Row":""}}]}`)
	f.Add(`{}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"children":[{"id":1}]}`)
	f.Add(`{}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"children":[{"id":2},{"id":3}]}` + "\n" + `{"end":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		events := strings.Split(text, "\n")
		for _, e := range events {
			if !jsontext.Value(e).IsValid() { // the program never appends an event with a repeated name
				return
			}
		}
		file, path := journalOf(t, 1, events...)
		r, err := NewCheckpoint(file)
		if err != nil {
			return
		}
		r.differences = &differences{most: len(r.found), all: r.found}
		proof.Must(t, r.rewrite(r.frontier, r.totals))
		proof.Must(t, r.close())
		again := readCheckpoint(t, path)
		if a, b := r.frontier.steps.Len(), again.frontier.steps.Len(); a != b || len(r.found) != len(again.found) || r.totals != again.totals {
			t.Errorf("after a snapshot, %d steps became %d, and the totals %+v became %+v", a, b, r.totals, again.totals)
		}
	})
}
