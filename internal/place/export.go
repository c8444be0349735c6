package place

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// ErrNoExport is the error of a place without a manifest.
var ErrNoExport = errors.New("is no complete export")

// Export is a complete export. It is safe for concurrent use.
type Export struct {
	objects  Objects
	manifest Manifest
	codec    *Codec
	files    []dataFile

	mu    sync.Mutex            // guards the following, and what files count
	spans map[[2]int][2]key.Key // of pages that a range was looked up by: the first key and the last
}

// dataFile is a [File] in memory.
type dataFile struct {
	path        string
	rows        int64
	first, last key.Key
	pages       []dataPage
	unread      int   // pages
	read        int64 // rows
}

type dataPage struct {
	end  int64 // in the file
	hash [hashDigits / 2]byte
	read bool
}

// Open opens a complete export. It reads the manifest and files.jsonl, and proves them.
func Open(ctx context.Context, o Objects) (*Export, error) {
	e := &Export{objects: o, spans: map[[2]int][2]key.Key{}}
	if err := e.open(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Address(), err)
	}
	return e, nil
}

func (e *Export) open(ctx context.Context) error {
	text, err := get(ctx, e.objects, ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it has no %s", ErrNoExport, ManifestName)
	}
	if storage.HasCode(err, "ContainerNotFound") {
		return fmt.Errorf("%w: there is no such container", ErrNoExport)
	}
	if err != nil {
		return err
	}
	if e.manifest, err = ParseManifest(text); err != nil {
		return err
	}
	if e.codec, err = NewCodec(e.manifest.Encoding.Compress); err != nil {
		return err
	}
	var seal Seal
	sum := sha256.New()
	err = eachFile(io.TeeReader(&objectReader{ctx: ctx, objects: e.objects, name: FilesName}, sum), func(f File) error {
		if _, err := seal.Add(f); err != nil {
			return err
		}
		e.files = append(e.files, inMemory(f))
		return nil
	})
	if err != nil {
		return err
	}
	m := e.manifest
	if hex.EncodeToString(sum.Sum(nil)) != m.Files.SHA256 {
		return fmt.Errorf("%s is not as it was written: its hash is not the one in %s", FilesName, ManifestName)
	}
	if seal.files != m.Files.Count || seal.rows != m.Rows || seal.bytes != m.Bytes {
		return fmt.Errorf("%s does not match %s: %d files, %d rows and %d bytes, not %d, %d and %d",
			ManifestName, FilesName, m.Files.Count, m.Rows, m.Bytes, seal.files, seal.rows, seal.bytes)
	}
	return nil
}

// Address identifies the export: its place, and what stands there.
func (e *Export) Address() string { return e.objects.Address() + "#" + e.Hash() }

// Hash tells the export from others that stood or will stand in its place.
func (e *Export) Hash() string { return e.manifest.Files.SHA256[:hashDigits] }

// Manifest returns what the export says of itself.
func (e *Export) Manifest() Manifest { return e.manifest }

// Files calls fn with the last key of each data file, and with its rows, in table order.
func (e *Export) Files(fn func(last key.Key, rows int64)) {
	for _, f := range e.files {
		fn(f.last, f.rows)
	}
}

// get reads a small object.
func get(ctx context.Context, o Objects, name string) ([]byte, error) {
	text, err := o.Get(ctx, name, 0, MaxManifest+1)
	if err == nil && len(text) > MaxManifest {
		err = fmt.Errorf("%s has more than %d bytes", name, MaxManifest)
	}
	return text, err
}

func inMemory(f File) dataFile {
	d := dataFile{path: f.Path, rows: f.Rows, first: f.First.key(), last: f.Last.key(), pages: make([]dataPage, len(f.Pages)), unread: len(f.Pages)}
	end := int64(0)
	for i, p := range f.Pages {
		end += p.Bytes
		d.pages[i].end = end
		_, _ = hex.Decode(d.pages[i].hash[:], []byte(p.Hash)) // another hash is no page's
	}
	return d
}

const (
	chunk   = 1 << 20 // of files.jsonl that is read at a time
	maxLine = 8 << 20
)

// objectReader reads an object from its start.
type objectReader struct {
	ctx     context.Context
	objects Objects
	name    string
	at      int64
	rest    []byte
}

// Read implements [io.Reader].
func (r *objectReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		var err error
		if r.rest, err = r.objects.Get(r.ctx, r.name, r.at, chunk); err != nil {
			return 0, err
		}
		if len(r.rest) == 0 {
			return 0, io.EOF
		}
		r.at += int64(len(r.rest))
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// eachFile calls fn with each line of files.jsonl.
func eachFile(in io.Reader, fn func(File) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		f, err := ParseFile(lines.Bytes())
		if err == nil {
			err = fn(f)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", FilesName, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", FilesName, n, err)
	}
	return nil
}

// position is where a query reads on.
type position struct{ file, page, row int }

func (p position) token() *key.Token {
	return &key.Token{Partition: fmt.Sprintf("%d/%d/%d", p.file, p.page, p.row)}
}

