package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/problem"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

// logFlags choose the table of streams and the form of the output.
type logFlags struct {
	connectionFlags
	table   string
	address string // the table's address, once the table is open
	json    bool
}

func (f *logFlags) options(asJSON string) []option {
	return append(f.connectionFlags.options("the table's account"), []option{
		{"table", perRun, &f.table, nil, "the table of streams (default: the setting TABLESWEEP_LOG_TABLE, or " + logtail.DefaultTable + ")"},
		{"json", perRun, &f.json, nil, asJSON},
	}...)
}

func (f *logFlags) open(r *call) (*logtail.Streams, error) {
	f.table = cmp.Or(f.table, environment().Get("TABLESWEEP_LOG_TABLE"), logtail.DefaultTable)
	a, err := f.account(r)
	if err != nil {
		return nil, err
	}
	table, err := openTable(a, "table", f.table)
	if err != nil {
		return nil, err
	}
	f.address = table.Address()
	return logtail.New(logtail.Options{Table: table}), nil
}

func logCommand() *cobra.Command {
	return group("log", "Append and read events, the newest first",
		command("append STREAM [EVENT...]", "Append events to a stream", &logAppendOptions{}),
		command("tail STREAM", "Read the newest events of a stream", &logTailOptions{}),
		command("list", "List the streams", &logListOptions{}),
		command("delete STREAM", "Delete a stream with all its events", &logDeleteOptions{}))
}

type logTailOptions struct {
	logFlags
	top    positive // 0 for the default
	since  string
	follow bool
}

// usualTop is the number of events that "tablesweep log tail" prints without --top and --since.
const usualTop = 50

func (o *logTailOptions) options() []option {
	return append(o.logFlags.options("print each event as JSON with its id and time"), []option{
		{"top", perRun, &o.top, nil, fmt.Sprintf("maximum number of events (default %d; with --since, all of them)", usualTop)},
		{"since", perRun, &o.since, nil, "only events after this moment or event: a time, a date, a duration before now such as 15m, or an event's id"},
		{"follow", perRun, &o.follow, nil, "continue with new events as they are appended"},
	}...)
}

func (o *logTailOptions) run(r *call) error {
	stream := r.args[0]
	switch {
	case o.follow && o.since != "" && o.top > 0:
		return usagef("--top and --since both set where --follow begins; give only one of the two")
	case o.follow && o.top > logtail.MaxTop:
		return usagef("--top is %d; with --follow, it must be at most %d", o.top, logtail.MaxTop)
	}
	since, err := sinceOf(o.since, time.Now())
	if err != nil {
		return err
	}
	streams, err := o.open(r)
	if err != nil {
		return err
	}
	show := func(e logtail.Event) error {
		return r.print(o.json, e, "%s %s\n", e.Time.Format("2006-01-02T15:04:05.0000000Z"), e.Record.AppendJSON(nil))
	}
	top := int(cmp.Or(o.top, usualTop))
	if o.follow {
		err := streams.Follow(r.ctx, stream, logtail.FollowOptions{Newest: top, Since: since}, show)
		if r.ctx.Err() != nil {
			return nil // an interrupt is the normal end of --follow
		}
		return asUsage(err)
	}
	if since != "" && o.top == 0 {
		top = -1
	}
	return asUsage(streams.Newest(r.ctx, stream, since, top, show))
}

// sinceOf returns --since in the form of [logtail.EventQuery].
func sinceOf(text string, now time.Time) (string, error) {
	if _, err := logtail.KeyTime(text); text == "" || err == nil {
		return text, nil
	}
	t, err := job.ParseSince(text, now)
	if err != nil {
		return "", usagef("%w, or an event's id", err)
	}
	return t.UTC().Format(time.RFC3339Nano), nil
}

type logListOptions struct{ logFlags }

func (o *logListOptions) options() []option {
	return o.logFlags.options("print each stream as JSON, with its number of shards")
}

func (o *logListOptions) run(r *call) error {
	streams, err := o.open(r)
	if err != nil {
		return err
	}
	l := newListing(r.Out, o.json)
	for cursor, first := "", true; first || cursor != ""; first = false {
		var page []logtail.StreamInfo
		if page, cursor, err = streams.List(r.ctx, logtail.MaxTop, cursor); err != nil {
			return err
		}
		for _, s := range page {
			l.add(s, s.Name)
		}
	}
	return l.end()
}

type logDeleteOptions struct {
	logFlags
	yesFlag
}

func (o *logDeleteOptions) options() []option {
	return append(o.logFlags.options("print the number as JSON"), o.yesFlag.options()...)
}

func (o *logDeleteOptions) run(r *call) error {
	r.changes = true
	streams, err := o.open(r)
	if err != nil {
		return err
	}
	if err := o.confirm(r, fmt.Sprintf("delete all events of stream %q of table %s", r.args[0], o.table), "This cannot be undone. ", "--yes deletes them without asking", "the table's name", o.table); err != nil {
		return err
	}
	r.announceChanges(o.address)
	done, err := streams.Delete(r.ctx, r.args[0], claim.Sent{})
	if err != nil {
		return asUsage(err)
	}
	return r.print(o.json, done, "deleted %s\n", problem.Plural(done.Events, "event"))
}
