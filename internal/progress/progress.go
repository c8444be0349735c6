// Package progress shows how far a sweep is: on a terminal as one line that
// changes, elsewhere as a line of JSON every few seconds. What can't be told
// honestly, the share done and the time left, is left out.
package progress

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"tablesweep/internal/sweep"
)

// Style is how progress is shown.
type Style string

// The styles.
const (
	Auto  Style = "auto"  // plain on a terminal, json elsewhere; the default
	Plain Style = "plain" // text: on a terminal one line that changes
	JSON  Style = "json"
	None  Style = "none"
)

// Styles lists all styles.
var Styles = []Style{Auto, Plain, JSON, None}

const (
	interval = 5 * time.Second  // between two lines, unless one line changes
	window   = 10 * time.Second // that a rate is measured over
	enough   = 0.01             // share that must be done before the time left is told
)

// Meter shows progress. It is not safe for concurrent use.
type Meter struct {
	out   io.Writer
	style Style
	live  bool // the line is written over
	shown bool // a line that must be cleared is on the terminal
	last  time.Duration
	rates rates
}

// New returns a meter that writes to w.
func New(w io.Writer, s Style) *Meter {
	f, ok := w.(*os.File)
	terminal := ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
	if s == Auto || s == "" {
		s = JSON
		if terminal {
			s = Plain
		}
	}
	return &Meter{out: w, style: s, live: terminal && s == Plain}
}

// Show tells how far the sweep is, if it is time to.
func (m *Meter) Show(p sweep.Progress) {
	f := m.figures(p)
	if m.style == None || !m.live && (p.Ended || p.Elapsed-m.last < interval) {
		return
	}
	m.last = p.Elapsed
	switch {
	case m.live:
		fmt.Fprintf(m.out, "\r\x1b[K\x1b[?7l%s\x1b[?7h", f) // what is too long is cut off, not wrapped
		m.shown = true
	case m.style == Plain:
		fmt.Fprintln(m.out, f)
	default:
		_ = json.NewEncoder(m.out).Encode(f)
	}
}

// Clear makes room for other lines on the terminal.
func (m *Meter) Clear() {
	if m.shown {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = false
	}
}

// Figures are what is shown.
type Figures struct {
	Rows       int64    `json:"rows"`
	RowsPerSec float64  `json:"rowsPerSecond"`
	Failed     int64    `json:"failed"`
	Requests   int64    `json:"requests"`
	Throttles  int64    `json:"throttles"`
	Ranges     int      `json:"rangesLeft"`
	Percent    *float64 `json:"percent,omitempty"`     // of the rows, as far as can be told
	Left       *float64 `json:"secondsLeft,omitempty"` // at the present rate
	Seconds    float64  `json:"seconds"`
}

func (m *Meter) figures(p sweep.Progress) Figures {
	f := Figures{
		Rows: p.Rows, RowsPerSec: math.Round(m.rates.add(p.Elapsed, p.Run.Rows)), Failed: p.Failed,
		Requests: p.Requests, Throttles: p.Throttles, Ranges: p.Ranges, Seconds: tenths(p.Elapsed.Seconds()),
	}
	if share, ok := p.Share(); ok {
		percent := math.Floor(share*1000) / 10
		f.Percent = &percent
		if share >= enough && f.RowsPerSec > 0 && !p.Ended {
			left := math.Ceil(float64(p.Rows) * (1/share - 1) / f.RowsPerSec)
			f.Left = &left
		}
	}
	return f
}

func tenths(x float64) float64 { return math.Round(x*10) / 10 }

// String returns the figures as one line.
func (f Figures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows, %.0f rows/s, %d requests, %d throttled, %d ranges left", f.Rows, f.RowsPerSec, f.Requests, f.Throttles, f.Ranges)
	if f.Failed > 0 {
		fmt.Fprintf(&b, ", %d FAILED", f.Failed)
	}
	if f.Percent != nil {
		fmt.Fprintf(&b, ", %.0f %%", *f.Percent)
	}
	fmt.Fprintf(&b, ", %s", seconds(f.Seconds))
	if f.Left != nil {
		fmt.Fprintf(&b, ", about %s left", seconds(*f.Left))
	}
	return b.String()
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// rates measures a rate over the last window.
type rates struct{ samples []sample }

type sample struct {
	at   time.Duration
	rows int64
}

// add takes in a count and returns the rate a second.
func (r *rates) add(at time.Duration, rows int64) float64 {
	r.samples = append(r.samples, sample{at, rows})
	for len(r.samples) > 2 && at-r.samples[0].at > window {
		r.samples = r.samples[1:]
	}
	from := sample{}
	if len(r.samples) > 1 {
		from = r.samples[0]
	}
	if at <= from.at {
		return 0
	}
	return float64(rows-from.rows) / (at - from.at).Seconds()
}
