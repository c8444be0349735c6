package place_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// FuzzManifest checks that an accepted manifest or claim is the same after it is written again.
func FuzzManifest(f *testing.F) {
	for _, text := range content(f, write(f, oddRows(f, 5), place.Options{Compress: place.Zstd}, 5)) {
		f.Add(text)
	}
	f.Add(`{"format":"tablesweep-export","version":1,"range":{"prefix":"a"},"since":"2026-01-01T00:00:00.1Z","rows":-1,"moreProperties":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		if text = withChecksum(text); len(text) > place.MaxManifest {
			return
		}
		if m, err := place.ParseManifest([]byte(text)); err == nil {
			again, err := place.ParseManifest(m.JSON(m.ID))
			if err != nil || string(again.JSON(m.ID)) != string(m.JSON(m.ID)) {
				t.Errorf("the manifest became %s, error %v", again.JSON(m.ID), err)
			}
		}
		if c, err := place.ClaimOf(t.Context(), stored{place.ClaimName: text}); err == nil {
			again, err := place.ClaimOf(t.Context(), stored{place.ClaimName: string(c.JSON())})
			if err != nil || string(again.JSON()) != string(c.JSON()) {
				t.Errorf("the claim became %s, error %v", again.JSON(), err)
			}
		}
	})
}

// FuzzTables opens exports of many tables with any tables.json. Either it is refused, or it lists each existing export once.
func FuzzTables(f *testing.F) {
	whole := place.Directory(f.TempDir())
	exportTables(f, whole)
	objects := content(f, whole)
	f.Add(objects[place.TablesName])
	f.Add(strings.Replace(objects[place.TablesName], `"name":"b"`, `"name":"../b"`, 1))
	twice := strings.Index(objects[place.TablesName], `{"name":"b"`)
	f.Add(objects[place.TablesName][:twice] + regexp.MustCompile(`{"name":"a"[^}]*},`).FindString(objects[place.TablesName]) + objects[place.TablesName][twice:])
	f.Fuzz(func(t *testing.T, text string) {
		forged := stored(maps.Clone(objects))
		forged[place.TablesName] = withChecksum(text)
		tables, err := place.OpenTables(t.Context(), forged)
		if err != nil {
			return
		}
		var names []string
		for _, e := range tables.Tables {
			names = append(names, e.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("%s was accepted, but the exports are %q", text, names)
		}
	})
}

// FuzzFiles opens and reads exports with any files.jsonl, whose hash is in the manifest. Rows must come in table order and only from objects of the
// export, or there must be an error.
func FuzzFiles(f *testing.F) {
	rows := oddRows(f, 6)
	objects := content(f, write(f, rows, place.Options{Compress: place.None, FileBytes: 400}, 2))
	f.Add(objects[place.FilesName], "1/0/2")
	f.Add(objects[place.FilesName], "-1/0/99999999999")
	f.Fuzz(func(t *testing.T, index, token string) {
		var seal place.Seal
		var written strings.Builder
		for line := range strings.Lines(index) {
			file, err := place.ParseFile([]byte(line))
			if err != nil {
				return
			}
			again, err := seal.Add(file)
			if err != nil {
				return
			}
			written.Write(again)
		}
		forged := stored{place.FilesName: written.String(), place.ManifestName: string(seal.Manifest(manifest(place.Options{Compress: place.None})).JSON("id"))}
		for name, text := range objects {
			if strings.HasPrefix(name, place.DataPrefix) {
				forged[name] = text
			}
		}
		e, err := place.Open(t.Context(), forged)
		if err != nil {
			t.Fatalf("a written file cannot be read: %v", err)
		}
		for _, q := range []storage.Query{{}, {Token: &key.Token{Partition: token}}, {Range: key.WithPrefix(rows[3].Key.Partition, "")}} {
			checkOrder(t, e, q)
		}
	})
}

// inOrder fails the test unless rows are in table order, each once.
func inOrder(t *testing.T, rows []storage.Entity) {
	t.Helper()
	for i := 1; i < len(rows); i++ {
		if rows[i-1].Key.Compare(rows[i].Key) >= 0 {
			t.Errorf("%v comes before %v", rows[i-1].Key, rows[i].Key)
		}
	}
}

// checkOrder reads rows, which must be in table order.
func checkOrder(t *testing.T, e *place.Export, q storage.Query) {
	t.Helper()
	rows, _ := emulatortest.All(t.Context(), e, q)
	inOrder(t, rows)
}

// FuzzPage reads exports with any page, whose hash is in files.jsonl. The page is any encoded page, or any text that is then encoded.
func FuzzPage(f *testing.F) {
	for _, c := range place.Compressions {
		for name, text := range content(f, write(f, oddRows(f, 5), place.Options{Compress: c}, 5)) {
			if strings.HasPrefix(name, place.DataPrefix) {
				f.Add(string(c), text, true)
				f.Add(string(c), text, false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, compress, text string, encoded bool) {
		c := place.Compress(compress)
		if !slices.Contains(place.Compressions, c) || (!encoded || c == place.None) && !utf8.ValidString(text) { // rows are always valid UTF-8
			return
		}
		page, first, last, n := []byte(text), place.Key{}, place.Key{}, int64(1)
		if !encoded {
			codec, err := place.NewCodec(c)
			proof.Must(t, err)
			page = codec.Encode(page)
			if rows, err := storage.ParseLines([]byte(text)); err == nil && len(rows) > 0 {
				a, z := rows[0].Key, rows[len(rows)-1].Key
				first, last, n = place.Key{PartitionKey: a.Partition, RowKey: a.Row}, place.Key{PartitionKey: z.Partition, RowKey: z.Row}, int64(len(rows))
			}
		}
		e, err := place.Open(t.Context(), forge(t, c, page, n, first, last))
		if err != nil {
			return
		}
		checkOrder(t, e, storage.Query{})
	})
}

// FuzzWindows reads any text as rows in any order. Each window must be sorted and have each key once.
func FuzzWindows(f *testing.F) {
	f.Add(linesOf(oddRows(f, 5)))
	f.Add("\ufeff" + `{"PartitionKey":"b","RowKey":"1"}` + "\n\n" + `{"PartitionKey":"a","RowKey":"1"}` + "\n" + `{"PartitionKey":"b","RowKey":"1","N":1}`)
	f.Add(`{"PartitionKey":"b","N":1,"RowKey":"1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		_ = place.Windows(place.JSONLines(strings.NewReader(text)), true, nil, func(rows place.Rows, repeated int) error {
			found, err := emulatortest.All(t.Context(), rows, storage.Query{})
			inOrder(t, found)
			if len(found)+repeated > strings.Count(text, "\n")+1 {
				t.Errorf("got %d rows and %d repeated rows", len(found), repeated)
			}
			return err
		})
	})
}
