package keysets

import (
	"bufio"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tablesweep/internal/key"
)

// samples has every n-th row of real key sets. Row keys are cut off after the characters that are needed to distinguish
// the rows. A line is a row, in table order: partition key, tab, row key. It omits the characters at its beginning that it
// shares with the previous line. Instead it begins with a character whose code minus 32 is the number of these characters.
//
//go:embed keys/*.gz
var samples embed.FS

// Real returns key sets from real tables, or made from real data. It includes the sets of Go's source tree only if
// its directory is given. If a set has only every n-th row, a page has
// 1,000/n rows. It ends where a full page would end, but has fewer keys.
func Real(goroot string) []Set {
	sampled := func(name, about string, every int) Set {
		return Set{Name: name, About: about, Real: true, Page: fullPage / every, Rows: func(n int) ([]key.Key, error) {
			rows, err := sample(name)
			return some(rows, n), err
		}}
	}
	sets := append(facts(),
		sampled("author-path", "changed files by author, then path", 40),
		sampled("chinese", "words of two characters that ICU's dictionary of Chinese has", 5),
		sampled("commit-log", "commits by repository and inverted ticks", 10),
		sampled("debian-files", "files of all Debian packages by directory", 100),
		sampled("history", "changed files by path, then commit", 20),
		sampled("japanese", "words of two characters that its dictionary of Japanese has", 5),
		sampled("linux-files", "files of a Linux installation by path", 20),
		sampled("locale-key", "names of messages by language", 40),
		sampled("urls", "URLs by host, then path", 20),
	)
	if goroot == "" {
		return sets
	}
	source := func(name, about string, every, page int, read func(fs.FS, *keep) error) Set {
		return Set{Name: name, About: about, Real: true, Page: page, Rows: func(n int) ([]key.Key, error) {
			k := keep{every: every}
			if err := read(os.DirFS(filepath.Join(goroot, "src")), &k); err != nil {
				return nil, fmt.Errorf("read Go's source tree: %w", err)
			}
			return some(k.sorted(), n), nil
		}}
	}
	return append(sets,
		source("go-files", "files of Go's source tree by directory, 20 a page", 1, 20, files),
		source("go-lines", "lines of Go's source tree by path and number", 50, fullPage/50, lines),
		source("go-words", "long identifiers of Go's source tree and where they are", 50, fullPage/50, words),
	)
}

func sample(name string) ([]key.Key, error) {
	f, err := samples.Open("keys/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var rows []key.Key
	var line []rune
	for l := range strings.Lines(string(text)) {
		first, size := utf8.DecodeRuneInString(l)
		shared := int(first) - ' '
		if shared < 0 || shared > len(line) {
			return nil, fmt.Errorf("%s: row %d shares %d characters with one of %d", name, len(rows), shared, len(line))
		}
		line = append(line[:shared], []rune(strings.TrimSuffix(l[size:], "\n"))...)
		partition, row, _ := strings.Cut(string(line), "\t")
		rows = append(rows, key.Key{Partition: partition, Row: row})
	}
	return rows, nil
}

// some returns n rows at equal distances, or all rows if there are at most n.
func some(rows []key.Key, n int) []key.Key {
	if n >= len(rows) {
		return rows
	}
	few := make([]key.Key, n)
	for i := range few {
		few[i] = rows[i*len(rows)/n]
	}
	return few
}

// keep collects every n-th row.
type keep struct {
	every, met int
	rows       []key.Key
}

func (k *keep) add(partition, row string) {
	if k.met++; k.met%k.every == 0 {
		k.rows = append(k.rows, key.Key{Partition: partition, Row: row})
	}
}

func (k *keep) sorted() []key.Key {
	slices.SortFunc(k.rows, key.Key.Compare)
	return slices.Compact(k.rows)
}

// bars replaces slashes, which keys must not contain, by vertical bars.
func bars(path string) string { return strings.ReplaceAll(path, "/", "|") }

func files(source fs.FS, k *keep) error {
	return fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			dir, file := path.Split(name)
			k.add(bars(dir), file)
		}
		return err
	})
}

func lines(source fs.FS, k *keep) error {
	return eachLine(source, func(file string, number int, _ string) {
		k.add(file, fmt.Sprintf("%06d", number))
	})
}

func words(source fs.FS, k *keep) error {
	other := func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }
	return eachLine(source, func(file string, number int, line string) {
		for _, word := range strings.FieldsFunc(line, other) {
			if len(word) >= 12 && len(word) < 100 {
				k.add(word, fmt.Sprintf("%s:%05d", file, number))
			}
		}
	})
}

func eachLine(source fs.FS, f func(file string, number int, line string)) error {
	return fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" {
			return err
		}
		text, err := fs.ReadFile(source, name)
		number := 0
		for line := range strings.Lines(strings.ToValidUTF8(string(text), "")) {
			number++
			f(bars(name), number, line)
		}
		return err
	})
}

// FromFiles returns a key set for each file NAME.tsv or NAME.tsv.gz of a directory, with pages of 1,000 rows. A line is a row:
// partition key, tab, row key. Lines may come in any order.
func FromFiles(dir string) ([]Set, error) {
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
		sets = append(sets, Set{Name: name, About: file, Real: true, Page: fullPage, Rows: func(n int) ([]key.Key, error) {
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
