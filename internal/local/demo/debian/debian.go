// Package debian contains real rows to scan and copy: the 63,666 binary packages of a Debian release in 34,172 partitions, one per source package. Names and
// versions are public facts from Debian's package index. Some keys contain '+', '~', ':' or '.'
package debian

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tablesweep/internal/key"
)

// compact contains a line for each package, in table order: source, package, version, architecture, section and size,
// separated by tabs. An empty source stands for the previous line's source. An empty package stands for a package with
// the source's name.
//
//go:embed packages.tsv.gz
var compact []byte

// Package is a binary package.
type Package struct {
	Source       string // the partition key
	Name         string
	Version      string
	Architecture string
	Section      string
	Bytes        int64
}

// Key returns the package's key in a table.
func (p Package) Key() key.Key {
	return key.Key{Partition: p.Source, Row: p.Name + "_" + p.Version + "_" + p.Architecture}
}

// Packages returns all packages in table order.
func Packages() ([]Package, error) {
	z, err := gzip.NewReader(bytes.NewReader(compact))
	if err != nil {
		return nil, fmt.Errorf("packages: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("packages: %w", err)
	}
	var packages []Package
	source := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("packages: line %d has %d fields; it must have 6", len(packages)+1, len(f))
		}
		if f[0] != "" {
			source = f[0]
		}
		if f[1] == "" {
			f[1] = source
		}
		size, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("packages: line %d: %w", len(packages)+1, err)
		}
		packages = append(packages, Package{Source: source, Name: f[1], Version: f[2], Architecture: f[3], Section: f[4], Bytes: size})
	}
	return packages, nil
}
