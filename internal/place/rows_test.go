package place_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/file"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

func entities(rows place.Rows) []storage.Entity { return storage.Page{Rows: rows}.Entities() }

// Windows divides rows in any order into sorted windows. The last row with a key wins, and a merge keeps properties that only an earlier row has.
func TestWindows(t *testing.T) {
	t.Parallel()
	in := "\ufeff" + `{"RowKey":"2","PartitionKey":"b","N":1,"L":"4","L@odata.type":"Edm.Int64","odata.etag":"x"}` + "\r\n\n" + `{"PartitionKey":"a","RowKey":"1","D":"3","D@odata.type":"Edm.Double"}` + "\n" +
		`{"PartitionKey":"b","RowKey":"2","N":2}` + "\n" + `{"PartitionKey":"b","RowKey":"2","N":3}`
	for merge, last := range map[bool]string{false: `"N":3}`, true: `"N":3,"L@odata.type":"Edm.Int64","L":"4"}`} {
		calls := 0
		err := place.Windows(place.JSONLines(strings.NewReader(in)), merge, nil, func(rows place.Rows, repeated int) error {
			calls++
			want := `{"PartitionKey":"a","RowKey":"1","D@odata.type":"Edm.Double","D":"3"}` + "\n" + `{"PartitionKey":"b","RowKey":"2",` + last + "\n"
			if diff := cmp.Diff(want, linesOf(entities(rows))); diff != "" {
				t.Errorf("merge %v (-want +got):\n%s", merge, diff)
			}
			if repeated != 2 {
				t.Errorf("merge %v: got %d repeated rows", merge, repeated)
			}
			return nil
		})
		if err != nil || calls != 1 {
			t.Errorf("got %d windows, error %v", calls, err)
		}
	}
	var many strings.Builder
	for i := range 120_000 {
		many.WriteString(`{"PartitionKey":"` + strconv.Itoa(i*7919%120_000) + `","RowKey":""}` + "\n")
	}
	var sizes []int
	err := place.Windows(place.JSONLines(strings.NewReader(many.String())), false, nil, func(rows place.Rows, _ int) error {
		sizes = append(sizes, len(rows))
		return nil
	})
	if diff := cmp.Diff([]int{50_000, 50_000, 20_000}, sizes); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// The error for a line that is not a row contains the line's number.
func TestWindowsRefuse(t *testing.T) {
	t.Parallel()
	const good = `{"PartitionKey":"a","RowKey":"1"}` + "\n"
	for text, want := range map[string]string{
		good + "\nnonsense":                                                     "line 3 is not a row: column 2: invalid",
		good + `{"PartitionKey":"a"}`:                                           "a row lacks a key",
		good + `{"PartitionKey":1,"RowKey":"1"}`:                                "line 2 is not a row",
		good + `{"PartitionKey":"a","RowKey":"1","N":`:                          "line 2 is not a row",
		good + `{"PartitionKey":"a","RowKey":"1"} {}`:                           "line 2 is not a row",
		good + `{"PartitionKey":"\ud800","RowKey":"1"}`:                         "is not valid Unicode",
		`{"PartitionKey":"a","PartitionKey":"b","RowKey":"1"}`:                  "duplicate",
		good + good + "{\"PartitionKey\":\"a\",\"RowKey\":\"1\",\"Caf\xe9\":1}": "line 3 is not a row: it is not UTF-8",
		good + strings.Repeat(" ", 8<<20+1):                                     "line 2 is longer than 8388608 bytes",
		"PartitionKey,RowKey\n":                                                 "line 1 is not a row",
	} {
		err := place.Windows(place.JSONLines(strings.NewReader(text)), false, nil, func(place.Rows, int) error { return errors.New("used") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", text, err, want)
		}
	}
}

// JSON that is not in lines has another error than a line that was cut off. A value that a table would change makes only its own row fail.
func TestJSONThatIsNotLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`[{"PartitionKey":"a","RowKey":"1"}]`: place.ErrArray, "[\n{": place.ErrArray, "{\n\"PartitionKey\":\"a\",\n\"RowKey\":\"1\"\n}": place.ErrSpread, "{\"PartitionKey\":\"a\",\n\"RowKey\":\"1\"}": place.ErrSpread,
		`{"PartitionKey":"a",`: io.ErrUnexpectedEOF,
	} {
		err := place.Windows(place.JSONLines(strings.NewReader(text)), false, nil, func(place.Rows, int) error { return errors.New("used") })
		if !errors.Is(err, want) || errors.Is(err, place.ErrSpread) != (want == place.ErrSpread) {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
	}
	const lines = `{"PartitionKey":"a","RowKey":"1","N":99999999999999999999}` + "\n" + `{"PartitionKey":"a","RowKey":"2","N":9007199254740993}` + "\n"
	var bad []string
	err := place.Windows(place.JSONLines(strings.NewReader(lines)), false, func(line *place.BadLine) error {
		bad = append(bad, line.Key.Row+" "+line.Error())
		return nil
	}, func(rows place.Rows, _ int) error {
		if got, want := linesOf(entities(rows)), `{"PartitionKey":"a","RowKey":"2","N@odata.type":"Edm.Int64","N":"9007199254740993"}`+"\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
	if err != nil || len(bad) != 1 || !strings.HasPrefix(bad[0], "1 line 1 is not a row: N must be a whole number of 64 bits") {
		t.Errorf("got the defects %q, error %v", bad, err)
	}
}

// If reading fails in the middle of a line, the error is the reading error, and not one about the incomplete line.
func TestReadErrorEndsWindows(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	text := io.MultiReader(strings.NewReader(`{"PartitionKey":"a","RowKey":"1"}`+"\n"+`{"Part`), iotest.ErrReader(cut))
	err := place.Windows(place.JSONLines(text), false, nil, func(place.Rows, int) error { return errors.New("used") })
	if !errors.Is(err, cut) || !strings.Contains(err.Error(), "at line ") {
		t.Errorf("got %v", err)
	}
}

// A file's name decides its compression. Written files can be read, and files that were cut off are refused.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 2500)
	for _, name := range []string{"a.jsonl", "a.ndjson.gz", "A.JSONL.ZST"} {
		path := filepath.Join(t.TempDir(), name)
		create := func() error {
			return file.PathAt(path).Create(func(w io.Writer) error {
				c, err := place.NewCodec(place.CompressOf(path))
				if err != nil {
					return err
				}
				pages := place.NewStream(w, c, false)
				return pages.End(pages.Add(storage.Rows(rows)))
			})
		}
		proof.Must(t, create())
		if err := create(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got error %v for an existing file", err)
		}
		read := func() (string, error) {
			f, err := place.OpenFile(t.Context(), path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			var all []storage.Entity
			err = place.Windows(place.JSONLines(f), false, nil, func(rows place.Rows, _ int) error {
				all = append(all, entities(rows)...)
				return nil
			})
			return linesOf(all), err
		}
		if got, err := read(); err != nil || got != linesOf(rows) {
			t.Errorf("%s: got %d bytes, error %v", name, len(got), err)
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, text[:len(text)-20], 0o600)
		}
		proof.Must(t, err)
		if _, err := read(); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("%s, cut off: got error %v", name, err)
		}
	}
}

// An error of the rows ends the pages. A full disk causes an error.
func TestStreamErrors(t *testing.T) {
	t.Parallel()
	c, err := place.NewCodec(place.None)
	proof.Must(t, err)
	full := errors.New("no space left")
	pages := place.NewStream(writer(func([]byte) (int, error) { return 0, full }), c, false)
	rows := oddRows(t, 3000)
	err = nil
	for i := 0; i < 100 && err == nil; i++ {
		for j := range rows {
			rows[j].Key = key.Key{Partition: fmt.Sprintf("%03d", i), Row: fmt.Sprintf("%05d", j)}
		}
		err = pages.Add(storage.Rows(rows))
	}
	if !errors.Is(err, full) || !errors.Is(pages.End(err), full) {
		t.Errorf("got %v", err)
	}
	var out bytes.Buffer
	pages = place.NewStream(&out, c, false)
	if err := pages.End(errors.Join(pages.Add(storage.Rows(rows[:5])), full)); !errors.Is(err, full) || out.Len() > 0 {
		t.Errorf("got %d bytes, error %v", out.Len(), err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestKindOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]place.Kind{
		"orders": place.KindTable, "./orders": place.KindExport, "backup/orders/": place.KindExport, ".": place.KindExport, `C:\x`: place.KindExport,
		"Blob:backups/orders": place.KindExport, "HTTPS://acme.blob.core.windows.net/backups/orders": place.KindExport,
		"-": place.KindStream, "orders.jsonl": place.KindFile, "a/orders.ndjson.gz": place.KindFile, "orders.JSONL.zst": place.KindFile, "orders.typed.CSV.gz": place.KindFile,
		"blob:backups": place.KindExport, "blob:backups/a.b": place.KindExport, "https://acme.blob.core.windows.net/backups/orders": place.KindExport,
	} {
		if got, err := place.KindOf(text); got != want || err != nil {
			t.Errorf("%s: got the kind %v, error %v; want %v", text, got, err, want)
		}
	}
	if _, err := place.KindOf("blob:backups/x.jsonl.zst"); err == nil || !strings.Contains(err.Error(), "not a single file") {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]string{
		"orders.txt": ".txt", "orders.csv": "", "a/out.JSON.gz": ".json.gz", `a\b.zst`: ".zst", "blob:backups/2026.11": ".11", "x.": ".",
		"orders.csv/": "", "a.b/orders": "", ".": "", "..": "", "../.hidden": "", "a.b/": "", "orders.jsonl.gz": "", "-": "", "orders": "", "https://acme.blob.core.windows.net/x/y": "",
	} {
		if got := place.UnknownEnding(text); got != want {
			t.Errorf("%s ends with %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"blob:b/x", "BLOB:b/x", "HTTPS://a.b/c/x?sig=1", " https://a.b/c/x?sig=1", "s3://b/x", "blob://b/x"} {
		if !place.InBlobs(text) {
			t.Errorf("%s was accepted as a directory", text)
		}
	}
	if _, err := place.KindOf("my_table"); err == nil || !strings.Contains(err.Error(), "./my_table") {
		t.Errorf("got %v", err)
	}
}

// Writers refuse a row that is not after the previous row: in the same page, in the next page, and in the next file.
func TestWritersRefuseDisorder(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 30)
	c, err := place.NewCodec(place.Zstd)
	proof.Must(t, err)
	for name, open := range map[string]func(t *testing.T) *place.Pages{
		"a stream":        func(*testing.T) *place.Pages { return place.NewStream(io.Discard, c, false) },
		"the app's files": func(*testing.T) *place.Pages { return place.NewFile(c).Pages },
		"an export": func(t *testing.T) *place.Pages {
			w, err := place.Create(t.Context(), place.Directory(t.TempDir()), newClaim(), place.Options{Compress: place.Zstd, FileBytes: 1000})
			proof.Must(t, err)
			return w.Pages
		},
	} {
		for _, next := range []int{29, 28, 0} {
			pages := open(t)
			proof.Must(t, pages.Add(storage.Rows(rows)))
			if err := pages.Add(storage.Rows(rows[next:])); err == nil || !strings.Contains(err.Error(), "but must be greater") {
				t.Errorf("%s: row %d, which is not after the last row: got error %v", name, next, err)
			}
			swapped := append(slices.Clone(rows[:next/2]), rows[next/2+1], rows[next/2])
			if err := open(t).Add(storage.Rows(swapped)); err == nil {
				t.Errorf("%s: rows %d and %d were accepted although they are not in order", name, next/2, next/2+1)
			}
		}
	}
}
