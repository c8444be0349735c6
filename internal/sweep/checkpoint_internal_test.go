package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

func newCheckpoint(t testing.TB, path string) *Checkpoint {
	t.Helper()
	c, err := NewCheckpoint(path, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readCheckpoint(t testing.TB, path string) *Checkpoint {
	t.Helper()
	c, err := ReadCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// record writes a checkpoint in which step 1 was read, one unit of it is done, and
// its children are left, and returns its text.
func record(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, err := NewCheckpoint(path, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	f := &frontier{}
	s := f.add(scan.Step{}, 1)
	if err := c.rewrite(f, Totals{}); err != nil {
		t.Fatal(err)
	}
	f.startRead(s)
	children := f.read(s, 0, nil, 0, []scan.Step{{Page: 1}, {Page: 2}})
	c.read(s, &key.Key{Partition: "p", Row: "z"}, 9, children, nil, Totals{Queries: 1})
	c.did(s, span{key.Key{Partition: "p", Row: "a"}, key.Key{Partition: "p", Row: "c"}}, Totals{Rows: 3})
	c.end(children[0])
	if s.left != 6 {
		t.Errorf("%d of 9 rows are left, of which 3 were done", s.left)
	}
	if err := c.flush(f, Totals{}); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	var r Checkpoint
	if err := r.restore([]byte(record(t))); err != nil {
		t.Fatal(err)
	}
	s := r.frontier.first()
	if s.id != 1 || s.through == nil || s.through.Row != "z" || s.left != 6 || len(s.done) != 1 || !s.done[0].contains(key.Key{Partition: "p", Row: "b"}) {
		t.Errorf("the page is %+v", s)
	}
	if c := r.frontier.after(s); c == nil || c.Page != 2 || c.depth != 2 || r.frontier.after(c) != nil {
		t.Errorf("the child is %+v", c)
	}
	if r.totals != (Totals{Queries: 1, Rows: 3}) || string(r.job) != `{"a":1}` || r.frontier.next != 4 {
		t.Errorf("totals %+v, job %s, next %d", r.totals, r.job, r.frontier.next)
	}
}

// TestRestoreCutOff cuts the file at every byte: what remains is a state that was. Without the
// snapshot's steps it is none: they would never be done.
func TestRestoreCutOff(t *testing.T) {
	t.Parallel()
	text := record(t)
	lines := strings.SplitAfterN(text, "\n", 3)
	snapshot := len(lines[0] + lines[1])
	for i := range text {
		var r Checkpoint
		err := r.restore([]byte(text[:i]))
		if (err != nil) != (i < snapshot) {
			t.Fatalf("%d bytes: %v", i, err)
		}
		if err == nil && r.frontier.steps.Len() != []int{1, 3, 3, 2}[strings.Count(text[snapshot:i], "\n")] {
			t.Errorf("%d bytes: %d steps", i, r.frontier.steps.Len())
		}
	}
}

// TestRestoreReadWithoutRows cuts the file between the two lines that tell that a page
// had no row: its step must not be read again, for its children are there already.
func TestRestoreReadWithoutRows(t *testing.T) {
	t.Parallel()
	text := `{"version":1}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"children":[{"id":2,"step":{"page":1}}],"totals":{"queries":1}}` + "\n"
	for _, text := range []string{text, text + `{"end":1}` + "\n"} {
		var r Checkpoint
		if err := r.restore([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if s := r.frontier.first(); s == nil || s.id != 2 || r.frontier.after(s) != nil || s.state != waiting || r.totals.Queries != 1 {
			t.Errorf("from %q: the first step is %+v, totals %+v; want the child alone", text, s, r.totals)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "{}\n", `{"version":2}` + "\n", "PK\x03\x04\n"} {
		if err := new(Checkpoint).restore([]byte(text)); err == nil {
			t.Errorf("took %q", text)
		}
	}
}

// A sweep that has come to its end does not fail for a file that somebody removed meanwhile.
func TestRemoveWhatIsGone(t *testing.T) {
	t.Parallel()
	c := newCheckpoint(t, filepath.Join(t.TempDir(), "checkpoint"))
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsStayRare appends to a checkpoint whose snapshot is large, as that of a
// long list of rows is: what is written for snapshots must not exceed what is appended.
func TestSnapshotsStayRare(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	c := newCheckpoint(t, path)
	f := &frontier{}
	f.add(scan.Step{State: []byte(`"` + strings.Repeat("x", 7*compactBytes/2) + `"`)}, 1)
	if err := c.rewrite(f, Totals{}); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	rows := span{Last: key.Key{Row: strings.Repeat("y", compactBytes)}}
	appended, snapshots := 0, 0
	for size := int64(0); appended < 5; appended++ {
		c.append(line{Did: 1, Span: &rows})
		if err := c.flush(f, Totals{}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() < size {
			snapshots++
		}
		size = info.Size()
	}
	if snapshots != 1 {
		t.Errorf("%d snapshots while 5 lines of more than a quarter of one were appended, want 1", snapshots)
	}
}

// FuzzRestore feeds it anything. It must not panic, and what it takes must survive a
// snapshot.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(record(f)))
	f.Add([]byte(`{"version":1,"listed":true,"after":{"p":"a"}}` + "\n" + `{"node":{"id":1,"step":{"range":{}},"wanted":["a"]},"after":{}}` + "\n"))
	f.Add([]byte(`{"version":1,"differences":[{"kind":"extra","key":{}}]}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"left":2,"differences":[{"kind":"missing","key":{}}]}` + "\n"))
	f.Add([]byte(`{"version":1}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"children":[{"id":1}]}` + "\n" + `{"end":1}` + "\n" + `{"end":1}` + "\n"))
	f.Add([]byte(`{"version":1}` + "\n" + `{"node":{"id":1,"step":{}}}` + "\n" + `{"read":1,"children":[{"ud":2},{"id":3}]}` + "\n" + `{"end":3}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Checkpoint
		if r.restore(text) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		c := &Checkpoint{path: path, job: r.job, differences: &differences{most: len(r.found), all: r.found}}
		if err := c.rewrite(r.frontier, r.totals); err != nil {
			t.Fatal(err)
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		again := readCheckpoint(t, path)
		if a, b := r.frontier.steps.Len(), again.frontier.steps.Len(); a != b || len(r.found) != len(again.found) || r.totals != again.totals {
			t.Errorf("%d steps turned %d, %+v turned %+v", a, b, r.totals, again.totals)
		}
	})
}
