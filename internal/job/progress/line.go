package progress

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/problem"
)

// Figures are the values that the meter shows.
type Figures struct {
	Phase      string   `json:"phase,omitempty"`
	Rows       int64    `json:"rows"`
	RowsPerSec float64  `json:"rowsPerSecond"`
	Failed     int64    `json:"failed"`
	Differ     int64    `json:"differ,omitempty"` // rows that differ between two tables
	Requests   int64    `json:"requests"`
	Throttles  int64    `json:"throttles"`
	Ranges     int      `json:"rangesLeft"`
	Bytes      int64    `json:"bytes"`                 // bytes of the answers to queries
	Underway   int      `json:"requestsUnderWay"`      // running queries and units of work
	Limit      int      `json:"requestsLimit"`         // how many queries and units of work may run concurrently at present
	Percent    *float64 `json:"percent,omitempty"`     // share of the rows that is done; nil if the number of rows is unknown
	Left       *float64 `json:"secondsLeft,omitempty"` // nil if the number of rows is unknown or the rate is not steady
	Seconds    float64  `json:"seconds"`
	Stopping   bool     `json:"stopping,omitempty"` // the command was interrupted
	Waiting    []Wait   `json:"waiting,omitempty"`
	Tables     *Tables  `json:"tables,omitempty"` // nil for a command with one table
	noun       string   // the word for what is counted, such as "row"
}

// figure is one value in the meter's line.
type figure struct {
	rank int // if the line is too long, figures with the highest rank are removed first; figures with rank 0 or below always stay
	text string
	join string // the separator before the figure
}

const (
	causeRank = 5  // the rank of the figure that shows an outage's cause
	causeRoom = 16 // a shortened cause has at least this many columns
)

// line returns the figures as text with at most the given number of columns. If `columns` is below 1, the text's length
// is not limited.
func (f Figures) line(columns int) string {
	phase := f.Phase
	if phase != "" {
		phase += " "
	}
	shown := append([]figure{{1, phase + problem.Plural(f.Rows, f.noun), ""}}, f.news()...)
	add := func(rank int, when bool, format string, args ...any) {
		if when {
			shown = append(shown, figure{rank, fmt.Sprintf(format, args...), ", "})
		}
	}
	if t := f.Tables; t != nil {
		add(2, true, "%d of %s done, %d under way", t.Done, problem.Plural(t.All, "table"), t.UnderWay)
	}
	if f.Percent != nil {
		add(2, true, "%d %%", int(*f.Percent))
	}
	if f.Left != nil {
		add(3, !f.Stopping && len(f.Waiting) == 0, "about %s left", seconds(*f.Left))
	}
	add(4, f.Failed > 0, "%d FAILED", f.Failed)
	add(4, f.Differ > 0, "%d DIFFER", f.Differ)
	add(6, true, "%.0f %ss/s", f.RowsPerSec, f.noun)
	add(8, true, "%s", seconds(f.Seconds))
	add(9, f.Bytes > 0, "%s", size(f.Bytes))
	add(7, f.Throttles > 0, "%d throttled", f.Throttles)
	add(10, f.Limit > 0, "%d of %d running", f.Underway, f.Limit)
	add(11, f.Requests > 0, "%s", problem.Plural(f.Requests, "request"))
	add(12, f.Limit > 0, "%s left", problem.Plural(f.Ranges, "range"))
	return join(shown, columns)
}

// news returns the figures about an interrupt and about the connections that the command waits for.
func (f Figures) news() (shown []figure) {
	switch {
	case f.Stopping && len(f.Waiting) > 0:
		shown = append(shown, figure{-1, "interrupted; " + endNow, ", "})
	case f.Stopping && f.Underway > 0:
		shown = append(shown, figure{-1, f.stopping() + "; " + endNow, ", "})
	}
	for i, w := range f.Waiting {
		text := fmt.Sprintf("%s for %v", w.Connection, seconds(w.Seconds))
		if i == 0 {
			text = "waiting for " + text
		}
		shown = append(shown, figure{0, text, ", "}, figure{causeRank, lines.Plain(w.Cause), ": "})
	}
	return shown
}

// join makes one line from the figures. The line has at most the given number of columns, or any length if columns is
// below 1. To shorten the line, join removes the least important figures first. If a cause would keep at least causeRoom
// columns, join shortens the cause instead of removing it.
func join(shown []figure, columns int) string {
	for {
		text := ""
		for i, p := range shown {
			if i > 0 {
				text += p.join
			}
			text += p.text
		}
		over := utf8.RuneCountInString(text) - columns
		least := slices.MaxFunc(append([]figure{{}}, shown...), func(a, b figure) int { return a.rank - b.rank })
		if columns < 1 || over <= 0 || least.rank == 0 || len(shown) == 1 {
			return fit(text, columns)
		}
		i := slices.Index(shown, least)
		if cut := utf8.RuneCountInString(least.text) - over - 1; least.rank == causeRank && cut >= causeRoom {
			shown[i].text = fit(least.text, cut) + "…"
			continue
		}
		shown = slices.Delete(shown, i, i+1)
	}
}

const endNow = "press Ctrl-C again to end"

func (f Figures) stopping() string {
	return "interrupted: waiting for " + problem.Plural(f.Underway, "request")
}

// waiting lists the connections that do not answer, each with the duration and the cause of the outage.
func (f Figures) waiting() string {
	text := "waiting for "
	for i, w := range f.Waiting {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s for %v: %s", w.Connection, seconds(w.Seconds), w.Cause)
	}
	return text
}

func size(bytes int64) string {
	unit, x := 0, float64(bytes)
	for ; x >= 999.5 && unit < 4; unit++ {
		x /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.3g %cB", x, "kMGT"[unit-1])
}