// Read answers a query as a table does, from at most one page but for those that a range is looked up by. It has the
// form of a sweep's own reading.
func (e *Export) Read(ctx context.Context, options storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	w, err := newWindow(q)
	if err != nil {
		return p, 1, err
	}
	from := e.objects
	if blobs, ok := from.(*Blobs); ok {
		from = blobs.With(options)
	}
	at, err := e.start(ctx, from, q, w)
	if err != nil || at.file == len(e.files) {
		return p, 1, err
	}
	rows, n, err := e.page(ctx, from, at, w.raw)
	if err != nil {
		return p, 1, err
	}
	p.Bytes = n
	for _, row := range rows[min(at.row, len(rows)):] {
		if w.beyond(row.Key) {
			return p, 1, nil
		}
		at.row++
		if q.Range.Contains(row.Key) && w.match(row) {
			if p.Entities = append(p.Entities, w.choose(row)); len(p.Entities) == w.top {
				break
			}
		}
	}
	if at.row >= len(rows) {
		at = e.next(at)
	}
	if at.file < len(e.files) && !w.beyond(e.files[at.file].first) {
		p.Next = at.token()
	}
	return p, 1, nil
}

// next returns the position of the page behind one.
func (e *Export) next(at position) position {
	if at.page+1 < len(e.files[at.file].pages) {
		return position{at.file, at.page + 1, 0}
	}
	return position{at.file + 1, 0, 0}
}

// start returns where a query begins: at its token, or where its range does.
func (e *Export) start(ctx context.Context, from Objects, q storage.Query, w *window) (at position, err error) {
	if q.Token != nil {
		n, _ := fmt.Sscanf(q.Token.Partition, "%d/%d/%d", &at.file, &at.page, &at.row)
		if n != 3 || at.file < 0 || at.file >= len(e.files) || at.page < 0 || at.page >= len(e.files[at.file].pages) || at.row < 0 {
			return at, fmt.Errorf("%s: the token %.100q is not one of this export", e.objects.Address(), q.Token.Partition)
		}
		return at, nil
	}
	at.file = sort.Search(len(e.files), func(i int) bool { return e.files[i].last.Compare(w.low) >= 0 })
	if at.file == len(e.files) || e.files[at.file].first.Compare(w.low) >= 0 {
		return at, nil
	}
	at.page = sort.Search(len(e.files[at.file].pages)-1, func(i int) bool {
		span, spanErr := e.span(ctx, from, at.file, i)
		err = errors.Join(err, spanErr)
		return err != nil || span[1].Compare(w.low) >= 0
	})
	return at, err
}

// span returns a page's first key and its last one.
func (e *Export) span(ctx context.Context, from Objects, file, page int) (span [2]key.Key, err error) {
	at := [2]int{file, page}
	e.mu.Lock()
	span, ok := e.spans[at]
	e.mu.Unlock()
	if ok {
		return span, nil
	}
	rows, _, err := e.page(ctx, from, position{file, page, 0}, true)
	if err != nil {
		return span, err
	}
	span = [2]key.Key{rows[0].Key.Clone(), rows[len(rows)-1].Key.Clone()}
	e.mu.Lock()
	e.spans[at] = span
	e.mu.Unlock()
	return span, nil
}

// page reads a page and proves it. It returns its rows, and how much JSON they have.
func (e *Export) page(ctx context.Context, from Objects, at position, raw bool) (rows []storage.Entity, bytes int, err error) {
	f := &e.files[at.file]
	p := &f.pages[at.page]
	begin := int64(0)
	if at.page > 0 {
		begin = f.pages[at.page-1].end
	}
	encoded, err := from.Get(ctx, f.path, begin, p.end-begin)
	if err != nil {
		return nil, 0, fmt.Errorf("read the export: %w", err)
	}
	if rows, bytes, err = e.decode(encoded, p, at, raw); err == nil {
		err = e.count(f, at.page, len(rows))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s/%s, bytes %d to %d: %w", e.objects.Address(), f.path, begin, p.end, err)
	}
	return rows, bytes, nil
}

func (e *Export) decode(encoded []byte, p *dataPage, at position, raw bool) (rows []storage.Entity, bytes int, err error) {
	if sum := sha256.Sum256(encoded); [hashDigits / 2]byte(sum[:]) != p.hash {
		return nil, 0, errors.New("this page is not as it was written: its hash is another")
	}
	text, err := e.codec.decode(encoded)
	if err != nil {
		return nil, 0, err
	}
	if rows, err = storage.ParseLines(text, raw); err != nil {
		return nil, 0, err
	}
	f := &e.files[at.file]
	switch {
	case len(rows) == 0 || len(rows) > storage.PageRows:
		err = fmt.Errorf("this page has %d rows, want 1 to %d", len(rows), storage.PageRows)
	case at.page == 0 && rows[0].Key != f.first, at.page == len(f.pages)-1 && rows[len(rows)-1].Key != f.last:
		err = fmt.Errorf("this page begins or ends with another key than %s says", FilesName)
	default:
		err = sorted(rows)
	}
	return rows, len(text), err
}

// sorted returns an error unless the rows are in table order, each once.
func sorted(rows []storage.Entity) error {
	for i := range rows[1:] {
		if rows[i].Key.Compare(rows[i+1].Key) >= 0 {
			return fmt.Errorf("PartitionKey %q RowKey %q stands behind a key that it is not greater than", rows[i+1].Key.Partition, rows[i+1].Key.Row)
		}
	}
	return nil
}

// count compares the rows of a file with what files.jsonl says, when its last page has been read.
func (e *Export) count(f *dataFile, page, rows int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.pages[page].read {
		return nil
	}
	f.pages[page].read = true
	f.unread--
	f.read += int64(rows)
	if f.unread == 0 && f.read != f.rows {
		return fmt.Errorf("the file has %d rows, but %d by %s", f.read, f.rows, FilesName)
	}
	return nil
}
