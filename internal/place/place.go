package place

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// Kind is what a place is.
type Kind int

// The kinds.
const (
	KindTable  Kind = iota
	KindExport      // a directory, or blobs
	KindFile        // one file of JSON lines
	KindStream      // stdin or stdout
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"a table", "an export", "a file", "stdin or stdout"}[k]
}

// InAccount begins the text of blobs in the account that a connection names; CONTAINER/PREFIX follows.
const InAccount = "blob:"

// IsURL reports whether a place's text is a URL, however it is spelt: no directory is called so by intention.
func IsURL(text string) bool { return strings.Contains(text, "://") }

// InBlobs reports whether a place's text names blobs. It may have a SAS, which only a URL takes.
func InBlobs(text string) bool {
	return IsURL(text) || len(text) >= len(InAccount) && strings.EqualFold(text[:len(InAccount)], InAccount)
}

// KindOf returns what a place's text names: letters and digits are a table, - is a stream, a URL and blob: are blobs, what
// ends as files of rows do is a file, and what has a slash or a dot is a directory.
func KindOf(text string) (Kind, error) {
	switch {
	case !IsURL(text) && secret.In(text):
		return KindTable, errors.New("has what looks like a key, and names a place; a connection string belongs in a setting or the flag of a connection")
	case InBlobs(text) && isFile(text):
		return KindFile, errors.New("blobs take exports, not single files; name a prefix that does not end as a file does")
	case InBlobs(text):
		return KindExport, nil
	case text == "-":
		return KindStream, nil
	case isFile(text):
		return KindFile, nil
	case strings.ContainsAny(text, `/\.`):
		return KindExport, nil
	}
	err := storage.CheckTableName(text)
	if err != nil && !secret.InName(text) {
		err = fmt.Errorf("%w; the path of a directory has a slash in it, such as ./%s", err, text)
	}
	return KindTable, err
}

// UnknownEnding returns how a place's text ends if no form of files ends so, such as .txt: who gives it expects a file. It is ""
// for all other places, and for those that end with a slash.
func UnknownEnding(text string) string {
	name := strings.ToLower(text[strings.LastIndexAny(text, `/\`)+1:])
	packed := exts[CompressOf(name)]
	ext := filepath.Ext(strings.TrimSuffix(name, packed)) + packed
	if ext == name || strings.Trim(name, ".") == "" || isFile(name) { // a hidden directory, this one, or the one above it
		return ""
	}
	return ext
}

// isFile reports whether a name is that of a file of rows.
func isFile(name string) bool {
	return slices.Contains([]string{".jsonl", ".ndjson", ".csv"}, ext(name))
}

// IsCSV reports whether a file has CSV, by its name.
func IsCSV(name string) bool { return ext(name) == ".csv" }

// ext returns how a file's name ends, compressed or not.
func ext(name string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(name), exts[CompressOf(name)]))
}

// CompressOf returns how a file is compressed, by its name.
func CompressOf(name string) Compress {
	name = strings.ToLower(name)
	for _, c := range []Compress{Zstd, Gzip} {
		if strings.HasSuffix(name, exts[c]) {
			return c
		}
	}
	return None
}
