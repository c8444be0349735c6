// Package progress reports on stderr what a command does: the progress of its sweeps, the storage that the command waits for, and the rows that
// failed. On a terminal, it updates one line for each sweep. Elsewhere it writes a line of JSON every few seconds.
//
// The package shows only figures that are certain. To show the share of rows that is done and the time left, the package needs the number of all
// rows. [Meter.CountBeside] may count all rows while the work runs.
//
// The count reads only keys, with at most 32 workers. It begins after 10 s, and only if the work makes at least four times as many requests as
// queries. So there is no count, and no extra cost, for short work and for work that only reads. If the work writes transactions of 100 rows, the
// count makes about one request for every seven requests of the work. If the work writes single rows, the count makes about one request for every
// 500 requests of the work. The count misses rows that a deletion has already removed. Rows that were removed before the count are added to its
// result, but it is not known how many rows the count misses because they are removed during the count. So a deletion shows a share only if the lowest
// and the greatest possible number of all rows differ by at most 5 %. The share shown is the number of done rows divided by the greatest possible number
// of all rows, so the true share may be greater, but not smaller. The package computes the time left from the rate in the last quarter of the elapsed
// time. It shows the time left only if this rate and the rate in the last half of the elapsed time differ by a factor of at most 1.5.
package progress

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// Style defines how progress is shown.
type Style string

// The styles.
const (
	Auto  Style = "auto"  // plain on a terminal, json elsewhere; the default
	Plain Style = "plain" // text; on a terminal, one line that is updated
	JSON  Style = "json"  // JSON, including all messages
	None  Style = "none"
)

// Styles lists all styles.
var Styles = []Style{Auto, Plain, JSON, None}

const (
	interval = 5 * time.Second // the time between two lines of progress, unless a single line is updated in place
	again    = time.Minute     // the time between two warnings about the same outage
	refresh  = time.Second     // the time between two checks for outages
)

// Meter shows progress and writes all other messages on stderr. It is safe for concurrent
// use.
type Meter struct {
	out   io.Writer  // for the live line, which uses control characters
	text  io.Writer  // for all other output
	width func() int // returns the terminal's width in columns; 0 if unknown
	parts *Parts     // set if this meter shows one of several tables
	table string

	mu          sync.Mutex
	style       Style
	machine     bool // all messages are JSON
	quiet       bool // only warnings and errors are printed
	terminal    bool
	live        bool // the line is updated in place
	shown       bool // the live line is on the terminal, and must be cleared before other output
	phase       string
	noun        string    // the word for what is counted; "row" by default
	expected    total     // the expected number of rows of the phase
	counting    *counting // nil if the rows are not counted
	last        time.Duration
	rates       rates
	figures     Figures // the figures that were last shown
	begun       bool    // true if the field `figures` has a value for this phase
	tables      *Tables // nil for a command with one table
	interrupted bool

	accounts []Account
	outages  []storage.Outage
	warned   time.Time // the time of the last warning about outages
}

// New returns a meter that writes to w. Its style is [None] until [Meter.Use] sets another.
func New(w io.Writer) *Meter {
	m := &Meter{out: w, text: lines.NewPlainWriter(w), style: None, noun: "row", width: func() int { return 0 }}
	if f, ok := w.(*os.File); ok {
		m.terminal = IsTerminal(f)
		m.width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return columns
		}
	}
	return m
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()) }

// Use sets the style.
func (m *Meter) Use(s Style) {
	if m.parts != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.machine = s == JSON
	if s == Auto || s == "" {
		s = JSON
		if m.terminal {
			s = Plain
		}
	}
	if m.quiet {
		s = None
	}
	m.style, m.live = s, m.terminal && s == Plain && os.Getenv("TERM") != "dumb" // a dumb terminal cannot move the cursor
}

// Records makes the meter write "records" where it would write "rows".
func (m *Meter) Records() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noun = "record"
}

// Quiet makes the meter print only warnings and errors, whatever its style.
func (m *Meter) Quiet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quiet = true
}

// news lists the kinds of messages that are neither warnings nor errors.
var news = []string{"changes", "would change", "writes", "since", "compared", "import", "requested", "canceled", "runs"}

