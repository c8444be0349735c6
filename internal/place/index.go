package place

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
)

// JournalName is the name of an export's journal in its directory. One in blobs has its journal on this machine.
const JournalName = "export.ckpt"

// index keeps the lines of files.jsonl until the export ends: in memory and, if there is one, in a journal, with the claim ahead of
// them. The journal keeps other processes from the export, too.
type index struct {
	to      Objects
	journal *journal.File // nil for none: the export can't be resumed then
	text    []byte
}

// event is the claim or a line. In the journal, JSON may be escaped in another way.
type event struct {
	Claim *Claim `json:"claim,omitempty"`
	Line  string `json:"line,omitempty"`
}

// begin claims a place that is empty or does not exist.
func (x *index) begin(ctx context.Context, c Claim) (err error) {
	if b, ok := x.to.(*Blobs); ok {
		err = b.Make(ctx)
	}
	if err == nil {
		err = x.to.List(ctx, "", func(name string, _ int64) error {
			of, _ := file.Temporary(name)
			switch {
			case name == JournalName+".lock", of == JournalName, of == ClaimName: // of a process that was killed before it had claimed the place
				return nil
			}
			return fmt.Errorf("%w: it has %s", ErrTaken, name)
		})
	}
	if err == nil && x.journal != nil {
		err = x.journal.Renew([]any{event{Claim: &c}})
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c)
	}
	return err
}

// resume returns the claim and the files that an earlier process has finished.
func (x *index) resume(ctx context.Context) (c Claim, files []File, err error) {
	var all []any
	err = journal.Events(x.journal, func(e event) (err error) {
		if all = append(all, e); (len(all) == 1) != (e.Claim != nil) {
			return errors.New("it is not one of an export")
		}
		if e.Claim != nil {
			c = *e.Claim
			return c.check("the checkpoint's claim", format)
		}
		f, err := ParseFile([]byte(e.Line))
		files = append(files, f)
		x.text = append(append(x.text, e.Line...), '\n')
		return err
	})
	if err == nil {
		err = x.journal.Renew(all)
	}
	if err == nil {
		err = PutClaim(ctx, x.to, c) // it may have been put, or not
	}
	return c, files, err
}

// add adds a line, for good.
func (x *index) add(line []byte) error {
	x.text = append(x.text, line...)
	if x.journal == nil {
		return nil
	}
	x.journal.Append(event{Line: string(line[:len(line)-1])})
	return errors.Join(x.journal.Flush(), x.journal.Sync())
}
