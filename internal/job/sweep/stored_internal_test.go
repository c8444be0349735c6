package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// storedFile contains a line of each kind. A single sweep does not write all of these kinds.
const storedFile = "testdata/checkpoint-1.jsonl"

// partitions returns the range of some partitions of the stored sweep.
func partitions(low, high string) key.Range {
	return key.Range{Low: &key.Bound{Key: low}, High: &key.Bound{Key: high, Open: true}}
}

// TestStoredFormat writes the stored file again with the functions that a sweep calls. If the file differs, other versions of the program cannot read
// this version's checkpoints, so the version must change as well.
func TestStoredFormat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "checkpoint")
	c := newCheckpoint(t, path)
	c.listed = true
	f := &frontier{}
	read := func(s *step, rows int64, through *key.Key, listed []Difference, did Totals, next ...key.Range) {
		f.startRead(s)
		var children []savedStep
		for _, r := range next {
			children = append(children, savedStep{Step: scan.Step{Range: r}, Depth: 2, Piece: s.Piece})
		}
		s.Piece = nil
		c.recordRead(s, through, rows, f.read(s, 0, nil, rows, children), listed, did)
	}
	piece := func(r key.Range) savedStep {
		return savedStep{Step: scan.Step{Range: r}, Depth: 1, Piece: adaptive.NewPiece(r)}
	}

	whole := f.add(piece(partitions("p0", "p8")))
	proof.Must(t, c.rewrite(f, Totals{}))
	listed := f.add(savedStep{Step: wantedStep("p8", []string{"1", "3"}), Depth: 1, Wanted: []string{"1", "3"}})
	c.recordKeys(listed, key.Key{Partition: "p8", Row: "3"})

	whole.Piece = adaptive.NewPiece(partitions("p0", "p4"))
	thief := f.insert(whole, []savedStep{piece(partitions("p4", "p8"))})
	c.recordTheft(whole, thief)

	once := Totals{Queries: 1, Steps: 1, CriticalPath: 1, Requests: 1}
	read(whole, 8, &key.Key{Partition: "p1", Row: "3"}, nil, once, partitions("p2", "p8"))
	c.finishUnit(whole, span{key.Key{Partition: "p0", Row: "0"}, key.Key{Partition: "p0", Row: "3"}}, Totals{Rows: 4, Written: 4})
	read(listed, 2, &key.Key{Partition: "p8", Row: "3"}, nil, once)
	c.finishUnit(listed, span{key.Key{Partition: "p8", Row: "1"}, key.Key{Partition: "p8", Row: "3"}}, Totals{Rows: 2, Written: 2})
	c.end(listed)
	c.vain(Totals{Requests: 1})
	did := once
	did.Rows, did.Missing = 4, 1
	read(thief[0], 0, nil, []Difference{{Kind: Missing, Key: key.Key{Partition: "p4", Row: "2"}}}, did, partitions("p5", "p8"))
	c.end(thief[0])

	proof.Must(t, c.flush(f, Totals{}))
	proof.Must(t, c.close())
	got, err := os.ReadFile(path)
	proof.Must(t, err)
	want, err := os.ReadFile(storedFile)
	proof.Must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("a checkpoint's form has changed (-stored +written):\n%s", diff)
	}
}

// TestResumeFromStoredFile resumes the stored file. Rows that the file records as done must not be done again, and all other rows must be done.
func TestResumeFromStoredFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(storedFile)
	proof.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		proof.Must(t, os.WriteFile(path, text, 0o600))
		var rows []storage.Entity
		for i := range 40 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%d", i/4), Row: fmt.Sprint(i % 4)}})
		}
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		s := Spec{Source: emulatortest.Table(t, a, "source", rows), Steal: true, PageRows: 8, Keys: &Keys{}}
		for _, k := range []key.Key{{Partition: "p8", Row: "1"}, {Partition: "p9", Row: "2"}, {Partition: "p8", Row: "3"}} {
			s.Keys.Add(k)
		}
		var want []key.Key
		for _, row := range rows {
			switch p := row.Key.Partition; {
			case p == "p0" || p == "p4" || p == "p8": // the file records these rows as done
			case p != "p9" || row.Key.Row == "2":
				want = append(want, row.Key)
			}
		}

		c := readCheckpoint(t, path)
		record := &recorder{}
		totals, err := Do(t.Context(), s, Options{Checkpoint: c, List: 5}, record)
		proof.Must(t, err)
		slices.SortFunc(record.keys, key.Key.Compare)
		if diff := cmp.Diff(want, record.keys); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
		if n := int64(len(want)); totals.Rows != n+4+2+4 || totals.Written != n+4+2 || totals.Missing != 1 {
			t.Errorf("got %+v, want %d rows in addition to those of the file", totals, n)
		}
		if list := c.differences.first(); len(list) != 1 || list[0].Key.Row != "2" {
			t.Errorf("got the list %v", list)
		}
	})
}