// Phase begins a phase of the work, such as "copying", and resets the rates.
func (m *Meter) Phase(name string) {
	if m.parts != nil {
		m.parts.endSweep(m)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase, m.last, m.rates, m.begun, m.expected, m.counting = name, 0, rates{}, false, total{}, nil
}

// Expect sets the number of rows of the phase. Without Expect or [Meter.CountBeside], the share that is done and the time left are not shown.
func (m *Meter) Expect(rows int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected = total{rows, rows}
}

// Show stores the sweep's progress, and displays it at regular intervals. It displays an interrupt immediately.
func (m *Meter) Show(p sweep.Progress) {
	if m.parts != nil {
		m.parts.show(m, p)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	stopping := p.Stopping && !m.figures.Stopping && p.Reading+p.Working > 0
	at := p.Elapsed.Round(refresh) // rounded, because calls may come a little early or late
	m.consult(p)
	m.figures, m.begun = m.figuresOf(p), true
	switch {
	case p.Ended:
		return
	case m.live:
		m.draw()
	case stopping:
		m.print("warning", m.figures.stopping()+"; "+endNow)
	case m.style != None && at-m.last >= interval:
		m.last = at
		if m.style == Plain {
			fmt.Fprintln(m.text, m.figures.line(0))
			return
		}
		m.encode(m.figures)
	}
}

// Interrupt marks the command as interrupted.
func (m *Meter) Interrupt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interrupted = true
}

func (m *Meter) draw() {
	f := m.figures
	f.Waiting = waits(m.outages)
	text := f.line(m.width() - 1)
	if !m.begun {
		text = join(Figures{Waiting: f.Waiting, Stopping: m.interrupted}.news(), m.width()-1)
	}
	fmt.Fprintf(m.out, "\r\x1b[K\x1b[?7l%s\x1b[?7h", lines.Plain(text)) // \x1b[?7l and \x1b[?7h turn the wrapping of long lines off and on
	m.shown = true
}

// Clear removes the live line, so that other lines can be written to the terminal.
func (m *Meter) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

func (m *Meter) clear() {
	if m.shown {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = false
	}
}

// End removes the live line and stops updating it.
func (m *Meter) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.begun, m.live = false, false
}

// Print writes a message on its own line. The argument `kind` is a word such as "warning".
func (m *Meter) Print(kind, text string) {
	if m.parts != nil {
		if kind != "changes" { // a message of the kind "changes" concerns all tables, so it is not printed for a single table
			m.parts.meter.Print(kind, m.table+": "+text)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.print(kind, text)
}

func (m *Meter) print(kind, text string) {
	if m.quiet && slices.Contains(news, kind) {
		return
	}
	text = secret.Hide(text)
	m.clear()
	if m.machine {
		m.encode(map[string]string{kind: text})
		return
	}
	fmt.Fprintf(m.text, "tablesweep: %s: %s\n", kind, strings.ReplaceAll(text, "\n", "\n  ")) // indented, so that a further line does not look like another message
}

// encode ignores errors, because there is no other output on which to report them.
func (m *Meter) encode(v any) { _ = lines.JSON(m.text).Encode(v) }

// Account reports connections whose requests fail. [storage.Account] implements it.
type Account interface {
	Outages() []storage.Outage
}

// Await shows an account's outages until ctx ends.
func (m *Meter) Await(ctx context.Context, a Account) {
	if m.parts != nil {
		m.parts.meter.Await(ctx, a)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts = append(m.accounts, a)
	if len(m.accounts) > 1 {
		return
	}
	go func() { // ends when ctx ends
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.observe()
			case <-ctx.Done():
				return
			}
		}
	}()
}

// observe shows the outages that delay requests, and the end of earlier outages.
func (m *Meter) observe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.outages
	m.outages = nil
	for _, a := range m.accounts {
		m.outages = append(m.outages, slices.DeleteFunc(a.Outages(), func(o storage.Outage) bool { return o.Waiting == 0 })...)
	}
	switch {
	case len(m.outages) == 0 && len(before) == 0:
	case m.live && (m.begun || len(m.outages) > 0):
		m.draw()
	case m.live:
		m.clear()
	case len(m.outages) == 0:
		m.warned = time.Time{}
		m.print("warning", before[0].Connection+" answers again")
	case time.Since(m.warned) >= again:
		m.warned = time.Now()
		m.print("warning", Figures{Waiting: waits(m.outages)}.waiting())
	}
}

// Wait is a connection that the command waits for.
type Wait struct {
	Connection string  `json:"connection"` // the name of the connection's setting, or the connection's host if there is no setting
	Seconds    float64 `json:"seconds"`
	Cause      string  `json:"cause"`
}

func waits(outages []storage.Outage) []Wait {
	var all []Wait
	for _, o := range outages {
		all = append(all, Wait{o.Connection, math.Floor(time.Since(o.Since).Seconds()), o.Cause})
	}
	return all
}

func (m *Meter) figuresOf(p sweep.Progress) Figures {
	m.rates.add(p.Elapsed, p.Run.Rows)
	f := Figures{
		Phase: m.phase, Rows: p.Rows, RowsPerSec: math.Round(m.rates.rateOver(window)), Failed: p.Failed, Differ: p.Missing + p.Extra + p.Different,
		Requests: p.Requests, Throttles: p.Throttles, Ranges: p.Ranges, Seconds: p.Elapsed.Round(100 * time.Millisecond).Seconds(),
		Bytes: p.Bytes, Underway: p.Reading + p.Working, Limit: p.Limit, Stopping: p.Stopping, Waiting: waits(m.outages), Tables: m.tables, noun: m.noun,
	}
	f.addShare(m.expected, p, &m.rates)
	return f
}

// fit shortens a line to the given number of columns. If `columns` is below 1, fit returns the whole
// line.
func fit(text string, columns int) string {
	if r := []rune(text); columns > 0 && len(r) > columns {
		return string(r[:columns])
	}
	return text
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
