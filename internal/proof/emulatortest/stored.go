package emulatortest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// Load fills tables with rows that an earlier version of the program has written. They
// stand in a txtar archive, a file for each table with one row a line. What callers
// were given then is in the file "texts", which Load returns: a name and a text a line.
func Load(t testing.TB, a *storage.Account, path string) (texts map[string]string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	proof.Must(t, err)
	texts = map[string]string{}
	for _, f := range archive.Files {
		if f.Name == "texts" {
			for line := range strings.Lines(string(f.Data)) {
				name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				texts[name] = text
			}
			continue
		}
		table := a.Table(f.Name)
		proof.Must(t, table.Create(t.Context()))
		for line := range bytes.Lines(f.Data) {
			var at struct{ PartitionKey, RowKey string }
			if err := json.Unmarshal(line, &at); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			row := storage.Entity{Key: key.Key{Partition: at.PartitionKey, Row: at.RowKey}, JSON: bytes.TrimSpace(line)}
			if err := table.Write(t.Context(), storage.Op{Kind: storage.Insert, Entity: row}); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	return texts
}
