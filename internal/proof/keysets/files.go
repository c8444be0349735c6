package keysets

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tablesweep/internal/key"
)

// FromFiles returns a key set for each file NAME.tsv or NAME.tsv.gz of a directory, with pages of so many
// rows. A line is a row: partition key, tab, row key. Lines may come in any order.
func FromFiles(dir string, page int) ([]Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sets []Set
	for _, e := range entries {
		name, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".gz"), ".tsv")
		if !ok {
			continue
		}
		file := filepath.Join(dir, e.Name())
		sets = append(sets, Set{Name: name, About: file, Real: true, Page: page, Rows: func(n int) ([]key.Key, error) {
			rows, err := readKeys(file)
			return some(rows, n), err
		}})
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s has no file NAME.tsv or NAME.tsv.gz", dir)
	}
	return sets, nil
}

func readKeys(file string) ([]key.Key, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	var rows []key.Key
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		partition, row, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("%s: line %d has no tab between its keys", file, len(rows)+1)
		}
		rows = append(rows, key.Key{Partition: partition, Row: row})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	slices.SortFunc(rows, key.Key.Compare)
	return slices.Compact(rows), nil
}
