package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/app/config"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/rowlist"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

func scansCommand() *cobra.Command {
	return group("scans", "Show, start, cancel and retry the scans of a function app",
		command("list", "List scans", &scansListOptions{}),
		command("show ID", "Show a scan's progress: rows, rate, time left, cost", &scanDetail[status.Status]{request: "GET /api/scans/{id}", get: (*engine.Engine).Status, show: printStatus}),
		command("ranges ID", "List the ranges of keys that are done, pending and failed", &scanDetail[status.Ranges]{request: "GET /api/scans/{id}/ranges", get: (*engine.Engine).Ranges, show: printRanges}),
		command("timeline ID", "List a scan's rows and requests per second over time", &scanDetail[status.Timeline]{request: "GET /api/scans/{id}/timeline", get: (*engine.Engine).Timeline, show: printTimeline}),
		command("failed ID", "List the rows that a scan could not write, with the reasons", &scansFailedOptions{}),
		command("start FILE", "Start a scan", &scansStartOptions{}),
		command("cancel ID", "Cancel a scan", &scansCancelOptions{}),
		command("retry ID", "Resume a scan that failed or was canceled", &scansRetryOptions{}))
}

// failedPage is the number of failed rows that one call reads.
const failedPage = 500

// scansFlags are the flags that name the app's own storage.
type scansFlags struct {
	connectionFlags
	table string
	json  bool
}

// options returns a command's options. With --json, the command prints the answer to the API request that the argument
// names, such as GET /api/scans.
func (f *scansFlags) options(request string) []option {
	return append(f.ofStorage(), option{"json", perRun, &f.json, nil, "print the JSON of " + request})
}

func (f *scansFlags) ofStorage() []option {
	return append(f.connectionFlags.options("the app's own storage"),
		option{"state-table", perRun, &f.table, nil, "the app's state table (default: the setting TABLESWEEP_STATE_TABLE, or " + config.DefaultStateTable + ")"})
}

func (f *scansFlags) open(r *call) (*engine.Engine, error) {
	dollars, err := price()
	if err != nil {
		return nil, err
	}
	a, err := f.account(r)
	if err != nil {
		return nil, err
	}
	f.table = cmp.Or(f.table, stateTable())
	t, err := openTable(a, "state-table", f.table)
	if err != nil {
		return nil, err
	}
	return engine.New(scans.Options{Own: a, StateTable: t.Name(), Price: dollars})
}

// explain rewrites an error of the engine for the command's user: where the engine names a field of the request, explain names the flag. For an unknown
// scan, explain adds a hint to list the scans.
func (f *scansFlags) explain(err error) error {
	var p *problem.Error
	switch {
	case storage.HasCode(err, "TableNotFound"):
		return job.Hint(fmt.Errorf("no app keeps its scans in table %s of this account", f.table), "set --connection to the app's own storage, and --state-table to the table of the app's scans")
	case !errors.As(err, &p):
	case p.Kind == problem.Invalid && p.Field != "":
		return usagef("--%s %s", p.Field, p.Detail)
	case p.Kind == problem.NotFound:
		return job.Hint(err, `"tablesweep scans list" shows the newest scans`)
	}
	return err
}

type scansListOptions struct {
	scansFlags
	status.ListQuery
	top          positive
	state, since string
}

func (o *scansListOptions) options() []option {
	return append(o.scansFlags.options("GET /api/scans"), []option{
		{"top", perRun, &o.top, 20, "how many scans to list"},
		{"state", perRun, &o.state, nil, "only scans in this state: running, succeeded, failed or canceled"},
		{"action", perRun, &o.Action, nil, "only scans with this action: copy, count, keys, enqueue, delete or verify"},
		{"table", perRun, &o.ListQuery.Table, nil, "only scans from or to this table"},
		{"name", perRun, &o.Name, nil, "only scans whose name contains this text, ignoring case"},
		{"since", perRun, &o.since, nil, "only scans that started after this moment: a time, a date, or a duration before now such as 24h"},
	}...)
}

func (o *scansListOptions) run(r *call) error {
	if _, err := logtail.ParseTime(o.since, time.Now()); o.since != "" && err != nil {
		return usagef("--since %v", err)
	}
	e, err := o.open(r)
	if err != nil {
		return err
	}
	q := o.ListQuery
	q.State = ledger.State(o.state)
	if o.since != "" {
		now, err := e.Now(r.ctx)
		if err != nil {
			return o.explain(err)
		}
		q.Since, _ = logtail.ParseTime(o.since, now) // parsed above without an error
	}
	l := newListing(r.Out, o.json)
	l.head("ID", "STATE", "ACTION", "BEGAN", "ROWS", "RATE", "NAME", "CAUSE")
	for most := int(o.top); ; {
		q.Top = most
		page, err := e.List(r.ctx, q)
		if err != nil {
			return o.explain(err)
		}
		for _, s := range page.Scans {
			l.add(s, string(s.ID), stateOf(s), whatIsDone(s), s.StartedAt.Format(time.RFC3339), strconv.FormatInt(s.Rows.Scanned, 10), optional(s.Rate, "%.0f/s"), shownName(s.Name), s.Cause)
		}
		most -= len(page.Scans)
		if q.Cursor = page.Cursor; most == 0 || q.Cursor == "" {
			return l.end()
		}
	}
}

