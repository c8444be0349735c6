package place

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
)

// The errors for a place where an export cannot begin or continue.
var (
	ErrTaken    = errors.New("is taken")
	ErrComplete = errors.New("is a complete export; nothing is left to do")
	ErrDamaged  = errors.New("is damaged")
)

// Options control how an export is written.
type Options struct {
	Compress  Compress
	Timestamp bool          // rows keep their Timestamps
	FileBytes int           // the approximate bytes of JSON in a data file; 0 means 32 MiB
	Journal   *journal.File // the journal from which the export can be resumed, or nil; the caller closes it
	Member    bool          // the export is one table's part of a larger export, which has claimed the directory or prefix above this place
}

// Writer makes an export from rows in table order. [Pages.Add] adds them.
type Writer struct {
	*FileDraft
	Claim  Claim // the export's claim, which an earlier process may have put
	Seal   Seal  // the facts about the complete files; must not be used while rows are added
	Whole  bool  // set if an earlier process has written all rows, so that only [Writer.Complete] must be called
	to     Objects
	member bool             // see Options.Member
	put    map[string]int64 // the lengths of the data files
	bytes  atomic.Int64     // the bytes of memory that the current file uses

	// lines is the content of files.jsonl. Until files.jsonl is written, a journal stores the claim and these lines. The journal's lock prevents
	// other processes from continuing the export.
	lines   []byte
	journal *journal.File // nil if the export cannot be resumed
}

// JournalName is the name of an export's journal in its directory. The journal of an export in blobs is a file on this machine.
const JournalName = "export.ckpt"

// event is an entry of the journal: the claim, or a line of files.jsonl. A line is stored as a string, because the
// journal may change the escapes of JSON.
type event struct {
	Claim *Claim `json:"claim,omitempty"`
	Line  string `json:"line,omitempty"`
}

// Create begins an export in a place that is empty or does not exist.
func Create(ctx context.Context, to Objects, c Claim, o Options) (w *Writer, err error) {
	return begin(ctx, to, o, func(w *Writer) error {
		w.Claim = c
		return w.claimPlace(ctx)
	})
}

// Resume continues an export after its last complete file, and removes the remains of an incomplete file. The options, including the journal, must be
// those with which the export began.
func Resume(ctx context.Context, to Objects, o Options) (w *Writer, err error) {
	return begin(ctx, to, o, func(w *Writer) error { return w.restore(ctx) })
}

func begin(ctx context.Context, to Objects, o Options, from func(*Writer) error) (*Writer, error) {
	codec, err := NewCodec(o.Compress)
	if err != nil {
		return nil, err
	}
	w := &Writer{to: to, put: map[string]int64{}, journal: o.Journal, member: o.Member, FileDraft: NewFile(codec)}
	w.timestamp, w.fileBytes = o.Timestamp, cmp.Or(o.FileBytes, fileBytes)
	whole := context.WithoutCancel(ctx)
	w.take = func(p *page, last bool) error { return w.write(whole, p, last) }
	if err := from(w); err != nil {
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrComplete) {
			err = fmt.Errorf("%s %w", to.Address(), err)
		}
		return nil, err
	}
	w.last = w.Seal.Last()
	return w, nil
}

func (w *Writer) claimPlace(ctx context.Context) (err error) {
	if b, ok := w.to.(*Blobs); ok {
		err = b.Make(ctx)
	}
	if err == nil {
		err = w.to.List(ctx, "", func(name string, _ int64) error {
			of, _ := file.Temporary(name)
			switch {
			case name == JournalName+".lock", of == JournalName, of == ClaimName: // remains of a process that was killed before it claimed the place
				return nil
			}
			return fmt.Errorf("%w: it contains %s", ErrTaken, name)
		})
	}
	if err == nil && !w.member {
		err = checkApart(ctx, w.to, 0)
	}
	if err == nil && w.journal != nil {
		err = w.journal.Renew([]any{event{Claim: &w.Claim}})
	}
	if err == nil {
		err = w.putClaim(ctx, false)
	}
	return err
}

// putClaim puts the claim. The argument `begun` is true if an earlier process has put the claim and begun the export. If another export has
// already claimed the place, putClaim removes this export's journal.
func (w *Writer) putClaim(ctx context.Context, begun bool) error {
	if begun || w.member {
		return PutClaim(ctx, w.to, w.Claim)
	}
	err := Take(ctx, w.to, w.Claim, nil)
	if errors.Is(err, ErrTaken) && w.journal != nil {
		err = cmp.Or(w.journal.Remove(), err)
	}
	return err
}

// ClaimOf returns the claim of a complete or incomplete export.
func ClaimOf(ctx context.Context, o Objects) (Claim, error) {
	return claimOf(ctx, o, ClaimName, format)
}

// TablesClaimOf returns the claim of a complete or incomplete export of many tables.
func TablesClaimOf(ctx context.Context, o Objects) (Claim, error) {
	return claimOf(ctx, o, tablesClaimName, tablesFormat)
}

func claimOf(ctx context.Context, o Objects, name, format string) (c Claim, err error) {
	text, err := get(ctx, o, name, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s is not an export: it has no %s", o.Address(), name)
	}
	if err == nil {
		err = parse(name, format, text, &c)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.Address(), err)
	}
	return c, err
}

