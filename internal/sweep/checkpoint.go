package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/steal"
)

// Checkpoint is a file that knows what is left of a sweep. Its lines are JSON:
// first a snapshot (a header, and a line for each step left), then what
// happened since:
//
//	{"version":1,"job":…,"steps":1,"totals":{…}}   once, on top
//	{"node":{"id":1,"step":{…}}}                   a step left, in table order
//	{"read":1,"through":{…},"left":9,"children":[{…}]}  a step was read; rows up to through are its own, 9 of them to be done
//	{"did":1,"span":{"a":{…},"b":{…}}}             these rows of it are done
//	{"end":1}                                      all of its rows are done
//	{"steal":1,"strand":{"end":{…}},"children":[…]}  what lies behind the end was stolen
//	{"read":1,"differences":[…],"totals":{…}}      it was compared, and these are to be listed
//	{"vain":true,"totals":{…}}                     requests that failed, and are to be made again
//	{"node":{"wanted":["a"],…},"after":{…}}        a step for listed keys, and the last one listed so far
//
// A line is written as soon as its event has happened, so a killed process loses only
// what was under way. A machine that crashes may lose the last second as well. What a
// cut-off line and those after it recorded is done again. The header tells how many steps
// the snapshot has: one that lacks some is refused, since nobody would do them. The snapshot
// is renewed by a rename when much has been appended. Nothing in the file is secret except keys
// of rows.
//
// A thief that finds nothing is a step that was read without rows. Of a sweep of listed keys, the snapshot's
// header tells how far the list was taken ("listed", "after").
type Checkpoint struct {
	path   string // "" for one that records nothing
	job    json.RawMessage
	listed bool     // the rows to sweep are listed
	after  *key.Key // the last of them that the sweep has taken, nil for none

	// Of earlier runs.
	frontier *frontier // what they left, nil if there were none
	totals   Totals
	found    []Difference

	differences *differences // of this run and earlier ones

	lockFile *flock.Flock
	file     *os.File
	pending  bytes.Buffer // lines not written yet
	snapshot int          // bytes of the snapshot
	appended int          // bytes since then
	unsynced bool
}

// checkpointVersion changes with the form of the file.
const checkpointVersion = 1

// compactBytes is how much is appended at least before the snapshot is renewed: as
// much as the snapshot has, if that is more.
const compactBytes = 4 << 20

// line is any line of the file.
type line struct {
	Version int             `json:"version,omitempty"`
	Job     json.RawMessage `json:"job,omitempty"`
	Steps   int             `json:"steps,omitempty"` // of the snapshot
	Listed  bool            `json:"listed,omitempty"`
	After   *key.Key        `json:"after,omitempty"`

	Node     *saved   `json:"node,omitempty"`
	Read     int64    `json:"read,omitempty"`
	Through  *key.Key `json:"through,omitempty"`
	Left     int64    `json:"left,omitempty"`
	Children []saved  `json:"children,omitempty"`
	Did      int64    `json:"did,omitempty"`
	Span     *span    `json:"span,omitempty"`
	End      int64    `json:"end,omitempty"`

	Steal  int64         `json:"steal,omitempty"`
	Strand *steal.Strand `json:"strand,omitempty"`

	Vain   bool   `json:"vain,omitempty"`
	Totals Totals `json:"totals,omitzero"` // what it adds

	Differences []Difference `json:"differences,omitempty"` // to be listed
}

// saved is a step in the file.
type saved struct {
	ID      int64     `json:"id"`
	Step    scan.Step `json:"step"`
	Depth   int64     `json:"depth,omitempty"`
	Through *key.Key  `json:"through,omitempty"`
	Left    int64     `json:"left,omitempty"`
	Done    []span    `json:"done,omitempty"`
	Wanted  []string  `json:"wanted,omitempty"`

	Strand *steal.Strand `json:"strand,omitempty"`
}

func save(s *step) saved {
	return saved{ID: s.id, Step: s.Step, Depth: s.depth, Through: s.through, Left: s.left, Done: s.done, Wanted: s.wanted, Strand: s.strand}
}

// sound reports whether the step has what it says: listed keys stand in one partition.
func (s saved) sound() bool { return s.Wanted == nil || s.Step.Range.Partition != nil }

