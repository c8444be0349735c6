package place

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"time"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// The names of an export's objects.
const (
	ClaimName    = "export.json"
	FilesName    = "files.jsonl"
	ManifestName = "manifest.json"
	DataPrefix   = "data/"
)

const (
	format  = "tablesweep-export"
	version = 1

	// MaxManifest is the maximum number of bytes in a manifest or a claim.
	MaxManifest = 64 << 10
	// fileBytes is the number of bytes of JSON after which a data file ends.
	fileBytes = 32 << 20

	maxProperties = 300
	pageBytes     = 4 << 20  // the maximum number of bytes of a page's JSON, unless a single row is larger
	maxPage       = 16 << 20 // the maximum number of bytes of a page, encoded or decoded
)

// ExportID is the id of an export, in its claim and its manifest. Two exports never have the same id.
type ExportID string

type preamble struct {
	Format  string   `json:"format"`
	Version int      `json:"version"`
	ID      ExportID `json:"id"`
}

func (h preamble) check(name, format string) error {
	switch {
	case h.Format != format:
		return fmt.Errorf("%s does not belong to an export: its format is %.40q, not %q", name, h.Format, format)
	case h.Version < 1 || h.Version > version:
		return fmt.Errorf("%s has version %d, but this program knows only version %d", name, h.Version, version)
	}
	return nil
}

// The last member of a claim or a manifest begins with proofName. The member contains the SHA-256 of all bytes before
// proofName.
const proofName = `,"proof":"`

// withChecksum returns the JSON of a claim or a manifest, with a hash of this JSON as the last member. With the hash,
// [parse] notices any change, even in a member that this version of the program does not know.
func withChecksum(v any) []byte {
	text := bytes.TrimSuffix(asJSON(v), []byte("}\n"))
	return fmt.Appendf(text, "%s%x\"}\n", proofName, sha256.Sum256(text))
}

// parse reads a claim or a manifest into v, and checks its hash and format.
func parse(name, format string, text []byte, v any) error {
	var h preamble
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := h.check(name, format); err != nil {
		return err
	}
	at := max(0, len(text)-len(proofName)-hex.EncodedLen(sha256.Size)-len("\"}\n"))
	if want := fmt.Sprintf("%s%x\"}\n", proofName, sha256.Sum256(text[:at])); string(text[at:]) != want {
		return fmt.Errorf("%s has changed since it was written: its last field, \"proof\", does not match the text before it", name)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Claim is the content of export.json.
type Claim struct {
	preamble
	Request   json.RawMessage `json:"request,omitempty"` // the request that made the export and can resume it
	StartedAt time.Time       `json:"startedAt"`         // the start of the export, by the service's clock
	Source    *Manifest       `json:"source,omitempty"`  // nil if the app reads a table; otherwise, the manifest of the export that the app reads, without the manifest's files and properties
	Program   string          `json:"program"`
}

// NewClaim returns the claim of an export with the given id.
func NewClaim(id ExportID, request json.RawMessage, startedAt time.Time, program string) Claim {
	return Claim{preamble: preamble{format, version, id}, Request: request, StartedAt: startedAt, Program: program}
}

// JSON returns the content of the claim's object.
func (c Claim) JSON() []byte { return withChecksum(c) }

func (c Claim) name() string {
	if c.Format == tablesFormat {
		return tablesClaimName
	}
	return ClaimName
}

// Key is a row's key in an export's objects.
type Key struct {
	PartitionKey string
	RowKey       string
}

// Key converts the key to the type that the rest of the program uses.
func (k Key) Key() key.Key { return key.Key{Partition: k.PartitionKey, Row: k.RowKey} }

// PageMark describes a page of a file: its encoded length, and the first 16 hex digits of the SHA-256 of the encoded page.
type PageMark struct {
	Bytes int64
	Hash  string
}

// MarshalJSON writes the mark as an array of two values.
func (p PageMark) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.Bytes, p.Hash}) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (p *PageMark) UnmarshalJSON(text []byte) error {
	pair := []any{&p.Bytes, &p.Hash}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || p.Bytes < 1 || p.Bytes > maxPage || len(p.Hash) != hashDigits {
		return fmt.Errorf("the file's description of a page is %.80q; it must contain the length (1 to %d bytes) and the hash of the page", text, maxPage)
	}
	return nil
}

