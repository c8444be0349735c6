package place

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strings"
	"time"

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

	// MaxManifest is how many bytes a manifest, and a claim, have at most.
	MaxManifest = 64 << 10
	// fileBytes is how much JSON ends a data file of the command line.
	fileBytes = 64 << 20

	maxProperties = 300
	pageBytes     = 4 << 20  // of JSON that a page has, unless a single row has more
	maxPage       = 16 << 20 // bytes of any page, encoded and decoded
)

// head begins the claim and the manifest.
type head struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	ID      string `json:"id"`
}

func (h head) check(name string) error {
	switch {
	case h.Format != format:
		return fmt.Errorf("%s is not that of an export: its format is %.40q, want %q", name, h.Format, format)
	case h.Version < 1 || h.Version > version:
		return fmt.Errorf("%s has version %d; this program knows version %d", name, h.Version, version)
	}
	return nil
}

// Claim is what export.json says.
type Claim struct {
	head
	Request   json.RawMessage `json:"request,omitempty"` // what made the export, and can go on with it
	StartedAt time.Time       `json:"startedAt"`         // by the service's clock
	Source    *Manifest       `json:"source,omitempty"`  // of the export that the app reads, without files and properties
	Program   string          `json:"program"`
}

// NewClaim returns the claim of an export with an id.
func NewClaim(id string, request json.RawMessage, startedAt time.Time, program string) Claim {
	return Claim{head: head{format, version, id}, Request: request, StartedAt: startedAt, Program: program}
}

// JSON returns the object's content.
func (c Claim) JSON() []byte { return asJSON(c) }

// parseClaim reads a claim.
func parseClaim(text []byte) (c Claim, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", ClaimName, err)
	}
	return c, c.check(ClaimName)
}

// Key is a row's key in an export's objects.
type Key struct {
	PartitionKey string
	RowKey       string
}

func (k Key) key() key.Key { return key.Key{Partition: k.PartitionKey, Row: k.RowKey} }

// PageMark is a page of a file: its length as it is encoded, and the first 16 hex digits of the SHA-256 of that.
type PageMark struct {
	Bytes int64
	Hash  string
}

// MarshalJSON writes the mark as a list of two.
func (p PageMark) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.Bytes, p.Hash}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PageMark) UnmarshalJSON(text []byte) error {
	pair := []any{&p.Bytes, &p.Hash}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || p.Bytes < 1 || p.Bytes > maxPage || len(p.Hash) != hashDigits {
		return fmt.Errorf("a page is %.80s, want its bytes, at most %d, and the hash", text, maxPage)
	}
	return nil
}

// Property is a property's name, with the number of rows that have it, by type.
type Property struct {
	Name  string           `json:"name"`
	Types map[string]int64 `json:"types"`
}

// Properties count the properties of rows, in the order in which they appear: at most 300 names.
type Properties struct {
	List []Property `json:"properties,omitempty"`
	More bool       `json:"moreProperties,omitempty"` // not all are listed, or some were not counted in all rows

	index map[string]int // of List
}

func (p *Properties) add(name, kind string, rows int64) {
	if len(p.index) != len(p.List) || p.index == nil {
		p.index = map[string]int{}
		for i, one := range p.List {
			p.index[one.Name] = i
		}
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

// Count adds a row's properties.
func (p *Properties) Count(row storage.Entity) {
	for _, one := range row.Properties {
		p.add(one.Name, one.Type.String(), 1)
	}
}

// Add adds those of other rows, which follow in table order.
func (p *Properties) Add(other Properties) {
	for _, one := range other.List {
		for kind, rows := range one.Types { // the order of names does not depend on that of types
			p.add(one.Name, kind, rows)
		}
	}
	p.More = p.More || other.More
}

// File is a line of files.jsonl: a data file.
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
		err = errors.New("its rows and bytes are not those of its pages")
	case f.First.key().Compare(f.Last.key()) > 0:
		err = errors.New("its first key is behind its last one")
	case !safeName(f.Path):
		err = fmt.Errorf("its path %.200q is not one of a data file", f.Path)
	}
	return f, err
}