func (s saved) step() *step {
	return &step{id: s.ID, Step: s.Step, depth: s.Depth, through: s.Through, left: s.Left, done: s.Done, wanted: s.Wanted, strand: s.Strand}
}

// NewCheckpoint prepares a checkpoint in a file that must not exist; it is made
// when the sweep starts. job is kept as it is.
func NewCheckpoint(path string, job json.RawMessage) (*Checkpoint, error) {
	if _, err := os.Stat(path); err == nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, os.ErrExist)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", about(path, "open", err))
	}
	return &Checkpoint{path: path, job: job, differences: &differences{}}, nil
}

// ReadCheckpoint reads a checkpoint to go on from, and locks it until the sweep has
// ended. [Checkpoint.Job] tells what it was made for.
func ReadCheckpoint(path string) (*Checkpoint, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c := &Checkpoint{path: path, differences: &differences{}}
	if err := c.lock(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: %w", err), c.unlock())
	}
	if err := c.restore(text); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint %s: %w", path, err), c.unlock())
	}
	return c, nil
}

// Job returns what the checkpoint was made with.
func (c *Checkpoint) Job() json.RawMessage { return c.job }

// Remove deletes the file, for a sweep that has come to its end. One that is gone is no
// error: nothing is left to go on with.
func (c *Checkpoint) Remove() error {
	_ = os.Remove(c.path + lockExt) // one that stays does no harm
	if err := os.Remove(c.path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// restore reads a file's text, up to a line that is cut off.
func (c *Checkpoint) restore(text []byte) error {
	first, rest, whole := bytes.Cut(text, []byte("\n"))
	var head line
	if err := json.Unmarshal(first, &head); err != nil || !whole {
		return errors.New("is not a checkpoint")
	}
	if head.Version != checkpointVersion {
		return fmt.Errorf("has version %d; this program knows version %d", head.Version, checkpointVersion)
	}
	c.job, c.listed, c.after = head.Job, head.Listed, head.After
	c.frontier, c.totals, c.found = &frontier{next: 1}, head.Totals, head.Differences
	steps := map[int64]*step{}
	for lines := 0; ; lines++ {
		var one []byte
		one, rest, whole = bytes.Cut(rest, []byte("\n"))
		var l line
		if whole && json.Unmarshal(one, &l) == nil && c.apply(steps, l) {
			continue
		}
		if lines < head.Steps {
			return fmt.Errorf("is damaged: it has %d of the %d steps that were left", lines, head.Steps)
		}
		break
	}
	for _, s := range steps {
		c.frontier.drop(s)
	}
	return nil
}

// apply carries out a line. It reports false, having done nothing, if the line makes no
// sense.
func (c *Checkpoint) apply(steps map[int64]*step, l line) bool {
	s := steps[l.Read+l.Did+l.End+l.Steal] // a line is of one kind
	if (s == nil) != (l.Node != nil || l.Vain) || (l.Steal != 0) != (l.Strand != nil) || !l.newSteps(steps) {
		return false
	}
	switch f := c.frontier; {
	case l.Node != nil:
		s = l.Node.step()
		f.push(s)
		steps[s.id] = s
		if l.After != nil {
			c.after = l.After
		}
	case l.Read != 0:
		c.insert(steps, s, l.Children)
		s.through, s.left, s.strand = l.Through, l.Left, nil
		if s.through == nil { // no rows: all of it is done, even if the line that ends it is cut off
			s.state = working
		}
	case l.Steal != 0:
		c.insert(steps, s, l.Children)
		s.strand = l.Strand
	case l.Did != 0 && l.Span != nil:
		s.done = append(s.done, *l.Span)
		s.left -= l.Totals.Rows
	case l.End != 0:
		f.steps.Remove(s.element)
		delete(steps, s.id)
	}
	c.totals.add(l.Totals)
	c.found = append(c.found, l.Differences...)
	return true
}

// insert adds steps right behind another.
func (c *Checkpoint) insert(steps map[int64]*step, s *step, added []saved) {
	at := s.element
	for _, a := range added {
		one := a.step()
		one.element = c.frontier.steps.InsertAfter(one, at)
		at = one.element
		steps[one.id] = one
		c.frontier.next = max(c.frontier.next, one.id+1)
	}
}

// newSteps reports whether the steps that a line adds make sense and have new ids.
func (l line) newSteps(steps map[int64]*step) bool {
	seen := map[int64]bool{0: true}
	for _, s := range l.Children {
		if seen[s.ID] || steps[s.ID] != nil || !s.sound() {
			return false
		}
		seen[s.ID] = true
	}
	return l.Node == nil || l.Node.ID != 0 && steps[l.Node.ID] == nil && l.Node.sound()
}

func (c *Checkpoint) append(l line) {
	if c.path == "" {
		return
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic("sweep: internal error: " + err.Error())
	}
	c.pending.Write(append(b, '\n'))
}

// read records that s was read: through is its last row, nil if none of them is left to do,
// left how many are.
func (c *Checkpoint) read(s *step, through *key.Key, left int64, children []*step, listed []Difference, did Totals) {
	s.through, s.left = through, left
	c.append(line{Read: s.id, Through: through, Left: left, Totals: did, Children: saveAll(children), Differences: listed})
}

// list records a step for listed keys, of which last is the last.
func (c *Checkpoint) list(s *step, last key.Key) {
	c.after = &last
	one := save(s)
	c.append(line{Node: &one, After: c.after})
}

// steal records that what lies behind the end of s's strand was stolen.
func (c *Checkpoint) steal(s *step, thieves []*step) {
	c.append(line{Steal: s.id, Strand: s.strand, Children: saveAll(thieves)})
}

func saveAll(steps []*step) []saved {
	var all []saved
	for _, s := range steps {
		all = append(all, save(s))
	}
	return all
}

func (c *Checkpoint) did(s *step, rows span, did Totals) {
	s.done = append(s.done, rows)
	s.left -= did.Rows
	c.append(line{Did: s.id, Span: &rows, Totals: did})
}

func (c *Checkpoint) vain(did Totals) { c.append(line{Vain: true, Totals: did}) }

func (c *Checkpoint) end(s *step) { c.append(line{End: s.id}) }

// flush writes what was recorded since the last call.
func (c *Checkpoint) flush(f *frontier, t Totals) error {
	if c.pending.Len() == 0 {
		return nil
	}
	if c.appended > max(compactBytes, c.snapshot) {
		return c.rewrite(f, t) // which knows what is pending
	}
	n, err := c.file.Write(c.pending.Bytes())
	c.appended += n
	c.pending.Reset()
	c.unsynced = true
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

func (c *Checkpoint) sync() error {
	if !c.unsynced {
		return nil
	}
	c.unsynced = false
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

// rewrite replaces the file by a snapshot.
func (c *Checkpoint) rewrite(f *frontier, t Totals) error {
	if c.path == "" {
		return nil
	}
	c.pending.Reset()
	c.append(line{Version: checkpointVersion, Job: c.job, Steps: f.steps.Len(), Listed: c.listed, After: c.after, Totals: t, Differences: c.differences.sorted()})
	for s := f.first(); s != nil; s = f.after(s) {
		one := save(s)
		c.append(line{Node: &one})
	}
	snapshot := bytes.Clone(c.pending.Bytes())
	c.pending.Reset()
	c.snapshot, c.appended, c.unsynced = len(snapshot), 0, false
	if c.lockFile == nil { // a new one
		if err := c.lock(); err != nil {
			return err
		}
	}
	if c.file != nil {
		c.file.Close()
	}
	var err error
	if err = ReplaceFile(c.path, snapshot); err == nil {
		c.file, err = os.OpenFile(c.path, os.O_APPEND|os.O_WRONLY, 0)
	}
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

// ReplaceFile writes a file so that its path always names the old text or the new
// one, whole.
func ReplaceFile(path string, text []byte) error {
	return about(path, "write", replaceFile(path, text))
}

func replaceFile(path string, text []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	if d, err := os.Open(dir); err == nil { // where a directory can be synced
		_ = d.Sync()
		d.Close()
	}
	return nil
}

func (c *Checkpoint) close() error {
	if c.file == nil {
		return c.unlock()
	}
	if err := errors.Join(c.sync(), c.file.Close(), c.unlock()); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}
