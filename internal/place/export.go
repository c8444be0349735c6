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
	"math"
	"os"
	"sort"
	"sync"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// ErrNoExport is the error for a place without a manifest.
var ErrNoExport = errors.New("is not a complete export")

// Export is a complete export. It is safe for concurrent use.
type Export struct {
	objects  Objects
	manifest Manifest
	codec    *Codec
	files    []dataFile

	mu sync.Mutex // guards the facts that were learned about files
}

// dataFile is a file with the facts that were learned about its pages.
type dataFile struct {
	File
	seen []seen
}

type seen struct {
	rows int      // the page's number of rows; 0 if the page was not read
	last *key.Key // the page's last key; nil until lastKey has read the page
}

// Open opens a complete export. It reads the manifest and files.jsonl, and checks their hashes.
func Open(ctx context.Context, o Objects) (*Export, error) {
	e := &Export{objects: o}
	if err := e.open(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Address(), err)
	}
	return e, nil
}

// explainMissing returns why an object is missing: its place does not contain it, or the directory does not exist.
func explainMissing(o Objects, name string) string {
	if d, local := o.(Directory); local {
		if _, err := os.Stat(string(d)); errors.Is(err, fs.ErrNotExist) {
			return "there is no such directory"
		}
	}
	return "it has no " + name
}

func (e *Export) open(ctx context.Context) error {
	text, err := get(ctx, e.objects, ManifestName, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNoExport, explainMissing(e.objects, ManifestName))
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
	sum, err := eachFile(ctx, e.objects, FilesName, func(f File) error {
		_, err := seal.Add(f)
		f.Properties = Properties{} // frees memory, because counts for single files are not needed
		e.files = append(e.files, dataFile{f, make([]seen, len(f.Pages))})
		return err
	})
	if err != nil {
		return err
	}
	m := e.manifest
	if sum != m.Files.SHA256 {
		return fmt.Errorf("%s has changed since it was written: its hash differs from the hash in %s", FilesName, ManifestName)
	}
	if seal.files != m.Files.Count || seal.rows != m.Rows || seal.bytes != m.Bytes {
		return fmt.Errorf("%[1]s does not match %[2]s: %[1]s records %[3]d files with %[4]d rows and %[5]d bytes, but %[2]s lists %[6]d files with %[7]d rows and %[8]d bytes",
			ManifestName, FilesName, m.Files.Count, m.Rows, m.Bytes, seal.files, seal.rows, seal.bytes)
	}
	return nil
}