// Property is a property's name and, for each type, the number of rows that have the property with this type.
type Property struct {
	Name  string           `json:"name"`
	Types map[string]int64 `json:"types"`
}

// Properties counts the properties of rows. It lists at most 300 properties, in the order in which they first occur.
type Properties struct {
	List []Property `json:"properties,omitempty"`
	More bool       `json:"moreProperties,omitempty"` // some properties are not listed, or were not counted in all rows

	index map[string]int // the position of each name in List
}

func (p *Properties) count(name, kind string, rows int64) {
	if p.index == nil {
		p.index = map[string]int{}
	}
	i, ok := p.index[name]
	if !ok {
		if len(p.List) == maxProperties {
			p.More = true
			return
		}
		i = len(p.List)
		p.index[name] = i
		p.List = append(p.List, Property{name, map[string]int64{}})
	}
	p.List[i].Types[kind] += rows
}

func (p *Properties) add(other Properties) {
	for _, one := range other.List {
		for kind, rows := range one.Types { // the order of types does not change the result
			p.count(one.Name, kind, rows)
		}
	}
	p.More = p.More || other.More
}

// File is a line of files.jsonl. It describes a data file.
type File struct {
	Path   string     `json:"path"` // data/NAME
	Rows   int64      `json:"rows"`
	Bytes  int64      `json:"bytes"`
	SHA256 string     `json:"sha256"`
	First  Key        `json:"first"`
	Last   Key        `json:"last"`
	Pages  []PageMark `json:"pages"`
	Properties
}

// ParseFile reads a line of files.jsonl.
func ParseFile(line []byte) (f File, err error) {
	if err := json.Unmarshal(line, &f); err != nil {
		return f, err
	}
	var bytes int64
	for _, p := range f.Pages {
		bytes += p.Bytes
	}
	switch {
	case bytes != f.Bytes || f.Rows < int64(len(f.Pages)) || f.Rows > int64(len(f.Pages))*storage.PageRows || f.Rows == 0:
		err = errors.New("its number of rows or bytes does not match its pages")
	case f.First.Key().Compare(f.Last.Key()) > 0:
		err = errors.New("its first key is greater than its last key")
	case !dataPath.MatchString(f.Path):
		err = fmt.Errorf("its path %.200q is not the path of a data file", f.Path)
	}
	return f, err
}

// dataPath matches the paths of data files. Such a path cannot lead outside the place.
var dataPath = regexp.MustCompile(`^data/[0-9A-Za-z_-][0-9A-Za-z._-]*$`)

// leftover matches the names of data files that this program makes, complete or not.
var leftover = regexp.MustCompile(`^data/[0-9a-z]+-[0-9a-f]{16}\.jsonl(\.zst|\.gz)?(\.[a-z2-7]{16}\.part)?$`)

// Leftover reports whether `name` has the form of this program's names for data files. If files.jsonl does not list an
// object with such a name, the object can be deleted, because nothing needs it.
func Leftover(name string) bool { return leftover.MatchString(name) }

// Manifest is the content of manifest.json. An export is not a snapshot: rows that were written between its start and its end may
// be missing from it.
type Manifest struct {
	preamble
	Table      string        `json:"table"`
	Account    string        `json:"account"`
	Range      *key.Bounds   `json:"range,omitempty"`
	Filter     string        `json:"filter,omitempty"`
	Select     []string      `json:"select,omitempty"`
	Since      *time.Time    `json:"since,omitempty"`
	Mapped     bool          `json:"mapped,omitempty"` // a map has changed the rows
	StartedAt  time.Time     `json:"startedAt"`
	FinishedAt time.Time     `json:"finishedAt"`
	Rows       int64         `json:"rows"`
	Bytes      int64         `json:"bytes"` // the bytes of all data files
	Files      FilesSum      `json:"files"`
	Encoding   EncodingNames `json:"encoding"`
	Properties
	Program string `json:"program"`
}

