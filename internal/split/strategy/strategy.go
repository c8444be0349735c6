// Package strategy gives names to the strategies that split a scan. Requests and the command line use these names.
package strategy

import (
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// The names of the strategies.
const (
	Adaptive = "adaptive" // learns from the keys that it reads
	Prefix   = "prefix"   // Joel Verhagen's prefix scan; see [scan.Prefix]
	Serial   = "serial"   // reads page after page
)

// Names lists the strategies. The first is the default.
var Names = []string{Adaptive, Prefix, Serial}

// Options configure a strategy. Each option applies to one strategy, and the other strategies ignore it.
type Options struct {
	Hints    *scan.Hints // for the strategy adaptive: the hints, or nil
	PageRows int         // for the strategy adaptive: the number of rows in a full page
	// FirstSegments and NextSegments are for prefix: see [scan.Prefix].
	FirstSegments, NextSegments int
}

// New returns the named strategy. It returns the default for any other name.
func New(name string, o Options) scan.Strategy {
	switch name {
	case Serial:
		return scan.Serial{}
	case Prefix:
		return scan.Prefix{FirstSegments: o.FirstSegments, NextSegments: o.NextSegments}
	}
	return adaptive.Strategy{Hints: o.Hints, PageRows: o.PageRows}
}