// PutClaim claims the place for an export. If the place belongs to another export, PutClaim fails with [ErrTaken]. It
// reads the claim before it writes, so that a missing permission to read is found early. Without this permission, an
// export could neither be completed nor resumed after a crash.
func PutClaim(ctx context.Context, to Objects, c Claim) error {
	_, err := putClaim(ctx, to, c)
	return err
}

// putClaim does the work of [PutClaim]. `made` reports whether the claim is new.
func putClaim(ctx context.Context, to Objects, c Claim) (made bool, err error) {
	_, err = to.Get(ctx, c.name(), 0, 1)
	if errors.Is(err, fs.ErrNotExist) {
		made, err = to.Put(ctx, c.name(), c.JSON())
	}
	if err != nil || made {
		return made, err
	}
	there, err := claimOf(ctx, to, c.name(), c.Format)
	if err == nil && there.ID != c.ID { // an equal id means that an earlier try of this request made the claim
		err = fmt.Errorf("%w: it contains an export", ErrTaken)
	}
	return false, err
}

// PutSame puts an object that an earlier try may have put already. It fails if the existing object has other content.
func PutSame(ctx context.Context, to Objects, name string, content []byte) error {
	made, err := to.Put(ctx, name, content)
	if err != nil || made {
		return err
	}
	there, err := to.Get(ctx, name, 0, int64(len(content))+1)
	if err == nil && !bytes.Equal(there, content) {
		err = fmt.Errorf("%s/%s does not belong to this export; another program wrote it", to.Address(), name)
	}
	return err
}

// replay restores the claim and the files from the journal, and returns the files.
func (w *Writer) replay(ctx context.Context) (files []File, err error) {
	var all []any
	err = journal.Events(w.journal, func(e event) (err error) {
		if all = append(all, e); (len(all) == 1) != (e.Claim != nil) {
			return errors.New("the file is not the journal of an export")
		}
		if e.Claim != nil {
			w.Claim = *e.Claim
			return w.Claim.check("the checkpoint's claim", format)
		}
		f, err := ParseFile([]byte(e.Line))
		files = append(files, f)
		w.lines = append(append(w.lines, e.Line...), '\n')
		return err
	})
	if err == nil {
		err = w.journal.Renew(all)
	}
	if err == nil {
		err = w.putClaim(ctx, len(files) > 0) // the earlier process may not have put the claim yet
	}
	return files, err
}

// restore continues from the files of an earlier process.
func (w *Writer) restore(ctx context.Context) error {
	files, err := w.replay(ctx)
	if err != nil {
		return err
	}
	if d, ok := w.to.(Directory); ok {
		if err := d.clear(); err != nil {
			return err
		}
	}
	if _, err := w.to.Get(ctx, ManifestName, 0, 1); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, ErrComplete)
	}
	for _, f := range files {
		if _, err := w.Seal.Add(f); err != nil {
			return fmt.Errorf("%s %w: %w", w.to.Address(), ErrDamaged, err)
		}
		w.put[f.Path] = f.Bytes
	}
	var leftovers []string
	err = CheckObjects(ctx, w.to, DataPrefix, w.put, func(name string) {
		if Leftover(name) {
			leftovers = append(leftovers, name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range leftovers {
		if err := w.to.Delete(ctx, name); err != nil {
			return err
		}
	}
	switch _, err := w.to.Get(ctx, FilesName, 0, 1); {
	case err == nil:
		w.Whole = true // the list of files exists, so all rows were written; rows that the table got later are not exported
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

func (w *Writer) write(ctx context.Context, p *page, last bool) error {
	w.append(p)
	w.bytes.Store(w.heldBytes())
	if !last {
		return nil
	}
	f, content := w.FileDraft.End(fmt.Sprintf("%06d", w.Seal.files))
	_, err := w.to.Put(ctx, f.Path, content) // if an object with this name exists, it has the same content, because the name contains the hash
	w.bytes.Store(w.heldBytes())
	var line []byte
	if err == nil {
		line, err = w.Seal.Add(f)
	}
	if err == nil {
		w.put[f.Path] = f.Bytes
		w.lines = append(w.lines, line...)
	}
	if err == nil && w.journal != nil {
		w.journal.Append(event{Line: string(line[:len(line)-1])})
		err = errors.Join(w.journal.Flush(), w.journal.Sync())
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// Holds returns approximately how many bytes of memory the current file uses. It may be called while rows are added.
func (w *Writer) Holds() int64 { return w.bytes.Load() }

// End ends the sequence of rows. If err is nil, End writes the remaining rows, and the caller must then call [Writer.Complete]. If err is not nil,
// the export stays incomplete, but can be resumed if it has a journal.
func (w *Writer) End(err error) error { return w.Pages.End(err) }

// Complete checks that all files exist, adds the facts about files and rows to m, puts m as the manifest, and returns it.
func (w *Writer) Complete(ctx context.Context, m Manifest) (Manifest, error) {
	err := PutSame(ctx, w.to, FilesName, w.lines)
	if err == nil {
		w.put[FilesName] = int64(len(w.lines))
		err = CheckObjects(ctx, w.to, "", w.put, func(string) {})
	}
	if err == nil {
		m = w.Seal.Manifest(m)
		err = PutSame(ctx, w.to, ManifestName, m.JSON(w.Claim.ID))
	}
	return m, err
}
