package place

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"tablesweep/internal/sweep/journal"
)

// Errors of a place that takes no export, or not the rest of one.
var (
	ErrTaken    = errors.New("is taken")
	ErrComplete = errors.New("is a complete export; nothing is left to do")
	ErrDamaged  = errors.New("is damaged")
)

// Options say how an export is written.
type Options struct {
	Compress  Compress
	Timestamp bool          // rows have their Timestamp
	FileBytes int           // of JSON that a data file has, about; 0 means 64 MiB
	Journal   *journal.File // of an export in blobs: what a resume goes on from; nil for none. A directory needs none
}

// Writer makes an export from rows in table order. Its [Pages.Add] takes them.
type Writer struct {
	*FileDraft
	Claim Claim // of the export, which an earlier process may have begun
	Seal  Seal  // what the export has so far; not to be used while rows are added
	to    Objects
	index index
	put   map[string]int64 // the data files and files.jsonl, with their lengths
}

// Create begins an export in a place that is empty or does not exist.
func Create(ctx context.Context, to Objects, c Claim, o Options) (w *Writer, err error) {
	return begin(ctx, to, o, func(w *Writer) error {
		w.Claim = c
		return w.index.begin(ctx, c)
	})
}

// Resume goes on with an export behind its last whole file, with the options that it was begun with. It removes what is left
// of the next one.
func Resume(ctx context.Context, to Objects, o Options) (w *Writer, err error) {
	return begin(ctx, to, o, func(w *Writer) error { return w.restore(ctx) })
}

func begin(ctx context.Context, to Objects, o Options, from func(*Writer) error) (*Writer, error) {
	codec, err := NewCodec(o.Compress)
	if err != nil {
		return nil, err
	}
	w := &Writer{to: to, put: map[string]int64{}, index: index{to: to, journal: o.Journal}, FileDraft: NewFile(codec)}
	w.index.dir, _ = to.(Directory)
	w.timestamp, w.fileBytes = o.Timestamp, cmp.Or(o.FileBytes, fileBytes)
	if o.Compress == None { // which is known to become so large
		w.content = make([]byte, 0, w.fileBytes+pageBytes)
	}
	whole := context.WithoutCancel(ctx)
	w.take = func(p *page, last bool) error { return w.write(whole, p, last) }
	if err := from(w); err != nil {
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrComplete) || errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%s %w", to.Address(), err)
		}
		return nil, errors.Join(err, w.index.close())
	}
	w.last = w.Seal.Last()
	return w, nil
}

// ClaimOf returns the claim of an export, complete or not.
func ClaimOf(ctx context.Context, o Objects) (c Claim, err error) {
	text, err := get(ctx, o, ClaimName)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is no export: it has no %s", o.Address(), ClaimName)
	}
	if err != nil {
		return c, err
	}
	if err = json.Unmarshal(text, &c); err == nil {
		err = c.check(ClaimName)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", o.Address(), ClaimName, err)
	}
	return c, err
}

// PutClaim makes the place an export's. It fails with [ErrTaken] if it is another's. It reads before it puts anything: who may not
// read could neither complete the export after a crash nor go on with it.
func PutClaim(ctx context.Context, to Objects, c Claim) error {
	_, err := to.Get(ctx, ClaimName, 0, 1)
	made := false
	if errors.Is(err, fs.ErrNotExist) {
		made, err = to.Put(ctx, ClaimName, c.JSON())
	}
	if err != nil || made {
		return err
	}
	there, err := ClaimOf(ctx, to)
	if err == nil && there.ID != c.ID { // else an earlier try of this request made it
		err = fmt.Errorf("%w: it has an export", ErrTaken)
	}
	return err
}

// PutSame makes an object that an earlier try may have made with the same content. It fails if there is one with another.
func PutSame(ctx context.Context, to Objects, name string, content []byte) error {
	made, err := to.Put(ctx, name, content)
	if err != nil || made {
		return err
	}
	there, err := to.Get(ctx, name, 0, int64(len(content))+1)
	if err == nil && !bytes.Equal(there, content) {
		err = fmt.Errorf("%s/%s is not what this export has: somebody else has put it there", to.Address(), name)
	}
	return err
}

