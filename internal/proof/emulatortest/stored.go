package emulatortest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// Load fills tables with rows that an earlier version of the program has written. The rows come from a txtar archive with a file for each table and one row a
// line. The file "texts" contains texts that the earlier version returned to its callers, one a line, each after its name. Load returns these texts by name.
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
			rows, err := storage.ParseLines(line)
			if err == nil {
				err = table.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: rows[0]})
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	return texts
}
