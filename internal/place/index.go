package place

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"tablesweep/internal/sweep/journal"
)

// index keeps the lines of files.jsonl while they grow, and the place from other processes. In a directory it is the file
// itself. Blobs can't grow: their lines are in memory and, if there is one, in a journal, with the claim ahead of them.
type index struct {
	to  Objects
	dir Directory // "" for blobs

	lock *journal.Guard
	file *os.File // nil before the first line

	journal *journal.File // nil for none
	text    []byte
}

// event is the claim or a line. In the journal, JSON may be escaped in another way.
type event struct {
	Claim *Claim `json:"claim,omitempty"`
	Line  string `json:"line,omitempty"`
}

const lockName = "export"

// begin claims a place that is empty or does not exist.
func (x *index) begin(ctx context.Context, c Claim) (err error) {
	if b, ok := x.to.(*Blobs); ok {
		err = b.Make(ctx)
	}
	if err == nil {
		err = x.to.List(ctx, "", func(name string, _ int64) error {
			if name == lockName+".lock" || name == ClaimName+tempExt { // of a process that was killed before it had claimed the place
				return nil
			}
			return fmt.Errorf("%w: it has %s", ErrTaken, name)
		})
	}
	if err == nil && x.journal != nil {
		err = x.journal.Renew([]any{event{Claim: &c}})
	}
	if err == nil && x.dir != "" {
		if err = os.MkdirAll(string(x.dir), 0o700); err == nil {
			x.lock, err = journal.Lock(x.dir.path(lockName))
		}
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c)
	}
	return err
}

// resume returns the claim and the lines that an earlier process has added.
func (x *index) resume(ctx context.Context) (c Claim, lines [][]byte, err error) {
	if x.dir == "" {
		return x.replay(ctx)
	}
	if c, err = ClaimOf(ctx, x.dir); err == nil {
		x.lock, err = journal.Lock(x.dir.path(lockName))
	}
	if err == nil {
		x.file, err = os.OpenFile(x.dir.path(FilesName), os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return c, nil, err
	}
	text, err := io.ReadAll(x.file)
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
	if err = x.file.Truncate(int64(whole)); err == nil {
		_, err = x.file.Seek(0, io.SeekEnd)
	}
	return c, lines, err
}

func (x *index) replay(ctx context.Context) (c Claim, lines [][]byte, err error) {
	var all []any
	err = journal.Events(x.journal, func(e event) error {
		if all = append(all, e); (len(all) == 1) != (e.Claim != nil) {
			return errors.New("it is not that of an export to blobs")
		}
		if e.Claim != nil {
			c = *e.Claim
			return nil
		}
		lines = append(lines, []byte(e.Line))
		x.text = append(append(x.text, e.Line...), '\n')
		return nil
	})
	if err == nil {
		err = c.check("the checkpoint's claim")
	}
	if err == nil {
		err = x.journal.Renew(all)
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c) // it may have been put, or not
	}
	return c, lines, err
}

// add adds a line, for good.
func (x *index) add(line []byte) (err error) {
	if x.dir != "" && x.file == nil {
		if x.file, err = os.OpenFile(x.dir.path(FilesName), os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	if x.file != nil {
		_, err = x.file.Write(line)
		return errors.Join(err, x.file.Sync())
	}
	x.text = append(x.text, line...)
	if x.journal == nil {
		return nil
	}
	x.journal.Append(event{Line: string(bytes.TrimSuffix(line, []byte("\n")))})
	return errors.Join(x.journal.Flush(), x.journal.Sync())
}

// close ends this process's work. Another one may resume the export, unless it is complete.
func (x *index) close() (err error) {
	if x.file != nil {
		err = x.file.Close()
	}
	if x.lock != nil {
		err = errors.Join(err, x.lock.Close())
	}
	return err
}