// shownName quotes a name that a terminal or a reader could mistake for something else.
func shownName(name string) string {
	if quoted := strconv.QuoteToGraphic(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// scanDetail is a command that prints an engine's report about a scan.
type scanDetail[T any] struct {
	scansFlags
	request string // the API request whose answer --json prints
	get     func(*engine.Engine, context.Context, ledger.ScanID) (T, error)
	show    func(io.Writer, T)
}

func (o *scanDetail[T]) options() []option { return o.scansFlags.options(o.request) }

func (o *scanDetail[T]) run(r *call) error {
	e, err := o.open(r)
	if err != nil {
		return err
	}
	found, err := o.get(e, r.ctx, ledger.ScanID(r.args[0]))
	if err != nil {
		return o.explain(err)
	}
	if o.json {
		return lines.JSON(r.Out).Encode(found)
	}
	t := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	o.show(t, found)
	return t.Flush()
}

type scansFailedOptions struct{ scansFlags }

func (o *scansFailedOptions) options() []option { return o.ofStorage() }

func (o *scansFailedOptions) run(r *call) error {
	e, err := o.open(r)
	if err != nil {
		return err
	}
	out := lines.JSON(r.Out)
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, err := e.Failed(r.ctx, ledger.ScanID(r.args[0]), failedPage, cursor)
		if err != nil {
			return o.explain(err)
		}
		for _, row := range page.Rows {
			if err := out.Encode(rowlist.Line{PartitionKey: row.PartitionKey, RowKey: row.RowKey, Reason: row.Reason}); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == "" && page.Kept < page.Total {
			r.Meter.Print("warning", fmt.Sprintf("%d rows failed, but the scan has recorded only %d of them", page.Total, page.Kept))
		}
	}
	return nil
}

func whatIsDone(s status.Status) string {
	what := s.Action.Type + " " + tableName(s.Source)
	if s.Action.Destination != nil {
		what += " to " + tableName(*s.Action.Destination)
	}
	if q := s.Action.Queue; q != nil {
		what += " to " + tableName(scans.TableRef{Table: q.Name, Connection: q.Connection})
	}
	return what
}

// tableName returns the name of a scan's source or destination. The name begins with the connection, because the
// source and the destination may be in different accounts.
func tableName(t scans.TableRef) string {
	name := cmp.Or(t.Table, t.Tables)
	if t.Container != "" {
		name = strings.TrimSuffix("blob:"+t.Container+"/"+t.Prefix, "/")
	}
	return cmp.Or(t.Connection, storage.HostConnection) + "/" + name
}

// stateOf describes a scan's state and, while it runs, its phase.
func stateOf(s status.Status) string {
	if s.Phase == "" {
		return string(s.State)
	}
	return string(s.State) + ", " + s.Phase
}

// optional formats a number, or returns "" if it is absent.
func optional(n *float64, format string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}

func printStatus(w io.Writer, s status.Status) {
	line := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	known := func(name, format, text string) {
		if text != "" {
			line(name, format, text)
		}
	}
	line("scan", "%s", s.ID)
	line("action", "%s", whatIsDone(s))
	known("prefix", "%q", s.Range.Prefix)
	known("after", "%q", s.Range.After)
	known("before", "%q", s.Range.Before)
	known("filter", "%q", s.Filter)
	known("select", "%q", strings.Join(s.Select, ","))
	known("strategy", "%q", s.Strategy)
	line("state", "%s", stateOf(s))
	known("cause", "%s", s.Cause)
	known("name", "%s", shownName(s.Name))
	line("began", "%s", s.StartedAt.Format(time.RFC3339))
	if s.FinishedAt != nil {
		line("ended", "%s", s.FinishedAt.Format(time.RFC3339))
	}
	gone := ""
	if s.Rows.Gone > 0 {
		gone = fmt.Sprintf(", %d gone from the source before a retry", s.Rows.Gone)
	}
	line("rows", "%d read, %d written, %d failed%s", s.Rows.Scanned, s.Rows.Written, s.Rows.Failed, gone)
	line("steps", "%d done, %d pending", s.Steps.Done, s.Steps.Pending)
	if s.Progress != nil {
		line("progress", "%.0f %%", 100**s.Progress)
	}
	known("rate", "%s", optional(s.Rate, "%.0f rows per second"))
	if s.Leased != nil {
		for _, w := range s.Leased.Waiting {
			line("waiting", "for %s: %s, since %s", w.Connection, w.Cause, w.Since.Format(time.RFC3339))
		}
	}
	if s.SecondsLeft != nil {
		line("left", "%v", time.Duration(*s.SecondsLeft)*time.Second)
	}
	line("requests", "%d, throttled %d times, %s", s.Cost.Requests, s.Throttled, money(s.Cost.Dollars))
	known("error", "%s", s.Error)
	known("note", "%s", s.Note)
}

func printRanges(w io.Writer, r status.Ranges) {
	place := func(p *status.Edge, open string) string {
		if p == nil {
			return open
		}
		return fmt.Sprintf("%q %q", p.PartitionKey, p.RowKey)
	}
	for _, x := range r.Ranges {
		fmt.Fprintf(w, "%s\t%s\tfrom %s\tto %s\n", x.State, problem.Plural(x.Rows, "row"), place(x.From, "the start"), place(x.To, "the end"))
	}
	if r.Sampled {
		fmt.Fprintln(w, "Some ranges shown as done are in fact pending, because there are too many pending steps to read all of them.")
	}
}

func printTimeline(w io.Writer, t status.Timeline) {
	for _, p := range t.Points {
		fmt.Fprintf(w, "%s\t%.0f rows/s\t%.0f requests/s\t%d throttled\n", p.At.Format(time.RFC3339), float64(p.Rows)/t.Interval, float64(p.Requests)/t.Interval, p.Throttled)
	}
}