// safeName reports whether a path is that of an object of our own making: it leads nowhere else.
func safeName(path string) bool {
	name, ok := strings.CutPrefix(path, DataPrefix)
	for _, c := range name {
		ok = ok && (c == '-' || c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	return ok && name != "" && name[0] != '.'
}

// leftover matches the names of data files that this program makes, and of those that are not whole. What else stands there
// is somebody else's, even another export.
var leftover = regexp.MustCompile(`^data/[0-9a-z]+-[0-9a-f]{16}\.jsonl(\.zst|\.gz)?(\.part)?$`)

// Leftover reports whether an object may be deleted if files.jsonl does not have it.
func Leftover(name string) bool { return leftover.MatchString(name) }

// Manifest is what manifest.json says. Rows that were written between both times may or may not be in the export, which is
// no snapshot.
type Manifest struct {
	head
	Table      string        `json:"table"`
	Account    string        `json:"account"`
	Range      *key.Bounds   `json:"range,omitempty"`
	Filter     string        `json:"filter,omitempty"`
	Select     []string      `json:"select,omitempty"`
	Since      *time.Time    `json:"since,omitempty"`
	StartedAt  time.Time     `json:"startedAt"`
	FinishedAt time.Time     `json:"finishedAt"`
	Rows       int64         `json:"rows"`
	Bytes      int64         `json:"bytes"` // of the data files
	Files      FilesSum      `json:"files"`
	Encoding   EncodingNames `json:"encoding"`
	Properties
	Program string `json:"program"`
}

// FilesSum is the number of data files, and the SHA-256 of files.jsonl.
type FilesSum struct {
	Count  int    `json:"count"`
	SHA256 string `json:"sha256"`
}

// EncodingNames say how rows are encoded.
type EncodingNames struct {
	Format   string   `json:"format"` // jsonl
	Compress Compress `json:"compress"`
}

// Of returns the manifest of an export whose rows come from another export: what that was asked for limits this one, too.
func (m Manifest) Of(source Manifest) Manifest {
	m.Table, m.Account, m.Since = source.Table, source.Account, source.Since
	m.StartedAt, m.FinishedAt = source.StartedAt, source.FinishedAt
	switch {
	case source.Range == nil:
	case m.Range == nil:
		m.Range = source.Range
	default:
		both := source.Range.And(*m.Range)
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

// JSON returns the object's content. It leaves out properties that there is no room for.
func (m Manifest) JSON(id string) []byte {
	m.head = head{format, version, id}
	for {
		text := asJSON(m)
		if len(text) <= MaxManifest || len(m.List) == 0 {
			return append(text, '\n')
		}
		m.List, m.More = slices.Clone(m.List[:len(m.List)*3/4]), true
	}
}

// ParseManifest reads a manifest.
func ParseManifest(text []byte) (m Manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", ManifestName, err)
	}
	if err := m.check(ManifestName); err != nil {
		return m, err
	}
	if m.Encoding.Format != "jsonl" || !slices.Contains(Compressions, m.Encoding.Compress) {
		return m, fmt.Errorf("%s: this program does not know the encoding %q, %q", ManifestName, m.Encoding.Format, m.Encoding.Compress)
	}
	return m, nil
}

// asJSON returns the JSON of a value of our own, with <, > and & as they are.
func asJSON(v any) []byte {
	text, err := marshal(v)
	if err != nil {
		panic("place: internal error: " + err.Error())
	}
	return text
}

const hashDigits = 16

// shortHash returns the first 16 hex digits of a SHA-256.
func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:hashDigits/2])
}

// Page is an encoded page.
type Page struct {
	Text        []byte // encoded
	hash        string
	rows        int64
	first, last key.Key
}

// Draft collects a page's rows. The zero value is empty.
type Draft struct {
	text        []byte
	rows        int64
	first, last key.Key
}

