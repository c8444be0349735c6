package place

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// Kind is the kind of a place.
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

// InAccount is the prefix of the text blob:CONTAINER/PREFIX, which names a place in a connection's account.
const InAccount = "blob:"

// IsURL reports whether a place's text is a URL. A misspelt URL counts as a URL, because nobody gives a directory such a name on purpose.
func IsURL(text string) bool { return strings.Contains(text, "://") }

// InBlobs reports whether a place's text names blobs: by a URL, which may have a SAS, or by blob:CONTAINER/PREFIX, which has no SAS.
func InBlobs(text string) bool {
	return IsURL(text) || len(text) >= len(InAccount) && strings.EqualFold(text[:len(InAccount)], InAccount)
}

// otherScheme matches the beginning of a place that only other programs support, such as s3:BUCKET. A single letter before the colon does not
// match, because it is a drive on Windows.
var otherScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+-]+:`)

// KindOf returns the kind of place that a text names. A text of only letters and digits names a table, and "-" names
// stdin or stdout. A URL, or a text that begins with blob:, names blobs. A name with the ending of a file of rows names
// a file. Any other text with a slash or a dot names a directory.
func KindOf(text string) (Kind, error) {
	switch {
	case !IsURL(text) && secret.In(text):
		return KindTable, errors.New("contains text that looks like an account key, so it is not a place; put a connection string into a setting, or into a flag such as --connection")
	case InBlobs(text) && isFile(text):
		return KindFile, errors.New("blobs can contain an export, but not a single file; use a prefix without an ending such as .jsonl or .csv")
	case InBlobs(text):
		return KindExport, nil
	case otherScheme.MatchString(text) && !secret.InName(text):
		scheme, _, _ := strings.Cut(text, ":")
		return KindTable, fmt.Errorf("has the unknown scheme %q; for blobs, write %sCONTAINER/PREFIX; for a directory or a file, write ./%s", scheme, InAccount, text)
	case text == "-":
		return KindStream, nil
	case isFile(text):
		return KindFile, nil
	case strings.ContainsAny(text, `/\.`):
		return KindExport, nil
	}
	err := storage.CheckTableName(text)
	if err != nil && !secret.InName(text) {
		err = fmt.Errorf("%w; the path of a directory must contain a slash, such as ./%s", err, text)
	}
	return KindTable, err
}

// UnknownEnding returns the ending, such as .txt, of a place that looks like a file, but not like a file of rows. For any other place, and for a
// place that ends with a slash, it returns "".
func UnknownEnding(text string) string {
	name := strings.ToLower(text[strings.LastIndexAny(text, `/\`)+1:])
	packed := exts[CompressOf(name)]
	ext := filepath.Ext(strings.TrimSuffix(name, packed)) + packed
	if ext == name || strings.Trim(name, ".") == "" || isFile(name) { // the place is a hidden directory, ".", "..", or a file of rows
		return ""
	}
	return ext
}

// isFile reports whether a name has the ending of a file of rows.
func isFile(name string) bool {
	return slices.Contains([]string{".jsonl", ".ndjson", ".csv"}, ext(name))
}

// IsCSV reports whether a file with this name contains CSV.
func IsCSV(name string) bool { return ext(name) == ".csv" }

// ext returns the ending of a file's name, such as .csv for rows.csv.gz.
func ext(name string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(name), exts[CompressOf(name)]))
}

// CompressOf returns the compression that the ending of a file's name shows.
func CompressOf(name string) Compress {
	name = strings.ToLower(name)
	for _, c := range []Compress{Zstd, Gzip} {
		if strings.HasSuffix(name, exts[c]) {
			return c
		}
	}
	return None
}