// FilesSum is the number of data files and the SHA-256 of files.jsonl.
type FilesSum struct {
	Count  int    `json:"count"`
	SHA256 string `json:"sha256"`
}

// EncodingNames describe the encoding of rows.
type EncodingNames struct {
	Format   string   `json:"format"` // jsonl
	Compress Compress `json:"compress"`
}

// WithSource returns the manifest of an export whose rows come from another export. The source's range, filter, selection, time and map also apply
// to this export.
func (m Manifest) WithSource(source Manifest) Manifest {
	m.Table, m.Account, m.Since, m.Mapped = source.Table, source.Account, source.Since, m.Mapped || source.Mapped
	m.StartedAt, m.FinishedAt = source.StartedAt, source.FinishedAt
	switch {
	case source.Range == nil:
	case m.Range == nil:
		m.Range = source.Range
	default:
		both := source.Range.Intersect(*m.Range)
		m.Range = &both
	}
	if m.Filter != "" && source.Filter != "" && m.Filter != source.Filter {
		m.Filter = "(" + source.Filter + ") and (" + m.Filter + ")"
	}
	m.Filter = cmp.Or(m.Filter, source.Filter)
	if m.Select == nil {
		m.Select = source.Select
	}
	return m
}

// JSON returns the content of manifest.json. It shortens m.List if the content would otherwise be longer than [MaxManifest].
func (m Manifest) JSON(id ExportID) []byte {
	m.preamble = preamble{format, version, id}
	for {
		text := withChecksum(m)
		if len(text) <= MaxManifest || len(m.List) == 0 {
			return text
		}
		m.List, m.More = slices.Clone(m.List[:len(m.List)*3/4]), true
	}
}

// ParseManifest reads a manifest.
func ParseManifest(text []byte) (m Manifest, err error) {
	if err := parse(ManifestName, format, text, &m); err != nil {
		return m, err
	}
	if m.Encoding.Format != "jsonl" || !slices.Contains(Compressions, m.Encoding.Compress) {
		return m, fmt.Errorf("%s: this program does not know the format %q with the compression %q", ManifestName, m.Encoding.Format, m.Encoding.Compress)
	}
	return m, nil
}

// asJSON returns a value's JSON, and a line end. It does not escape <, > and &.
func asJSON(v any) []byte {
	var b bytes.Buffer
	if err := lines.JSON(&b).Encode(v); err != nil {
		panic("place: internal error: " + err.Error())
	}
	return b.Bytes()
}

const hashDigits = 16

// shortHash returns the first 16 hex digits of a SHA-256.
func shortHash(b []byte) string { return hashOf(b)[:hashDigits] }

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// page collects rows as JSON lines until they are encoded.
type page struct {
	text        []byte
	rows        int64
	first, last key.Key
	properties  Properties

	columns     []storage.Column // the columns of the last row
	sameColumns int64            // how many rows at the page's end have these columns; these rows are not yet counted in properties
}

// add appends a row, which must follow the page's rows in table order. If the page is full, add appends nothing and returns false. If `timestamp` is
// set, the line contains the row's Timestamp.
func (p *page) add(row storage.Row, timestamp bool) bool {
	if p.rows == storage.PageRows {
		return false
	}
	before := len(p.text)
	p.text = append(p.text, row.JSON()...)
	if timestamp {
		if at := row.Timestamp(); !at.IsZero() {
			p.text = append(p.text[:len(p.text)-1], `,"Timestamp@odata.type":"Edm.DateTime","Timestamp":`...)
			p.text = append(append(p.text, storage.TimeProperty("", at).Value...), '}')
		}
	}
	p.text = append(p.text, '\n')
	if len(p.text) > pageBytes && before > 0 {
		p.text = p.text[:before]
		return false
	}
	if p.rows == 0 {
		p.first = row.Key
	}
	p.last = row.Key
	p.rows++
	if !sameList(row.Columns, p.columns) {
		p.countColumns()
		p.columns = row.Columns
	}
	p.sameColumns++
	return true
}