// eachFile calls fn with each line of files.jsonl, and returns the hash of the whole object.
func eachFile(ctx context.Context, o Objects, name string, fn func(File) error) (hash string, err error) {
	sum, n := sha256.New(), 0
	whole := io.NewSectionReader(readerAt(func(offset, most int64) ([]byte, error) { return o.Get(ctx, name, offset, most) }), 0, math.MaxInt64)
	lines := bufio.NewScanner(io.TeeReader(bufio.NewReaderSize(whole, chunk), sum))
	lines.Buffer(nil, maxLine)
	for ; lines.Scan(); n++ {
		f, err := ParseFile(lines.Bytes())
		if err == nil {
			err = fn(f)
		}
		if err != nil {
			return "", fmt.Errorf("%s, line %d: %w", name, n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("%s, after line %d: %w", name, n, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Address implements [storage.Source]. The address consists of the export's place and hash.
func (e *Export) Address() string { return e.objects.Address() + "#" + e.Hash() }

// Hash distinguishes the export from earlier and later exports in the same place.
func (e *Export) Hash() string { return e.manifest.Files.SHA256[:hashDigits] }

// Manifest returns the export's manifest.
func (e *Export) Manifest() Manifest { return e.manifest }

// Hints implements [storage.Hinted]. It calls fn for the last row of each data file.
func (e *Export) Hints(fn func(last key.Key, rows int64)) {
	for _, f := range e.files {
		fn(f.Last.Key(), f.Rows)
	}
}

func get(ctx context.Context, o Objects, name string, most int64) ([]byte, error) {
	text, err := o.Get(ctx, name, 0, most+1)
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

const (
	chunk   = 1 << 20 // bytes of files.jsonl that one request reads
	maxLine = 8 << 20
)

type readerAt func(offset, most int64) ([]byte, error)

// ReadAt implements [io.ReaderAt].
func (r readerAt) ReadAt(b []byte, offset int64) (int, error) {
	text, err := r(offset, int64(len(b)))
	if err == nil && len(text) < len(b) {
		err = io.EOF
	}
	return copy(b, text), err
}

// position is the row at which a query continues.
type position struct{ file, page, row int }

func (p position) token() *key.Token {
	return &key.Token{Partition: fmt.Sprintf("%d/%d/%d", p.file, p.page, p.row)}
}

// pageSource contains an export's objects, and the memory for reading their pages.
type pageSource struct {
	Objects
	memory *memory.Part
}

// Read implements [storage.Source]. To find the start of the range, Read may read several pages, but it returns rows of
// only one page.
func (e *Export) Read(ctx context.Context, options storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	w, err := newWindow(q)
	if err != nil {
		return p, 1, err
	}
	from := pageSource{e.objects, options.Memory}
	if blobs, ok := from.Objects.(*Blobs); ok {
		from.Objects = blobs.With(options)
	}
	at, err := e.startOf(ctx, from, q)
	if err != nil || at.file == len(e.files) {
		return p, 1, err
	}
	rows, n, err := e.readPage(ctx, from, at)
	if err != nil {
		return p, 1, err
	}
	p.Bytes = n
	rest, ended := w.take(rows[min(at.row, len(rows)):], &p)
	if at.row = len(rows) - len(rest); len(rest) == 0 {
		at = e.nextPage(at)
	}
	if !ended && at.file < len(e.files) && q.Range.Side(e.files[at.file].First.Key()) <= 0 {
		p.Next = at.token()
	}
	return p, 1, nil
}

func (e *Export) nextPage(at position) position {
	if at.page+1 < len(e.files[at.file].Pages) {
		return position{at.file, at.page + 1, 0}
	}
	return position{at.file + 1, 0, 0}
}

// startOf returns the position at which a query begins: the position of its token, or the start of its range.
func (e *Export) startOf(ctx context.Context, from pageSource, q storage.Query) (at position, err error) {
	if q.Token != nil {
		n, _ := fmt.Sscanf(q.Token.Partition, "%d/%d/%d", &at.file, &at.page, &at.row)
		if n != 3 || at.file < 0 || at.file >= len(e.files) || at.page < 0 || at.page >= len(e.files[at.file].Pages) || at.row < 0 {
			return at, fmt.Errorf("%s: the token %.100q does not belong to this export", e.objects.Address(), q.Token.Partition)
		}
		return at, nil
	}
	at.file = sort.Search(len(e.files), func(i int) bool { return q.Range.Side(e.files[i].Last.Key()) >= 0 })
	if at.file == len(e.files) || q.Range.Side(e.files[at.file].First.Key()) >= 0 {
		return at, nil
	}
	at.page = sort.Search(len(e.files[at.file].Pages)-1, func(i int) bool {
		last, lastErr := e.lastKey(ctx, from, position{at.file, i, 0})
		err = errors.Join(err, lastErr)
		return err != nil || q.Range.Side(last) >= 0
	})
	return at, err
}

func (e *Export) lastKey(ctx context.Context, from pageSource, at position) (key.Key, error) {
	page := &e.files[at.file].seen[at.page]
	e.mu.Lock()
	last := page.last
	e.mu.Unlock()
	if last != nil {
		return *last, nil
	}
	rows, n, err := e.readPage(ctx, from, at)
	if err != nil {
		return key.Key{}, err
	}
	defer from.memory.Use(-storage.MemoryOf(n, len(rows)))
	k := rows[len(rows)-1].Key.Clone()
	e.mu.Lock()
	page.last = &k
	e.mu.Unlock()
	return k, nil
}

// readPage reads a page and checks its hash. It returns the page's rows and the number of bytes of their JSON. It reserves the memory that
// [storage.MemoryOf] estimates.
func (e *Export) readPage(ctx context.Context, from pageSource, at position) (rows []storage.Row, bytes int, err error) {
	f := &e.files[at.file]
	begin := int64(0)
	for _, before := range f.Pages[:at.page] {
		begin += before.Bytes
	}
	mark := f.Pages[at.page]
	if !from.memory.Use(mark.Bytes) {
		return nil, 0, memory.ErrFull
	}
	defer from.memory.Use(-mark.Bytes)
	encoded, err := from.Get(ctx, f.Path, begin, mark.Bytes)
	if err != nil {
		return nil, 0, fmt.Errorf("read the export: %w", err)
	}
	expected, used := storage.MemoryOf(int(e.codec.size(encoded)), 0), int64(0)
	if !from.memory.Use(expected) {
		return nil, 0, memory.ErrFull
	}
	if rows, bytes, err = e.decode(encoded, at); err == nil {
		err = e.checkCount(f, at.page, len(rows))
		used = storage.MemoryOf(bytes, len(rows))
	}
	if !from.memory.Use(used - expected) {
		from.memory.Use(-expected)
		return nil, 0, memory.ErrFull
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s/%s, bytes %d to %d: %w", e.objects.Address(), f.Path, begin, begin+mark.Bytes, err)
	}
	return rows, bytes, nil
}

func (e *Export) decode(encoded []byte, at position) (rows []storage.Row, bytes int, err error) {
	f := &e.files[at.file]
	if shortHash(encoded) != f.Pages[at.page].Hash {
		return nil, 0, fmt.Errorf("this page has changed since it was written: its hash differs from the hash in %s", FilesName)
	}
	text, err := e.codec.decode(encoded)
	if err == nil {
		rows, err = storage.ParseLines(text)
	}
	switch {
	case err != nil:
	case len(rows) == 0 || len(rows) > storage.PageRows:
		err = fmt.Errorf("this page has %d rows; it must have 1 to %d", len(rows), storage.PageRows)
	case at.page == 0 && rows[0].Key != f.First.Key(), at.page == len(f.Pages)-1 && rows[len(rows)-1].Key != f.Last.Key():
		err = fmt.Errorf("the first or the last key of this page differs from the key in %s", FilesName)
	}
	for i := 1; err == nil && i < len(rows); i++ {
		if k := rows[i].Key; rows[i-1].Key.Compare(k) >= 0 {
			err = fmt.Errorf("PartitionKey %q RowKey %q is not greater than the key before it", k.Partition, k.Row)
		}
	}
	return rows, len(text), err
}

// Once all pages of a file have been read, checkCount compares the number of their rows with the
// number in files.jsonl.
func (e *Export) checkCount(f *dataFile, page, rows int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.seen[page].rows = rows
	var all int64
	for _, p := range f.seen {
		if p.rows == 0 {
			return nil
		}
		all += int64(p.rows)
	}
	if all != f.Rows {
		return fmt.Errorf("the file has %s, but must have %d according to %s", problem.Plural(all, "row"), f.Rows, FilesName)
	}
	return nil
}