// Add appends a row, which must be behind the last one in table order. It reports false, and adds nothing, if the page
// is full. A Timestamp is a member of the line, if one is wanted.
func (d *Draft) Add(row storage.Entity, timestamp bool) bool {
	if d.rows == storage.PageRows {
		return false
	}
	before := len(d.text)
	d.text = row.AppendJSON(d.text)
	if timestamp && !row.Timestamp.IsZero() {
		d.text = append(d.text[:len(d.text)-1], `,"Timestamp@odata.type":"Edm.DateTime","Timestamp":`...)
		d.text = append(append(d.text, storage.TimeProperty("", row.Timestamp).Value...), '}')
	}
	d.text = append(d.text, '\n')
	if len(d.text) > pageBytes && before > 0 {
		d.text = d.text[:before]
		return false
	}
	if d.rows == 0 {
		d.first = row.Key
	}
	d.last = row.Key
	d.rows++
	return true
}

// Bytes returns how much JSON the draft has.
func (d *Draft) Bytes() int { return len(d.text) }

// Encode makes a page of the draft.
func (d *Draft) Encode(c *Codec) Page {
	text := c.Encode(d.text)
	return Page{text, shortHash(text), d.rows, d.first, d.last}
}

// FileDraft collects the pages of a data file. The zero value is empty.
type FileDraft struct {
	file  File
	parts [][]byte
}

// Add appends a page.
func (f *FileDraft) Add(p Page) {
	if f.file.Rows == 0 {
		f.file.First = Key{p.first.Partition, p.first.Row}
	}
	f.file.Last = Key{p.last.Partition, p.last.Row}
	f.file.Rows += p.rows
	f.file.Bytes += int64(len(p.Text))
	f.file.Pages = append(f.file.Pages, PageMark{int64(len(p.Text)), p.hash})
	f.parts = append(f.parts, p.Text)
}

// dataName returns the name of a data file with a hash.
func dataName(order, hash string, c *Codec) string {
	return DataPrefix + order + "-" + hash[:min(len(hash), hashDigits)] + ".jsonl" + c.compress.ext()
}

// End returns the line of the file, and its content. order begins the file's name: six digits, or a step's id.
func (f *FileDraft) End(order string, c *Codec, p Properties) (File, [][]byte) {
	sum := sha256.New()
	for _, part := range f.parts {
		sum.Write(part)
	}
	f.file.SHA256 = hex.EncodeToString(sum.Sum(nil))
	f.file.Path = dataName(order, f.file.SHA256, c)
	f.file.Properties = p
	return f.file, f.parts
}

// Seal sums up an export's files, which are added in table order.
type Seal struct {
	sum         hash.Hash
	last        *key.Key
	files       int
	rows, bytes int64
	properties  Properties
}

// Add adds a file and returns its line of files.jsonl. It fails if the file does not lie behind the last one.
func (s *Seal) Add(f File) ([]byte, error) {
	if s.last != nil && s.last.Compare(f.First.key()) >= 0 {
		return nil, fmt.Errorf("%s does not lie behind the file before it", f.Path)
	}
	if s.sum == nil {
		s.sum = sha256.New()
	}
	last, line := f.Last.key(), append(asJSON(f), '\n')
	s.sum.Write(line)
	s.last, s.files, s.rows, s.bytes = &last, s.files+1, s.rows+f.Rows, s.bytes+f.Bytes
	s.properties.Add(f.Properties)
	return line, nil
}

// Manifest returns the manifest with what it says of the files and the rows.
func (s *Seal) Manifest(m Manifest) Manifest {
	if s.sum == nil {
		s.sum = sha256.New()
	}
	m.Files = FilesSum{s.files, hex.EncodeToString(s.sum.Sum(nil))}
	m.Rows, m.Bytes, m.Properties = s.rows, s.bytes, s.properties
	return m
}

// Last returns the key of the last row, nil if there is none.
func (s *Seal) Last() *key.Key { return s.last }