// sameList reports whether two rows share one list of columns, as adjacent rows of a page do.
func sameList(a, b []storage.Column) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (p *page) countColumns() {
	for _, one := range p.columns {
		p.properties.count(one.Name, one.Type.String(), p.sameColumns)
	}
	p.sameColumns = 0
}

// FileDraft collects the rows of a data file. Make it with [NewFile].
type FileDraft struct {
	*Pages
	file    File
	content []byte
}

// NewFile returns an empty file. [FileDraft.End] completes it.
func NewFile(c *Codec) *FileDraft {
	d := &FileDraft{}
	d.Pages = &Pages{codec: c, take: func(p *page, _ bool) error {
		d.append(p)
		return nil
	}}
	return d
}

// Held returns the maximum number of bytes of memory that the draft uses, including the copy that
// is made when the content grows.
func (d *FileDraft) Held() int64 { return d.heldBytes() + int64(2*cap(d.content)-len(d.content)) }

// heldBytes returns how many bytes of memory the draft's pages use, encoded or not.
func (d *FileDraft) heldBytes() int64 {
	bytes := cap(d.page.text) + len(d.content)
	for _, c := range d.coming {
		bytes += c.json
	}
	return int64(bytes)
}

// Text returns the number of bytes of JSON in the draft.
func (d *FileDraft) Text() int { return d.json + len(d.page.text) }

func (d *FileDraft) append(p *page) {
	f := &d.file
	if f.Rows == 0 {
		f.First = Key{p.first.Partition, p.first.Row}
	}
	f.Last = Key{p.last.Partition, p.last.Row}
	f.Rows += p.rows
	f.Bytes += int64(len(p.text))
	f.Pages = append(f.Pages, PageMark{int64(len(p.text)), shortHash(p.text)})
	f.Properties.add(p.properties)
	d.content = append(d.content, p.text...)
}

func dataName(order, hash string, c *Codec) string {
	return DataPrefix + order + "-" + hash[:min(len(hash), hashDigits)] + ".jsonl" + exts[c.compress]
}

// End returns the file's line for files.jsonl, and the file's content. The file's name in the data directory begins with
// `order`: six digits or a step's id. After End, the draft is empty, and its next page overwrites the returned content.
func (d *FileDraft) End(order string) (f File, content []byte) {
	f, content = d.file, d.content
	f.SHA256 = hashOf(content)
	f.Path = dataName(order, f.SHA256, d.codec)
	d.file, d.content = File{}, content[:0]
	return f, content
}

// Seal collects what the manifest contains about an export's files.
type Seal struct {
	sum         hash.Hash
	last        *key.Key
	files       int
	rows, bytes int64
	properties  Properties
}

// Add adds a file and returns its line of files.jsonl. It fails if the file does not follow the last added file in table order.
func (s *Seal) Add(f File) ([]byte, error) {
	if s.last != nil && s.last.Compare(f.First.Key()) >= 0 {
		return nil, fmt.Errorf("the first key of %s is not greater than the last key of the file before it", f.Path)
	}
	if s.sum == nil {
		s.sum = sha256.New()
	}
	last, line := f.Last.Key(), asJSON(f)
	s.sum.Write(line)
	s.last, s.files, s.rows, s.bytes = &last, s.files+1, s.rows+f.Rows, s.bytes+f.Bytes
	s.properties.add(f.Properties)
	return line, nil
}

// Manifest adds the facts about the files and the rows to m, and returns the result.
func (s *Seal) Manifest(m Manifest) Manifest {
	if s.sum == nil {
		s.sum = sha256.New()
	}
	m.Files = FilesSum{s.files, hex.EncodeToString(s.sum.Sum(nil))}
	m.Rows, m.Bytes, m.Properties = s.rows, s.bytes, s.properties
	return m
}

// Last returns the key of the last row, or nil.
func (s *Seal) Last() *key.Key { return s.last }