// restore takes over the files that an earlier process finished.
func (w *Writer) restore(ctx context.Context) error {
	c, lines, err := w.index.resume(ctx)
	if err != nil {
		return err
	}
	w.Claim = c
	if _, err := get(ctx, w.to, ManifestName); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, ErrComplete)
	}
	stored := map[string]int64{}
	err = w.to.List(ctx, DataPrefix, func(name string, bytes int64) error {
		stored[name] = bytes
		return nil
	})
	if err != nil {
		return err
	}
	for i, line := range lines {
		f, err := ParseFile(line)
		if err == nil {
			err = w.takeOver(f, line, stored[f.Path])
		}
		if delete(stored, f.Path); err == nil && i == len(lines)-1 {
			err = w.prove(ctx, f)
		}
		if err != nil {
			return fmt.Errorf("%w: %s, line %d: %w", ErrDamaged, FilesName, i+1, err)
		}
	}
	for name := range stored {
		if Leftover(name) {
			err = errors.Join(err, w.to.Delete(ctx, name))
		}
	}
	return err
}

// prove reads a file whose last key is where the export goes on, so that no row is passed over.
func (w *Writer) prove(ctx context.Context, f File) (err error) {
	e := &Export{objects: w.to, codec: w.codec, files: []dataFile{inMemory(f)}}
	for i := 0; err == nil && i < len(f.Pages); i++ {
		_, _, err = e.page(ctx, w.to, position{0, i, 0}, true)
	}
	return err
}

// takeOver counts a finished file, of which so many bytes are stored. Its name has its number, so that no line before it is gone.
func (w *Writer) takeOver(f File, line []byte, stored int64) error {
	name := dataName(w.order(), f.SHA256, w.codec)
	written, err := w.Seal.Add(f)
	switch {
	case err != nil:
		return err
	case stored != f.Bytes:
		return fmt.Errorf("%s is missing or has another size", f.Path)
	case f.Path != name || !bytes.Equal(bytes.TrimSuffix(written, []byte("\n")), line):
		return fmt.Errorf("it is not what this program has written about %.80s", name)
	}
	w.note(f, written)
	return nil
}

// note notes a data file that was put, and its line.
func (w *Writer) note(f File, line []byte) {
	w.put[f.Path] = f.Bytes
	w.put[FilesName] += int64(len(line))
}

// order begins the name of the next file.
func (w *Writer) order() string { return fmt.Sprintf("%06d", w.Seal.files) }

// write adds a page to the file, and ends it with its last one.
func (w *Writer) write(ctx context.Context, p *page, last bool) error {
	w.append(p)
	if !last {
		return nil
	}
	f, content := w.FileDraft.End(w.order())
	_, err := w.to.Put(ctx, f.Path, content) // what has its name has its content
	var line []byte
	if err == nil {
		line, err = w.Seal.Add(f)
	}
	if err == nil {
		w.note(f, line)
		err = w.index.add(line)
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// End ends the export. If err is nil, it writes what is left of the rows, and then the manifest, whose facts about files
// and rows it adds. Otherwise the export can be resumed.
func (w *Writer) End(ctx context.Context, err error, manifest func() (Manifest, error)) (Manifest, error) {
	err = w.Pages.End(err)
	var m Manifest
	if err == nil {
		m, err = manifest()
	}
	if err == nil && w.index.file == nil { // of blobs, or of nothing
		err = PutSame(ctx, w.to, FilesName, w.index.text)
	}
	if err == nil {
		err = CheckObjects(ctx, w.to, "", w.put, func(string) {})
	}
	if err == nil {
		m = w.Seal.Manifest(m)
		err = PutSame(ctx, w.to, ManifestName, m.JSON(w.Claim.ID))
	}
	if closeErr := w.index.close(); err == nil {
		err = closeErr
	}
	return m, err
}
