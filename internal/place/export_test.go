package place_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

var began = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

// newClaim returns the claim of all exports in these tests.
func newClaim() place.Claim { return place.NewClaim("id", []byte(`{"command":"copy"}`), began, "test") }

// row parses a row's JSON.
func row(t testing.TB, text string) storage.Entity {
	t.Helper()
	rows, err := storage.ParseLines([]byte(text))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%s: got %d rows, error %v", text, len(rows), err)
	}
	return rows[0].Entity()
}

// oddRows returns rows in table order, whose keys sort differently from Go's strings.
func oddRows(t testing.TB, n int) []storage.Entity {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("ab'%/?😀\ue000\ufffd")
	word := func() string {
		w := make([]rune, r.IntN(3))
		for i := range w {
			w[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(w)
	}
	seen := map[key.Key]bool{}
	var rows []storage.Entity
	for len(rows) < n {
		e := row(t, fmt.Sprintf(`{"PartitionKey":"","RowKey":"","N":%d,"D@odata.type":"Edm.Double","D":3.0,"S":"\u0001é😀%s","T@odata.type":"Edm.DateTime","T":"2026-01-01T00:00:00.1234567Z"}`, r.IntN(100), strings.Repeat("x", r.IntN(50))))
		e.Key = key.Key{Partition: word(), Row: word() + fmt.Sprint(r.IntN(200))}
		if !seen[e.Key] {
			seen[e.Key] = true
			rows = append(rows, e)
		}
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

// write makes an export of rows in batches, and returns its directory.
func write(t testing.TB, rows []storage.Entity, o place.Options, batch int) place.Directory {
	t.Helper()
	dir := place.Directory(filepath.Join(t.TempDir(), "orders"))
	w, err := place.Create(t.Context(), dir, newClaim(), o)
	proof.Must(t, err)
	finish(t, w, rows, o, batch)
	return dir
}

func finish(t testing.TB, w *place.Writer, rows []storage.Entity, o place.Options, batch int) {
	t.Helper()
	var err error
	for some := range slices.Chunk(rows, batch) {
		err = errors.Join(err, w.Add(storage.Rows(some)))
	}
	proof.Must(t, completeExport(t, w, err, manifest(o)))
}

// completeExport ends an export after rows were added with the given error.
func completeExport(t testing.TB, w *place.Writer, err error, m place.Manifest) error {
	t.Helper()
	if err = w.End(err); err == nil {
		_, err = w.Complete(t.Context(), m)
	}
	return err
}

func manifest(o place.Options) place.Manifest {
	return place.Manifest{
		Table: "orders", Account: "acme", StartedAt: began, FinishedAt: began.Add(time.Second), Program: "test",
		Encoding: place.EncodingNames{Format: "jsonl", Compress: o.Compress},
	}
}

func linesOf(rows []storage.Entity) string {
	var text []byte
	for _, r := range rows {
		text = append(r.AppendJSON(text), '\n')
	}
	return string(text)
}

// An export answers any query like the sorted rows, whatever its files and pages.
func TestExportAnswersQueriesLikeATable(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := oddRows(t, 2200)
	for _, c := range place.Compressions {
		dir := write(t, rows, place.Options{Compress: c, FileBytes: 200_000}, 777)
		e, err := place.Open(t.Context(), dir)
		proof.Must(t, err)
		r := rand.New(rand.NewPCG(3, 4))
		bound := func() *key.Bound {
			k := rows[r.IntN(len(rows))].Key
			return &key.Bound{Key: k.Partition, Open: r.IntN(2) == 0}
		}
		for i := range testsize.Of(12, 100) {
			q := storage.Query{Top: []int{0, 1000, 333, 50}[r.IntN(4)]}
			if p := rows[r.IntN(len(rows))].Key; i%2 == 0 {
				q.Range = key.Range{Partition: &p.Partition, Low: &key.Bound{Key: p.Row, Open: r.IntN(2) == 0}}
			} else if q.Range.Low = bound(); r.IntN(2) == 0 {
				q.Range.High = bound()
			}
			var want []storage.Entity
			for _, one := range rows {
				if q.Range.Contains(one.Key) {
					want = append(want, one)
				}
			}
			if i%5 == 0 {
				q.Filter, q.Select = "N ge 50 and T lt datetime'2027-01-01' and D eq 3.0", []string{"N"}
				want = slices.DeleteFunc(slices.Clone(want), func(e storage.Entity) bool { return e.Int("N") < 50 })
				for i := range want {
					want[i].Properties = want[i].Properties[:1]
				}
			}
			for name, from := range map[string]storage.Source{"export": e, "rows": place.Rows(storage.Rows(rows))} {
				got, err := emulatortest.All(t.Context(), from, q)
				if err != nil {
					t.Fatalf("%s, query %+v: got error %v", name, q, err)
				}
				if linesOf(want) != linesOf(got) {
					t.Fatalf("%s %+v: got %d rows, want %d:\n%s", name, q, len(got), len(want), cmp.Diff(linesOf(want), linesOf(got)))
				}
			}
		}
		if n, err := emulatortest.All(t.Context(), e, storage.Query{Select: []string{}}); err != nil || len(n) != len(rows) {
			t.Errorf("got %d keys, error %v", len(n), err)
		}
	}
}

// Several processes can make an export together: each file may be made by another process, and one process adds all files to the Seal.
func TestSeveralProcessesMakeAnExport(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 2600)
	dir := place.Directory(t.TempDir())
	c, err := place.NewCodec(place.Zstd)
	proof.Must(t, err)
	put := func(name string, content []byte) {
		if made, err := dir.Put(t.Context(), name, content); err != nil || !made {
			t.Fatalf("put %s: made %v, error %v", name, made, err)
		}
	}
	put(place.ClaimName, newClaim().JSON())
	var lines [][]byte
	for part := range slices.Chunk(rows, 1300) {
		file := place.NewFile(c)
		proof.Must(t, file.Add(storage.Rows(part)), file.Pages.End(nil))
		f, content := file.End(fmt.Sprintf("step%d", len(lines)))
		put(f.Path, content)
		if made, err := dir.Put(t.Context(), f.Path, []byte("other")); made || err != nil {
			t.Error("an object was replaced", err)
		}
		lines = append(lines, asLine(t, f))
	}
	var seal place.Seal
	var index []byte
	for _, line := range lines {
		f, err := place.ParseFile(line)
		proof.Must(t, err)
		one, err := seal.Add(f)
		proof.Must(t, err)
		index = append(index, one...)
		if _, err := seal.Add(f); err == nil {
			t.Error("a file was added twice")
		}
	}
	put(place.FilesName, index)
	put(place.ManifestName, seal.Manifest(manifest(place.Options{Compress: place.Zstd})).JSON("id"))
	e, err := place.Open(t.Context(), dir)
	proof.Must(t, err)
	if got, err := emulatortest.All(t.Context(), e, storage.Query{}); err != nil || linesOf(got) != linesOf(rows) {
		t.Errorf("got %d rows, error %v", len(got), err)
	}
	if c, err := place.ClaimOf(t.Context(), dir); err != nil || !c.StartedAt.Equal(began) {
		t.Errorf("got the claim %+v, error %v", c, err)
	}
}

// asLine returns a file's line as Seal writes it.
func asLine(t *testing.T, f place.File) []byte {
	t.Helper()
	var seal place.Seal
	line, err := seal.Add(f)
	proof.Must(t, err)
	return bytes.TrimSpace(line)
}

// content reads all objects.
func content(t testing.TB, from place.Objects) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := from.List(t.Context(), "", func(name string, bytes int64) error {
		text, err := from.Get(t.Context(), name, 0, bytes)
		all[name] = string(text)
		return err
	})
	proof.Must(t, err)
	return all
}

// directory makes a directory of objects.
func directory(t testing.TB, files map[string]string) place.Directory {
	t.Helper()
	dir := place.Directory(t.TempDir())
	for name, text := range files {
		_, err := dir.Put(t.Context(), name, []byte(text))
		proof.Must(t, err)
	}
	return dir
}

// TestStoredFormat checks the stored form of an export. If the form changes, other versions cannot read the export, so the version must change as
// well.
func TestStoredFormat(t *testing.T) {
	t.Parallel()
	rows := []storage.Entity{
		row(t, `{"PartitionKey":"<a>","RowKey":"","N":1,"D":2.5}`),
		row(t, `{"PartitionKey":"b","RowKey":"é","N@odata.type":"Edm.Int64","N":"5"}`),
	}
	got := content(t, write(t, rows, place.Options{Compress: place.None}, 1))
	const name = "data/000000-39f6ea36cae36460.jsonl"
	want := map[string]string{
		"export.json": `{"format":"tablesweep-export","version":1,"id":"id","request":{"command":"copy"},"startedAt":"2026-11-23T10:00:00Z","program":"test","proof":"ecb9"}` + "\n",
		name: `{"PartitionKey":"<a>","RowKey":"","N":1,"D@odata.type":"Edm.Double","D":2.5}` + "\n" +
			`{"PartitionKey":"b","RowKey":"é","N@odata.type":"Edm.Int64","N":"5"}` + "\n",
		"files.jsonl": `{"path":"` + name + `","rows":2,"bytes":147,"sha256":"","first":{"PartitionKey":"<a>","RowKey":""},"last":{"PartitionKey":"b","RowKey":"é"},"pages":[[147,"39f6ea36cae36460"]],` +
			`"properties":[{"name":"N","types":{"Edm.Int32":1,"Edm.Int64":1}},{"name":"D","types":{"Edm.Double":1}}]}` + "\n",
		"manifest.json": `{"format":"tablesweep-export","version":1,"id":"id","table":"orders","account":"acme","startedAt":"2026-11-23T10:00:00Z","finishedAt":"2026-11-23T10:00:01Z","rows":2,"bytes":147,` +
			`"files":{"count":1,"sha256":""},"encoding":{"format":"jsonl","compress":"none"},"properties":[{"name":"N","types":{"Edm.Int32":1,"Edm.Int64":1}},{"name":"D","types":{"Edm.Double":1}}],"program":"test","proof":"0525"}` + "\n",
	}
	full := regexp.MustCompile(`"(proof":"....)[0-9a-f]{60}"`)
	for n, text := range got { // shortens hashes, because full hashes would show nothing more
		text = full.ReplaceAllString(text, `"$1"`)
		got[n] = text
		if at := strings.Index(text, `"sha256":"`); at >= 0 {
			got[n] = text[:at+10] + text[at+74:]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// stored are objects in memory.
type stored map[string]string

func (s stored) Put(context.Context, string, []byte) (bool, error) {
	return false, errors.ErrUnsupported
}
func (s stored) Delete(context.Context, string) error { return errors.ErrUnsupported }
func (s stored) Address() string                      { return "memory" }
func (s stored) Parents() []place.Objects             { return nil }

func (s stored) List(_ context.Context, prefix string, fn func(string, int64) error) error {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(name, prefix) {
			if err := fn(name, int64(len(s[name]))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s stored) Get(_ context.Context, name string, offset, most int64) ([]byte, error) {
	text, ok := s[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	text = text[min(offset, int64(len(text))):]
	return []byte(text[:min(most, int64(len(text)))]), nil
}

// An export with a changed byte is refused, or its rows are unchanged.
func TestChangedBytesAreRefused(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := oddRows(t, 25)
	want := linesOf(rows)
	step := testsize.Slow(29, 5, 1)
	for _, c := range place.Compressions {
		objects := stored(content(t, write(t, rows, place.Options{Compress: c, FileBytes: 2000}, 7)))
		tried, refused := 0, 0
		for name, text := range objects {
			for i := 0; i < len(text); i += step {
				tried++
				bad := []byte(text)
				bad[i] ^= byte(1 << (i % 8))
				objects[name] = string(bad)
				var got []storage.Entity
				e, err := place.Open(t.Context(), objects)
				if err == nil {
					got, err = emulatortest.All(t.Context(), e, storage.Query{})
				}
				if name == place.ClaimName {
					_, err = place.ClaimOf(t.Context(), objects)
				}
				if (name == place.ClaimName || name == place.ManifestName) && err == nil {
					t.Errorf("%s byte %d: the changed object was accepted: %s", name, i, bad)
				}
				if err != nil {
					refused++
					if name != place.ClaimName && !strings.HasPrefix(want, linesOf(got)) {
						t.Errorf("%s byte %d: rows before the error are wrong", name, i)
					}
				} else if linesOf(got) != want {
					t.Errorf("%s byte %d: rows have changed, but there was no error", name, i)
				}
			}
			objects[name] = text
		}
		if refused < tried/2 {
			t.Errorf("%s: only %d of %d changes were refused", c, refused, tried)
		}
	}
}

// A page ends at 1,000 rows or 4 MiB. A larger row is a page of its own.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	var rows []storage.Entity
	for i, n := range []int{10, 3 << 20, 3 << 20, 6 << 20, 5} {
		rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprint(i)}, Properties: []storage.Property{storage.StringProperty("S", strings.Repeat("x", n))}})
	}
	dir := write(t, rows, place.Options{Compress: place.Zstd}, 2)
	e, err := place.Open(t.Context(), dir)
	proof.Must(t, err)
	q := storage.Query{}
	for _, want := range []int{2, 1, 1, 1} {
		p, _, err := e.Read(t.Context(), storage.RequestOptions{}, q)
		if err != nil || len(p.Rows) != want {
			t.Fatalf("got %d rows, error %v, want %d", len(p.Rows), err, want)
		}
		q.Token = p.Next
	}
	if m := e.Manifest(); m.Rows != 5 || m.List[0].Types["Edm.String"] != 5 {
		t.Errorf("got the manifest %+v, want 5 rows with 5 texts", m)
	}
}

// A manifest is small, however many properties the rows have.
func TestManyProperties(t *testing.T) {
	t.Parallel()
	c, err := place.NewCodec(place.None)
	proof.Must(t, err)
	file := place.NewFile(c)
	for i := range 400 {
		one := storage.Entity{Key: key.Key{Row: fmt.Sprintf("%03d", i)}, Properties: []storage.Property{storage.StringProperty(fmt.Sprintf("%0250d", i), "")}}
		err = errors.Join(err, file.Add(storage.Rows([]storage.Entity{one})))
	}
	proof.Must(t, err, file.Pages.End(nil))
	f, _ := file.End("x")
	all := f.Properties
	m := place.Manifest{Properties: all, Encoding: place.EncodingNames{Format: "jsonl", Compress: place.None}}
	text := m.JSON("id")
	back, err := place.ParseManifest(text)
	if err != nil || len(text) > place.MaxManifest || !back.More || len(back.List) == 0 || len(all.List) != 300 {
		t.Errorf("the manifest has %d bytes and %d of %d properties, error %v", len(text), len(back.List), len(all.List), err)
	}
	if !bytes.Contains(text, []byte(`"moreProperties":true`)) {
		t.Error("the manifest does not show that there are more properties")
	}
}
