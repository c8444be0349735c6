package place

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gofrs/flock"

	"tablesweep/internal/sweep/journal"
)

// index keeps the lines of files.jsonl while they grow, and the place from other processes.
type index interface {
	// begin claims a place that is empty or does not exist.
	begin(ctx context.Context, c Claim) error
	// resume returns the claim and the lines that an earlier process has added.
	resume(ctx context.Context) (c Claim, lines [][]byte, err error)
	// add adds a line, for good.
	add(line []byte) error
	// end makes files.jsonl an object of the export.
	end(ctx context.Context) error
	// close ends this process's work. Another one may resume the export.
	close() error
}

func newIndex(to Objects, j *journal.File) index {
	if d, ok := to.(Directory); ok {
		return &ownIndex{dir: d}
	}
	return &journalIndex{to: to, journal: j}
}

// ownIndex is a directory's files.jsonl itself.
type ownIndex struct {
	dir   Directory
	lock  *flock.Flock
	lines *os.File
	ended bool
}

const lockName = "export"

func (x *ownIndex) begin(ctx context.Context, c Claim) error {
	if err := x.dir.mayTake(ctx); err != nil {
		return err
	}
	err := os.MkdirAll(string(x.dir), 0o700)
	if err == nil {
		x.lock, err = journal.Lock(x.dir.path(lockName))
	}
	if err == nil {
		err = PutClaim(ctx, x.dir, c)
	}
	if err == nil {
		x.lines, err = os.OpenFile(x.dir.path(FilesName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	return err
}

// mayTake returns an error if the directory has anything but what an export that died before its claim has left.
func (d Directory) mayTake(ctx context.Context) error {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		begun := e.Name() == lockName+".lock" || e.Name() == ClaimName+tempExt // by a process that was killed before it had claimed the place
		if err == nil && !begun {
			err = takenBy(ctx, d, e.Name())
		}
	}
	return err
}

// takenBy returns the error of a place that has an object.
func takenBy(ctx context.Context, to Objects, name string) error {
	if _, err := to.Get(ctx, ClaimName, 0, 1); err == nil || name == ManifestName {
		return fmt.Errorf("%w: it has an export", ErrTaken)
	}
	return fmt.Errorf("%w: it has %s, which is no part of an export", ErrTaken, name)
}

func (x *ownIndex) resume(ctx context.Context) (c Claim, lines [][]byte, err error) {
	if c, err = ClaimOf(ctx, x.dir); err != nil {
		return c, nil, err
	}
	if x.lock, err = journal.Lock(x.dir.path(lockName)); err != nil {
		return c, nil, err
	}
	if x.lines, err = os.OpenFile(x.dir.path(FilesName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return c, nil, err
	}
	text, err := io.ReadAll(x.lines)
	if err != nil {
		return c, nil, err
	}
	whole := 0
	for rest := text; ; {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok || len(bytes.Trim(after, "\x00")) == 0 && !json.Valid(line) { // torn by a machine that crashed
			break
		}
		lines, rest = append(lines, line), after
		whole += len(line) + 1
	}
	if err = x.lines.Truncate(int64(whole)); err == nil {
		_, err = x.lines.Seek(0, io.SeekEnd)
	}
	return c, lines, err
}

func (x *ownIndex) add(line []byte) error {
	_, err := x.lines.Write(line)
	if err == nil {
		err = x.lines.Sync()
	}
	return err
}

func (x *ownIndex) end(context.Context) error {
	x.ended = true
	return nil
}

func (x *ownIndex) close() error {
	var err error
	if x.lines != nil {
		err = x.lines.Close()
	}
	if x.lock != nil {
		err = errors.Join(err, x.lock.Close())
	}
	if err == nil && x.ended {
		err = removed(x.dir.path(lockName + ".lock"))
	}
	return err
}

// journalIndex keeps the lines of an export whose objects can't grow in memory and, if there is one, in a journal: the claim
// first, before it is put.
type journalIndex struct {
	to      Objects
	journal *journal.File // nil for none
	text    []byte
}

// event is the claim or a line. In the journal, JSON may be escaped in another way.
type event struct {
	Claim *Claim `json:"claim,omitempty"`
	Line  string `json:"line,omitempty"`
}

func (x *journalIndex) begin(ctx context.Context, c Claim) error {
	if b, ok := x.to.(*Blobs); ok {
		if err := b.Make(ctx); err != nil {
			return err
		}
	}
	err := x.to.List(ctx, "", func(name string, _ int64) error { return takenBy(ctx, x.to, name) })
	if err == nil && x.journal != nil {
		err = x.journal.Renew([]any{event{Claim: &c}})
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c)
	}
	return err
}

func (x *journalIndex) resume(ctx context.Context) (c Claim, lines [][]byte, err error) {
	var all []any
	err = journal.Events(x.journal, func(e event) error {
		all = append(all, e)
		if len(all) == 1 && e.Claim != nil {
			c = *e.Claim
			return c.check(ClaimName)
		}
		if e.Line == "" || e.Claim != nil || len(all) == 1 {
			return errors.New("it is not that of an export to blobs")
		}
		lines = append(lines, []byte(e.Line))
		x.text = append(append(x.text, e.Line...), '\n')
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the checkpoint is not that of an export to blobs")
	}
	if err == nil {
		err = x.journal.Renew(all)
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c) // it may have been put, or not
	}
	return c, lines, err
}

func (x *journalIndex) add(line []byte) error {
	x.text = append(x.text, line...)
	if x.journal == nil {
		return nil
	}
	x.journal.Append(event{Line: string(bytes.TrimSuffix(line, []byte("\n")))})
	if err := x.journal.Flush(); err != nil {
		return err
	}
	return x.journal.Sync()
}

func (x *journalIndex) end(ctx context.Context) error { return PutSame(ctx, x.to, FilesName, x.text) }

func (x *journalIndex) close() error { return nil } // who opened the journal closes it
