package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/logtail"
	"tablesweep/internal/logtail/claim"
)

// logFlags name the table of streams, and how results are printed.
type logFlags struct {
	tableFlags
	jsonFlag
}

// add adds the flags. asJSON says what --json prints.
func (f *logFlags) add(c *cobra.Command, asJSON string) {
	f.tableFlags.add(c)
	f.jsonFlag.add(c, asJSON)
	c.Flags().Lookup("table").Usage = "the table of streams (default that of the setting TABLESWEEP_LOG_TABLE, or " + logtail.DefaultTable + ")"
}

func (f *logFlags) open(c *cobra.Command) (*logtail.Streams, error) {
	f.table = cmp.Or(f.table, environment().Get("TABLESWEEP_LOG_TABLE"), logtail.DefaultTable)
	a, err := f.account(c)
	if err != nil {
		return nil, err
	}
	table, err := openTable(a, "table", f.table)
	if err != nil {
		return nil, err
	}
	changed(c, table.Address())
	return logtail.New(logtail.Options{Table: table}), nil
}

func logCommand() *cobra.Command {
	return group("log", "Append and read events, the newest first",
		logAppendCommand(), logTailCommand(), logListCommand(), logDeleteCommand())
}

// logTailOptions are the flags of the command log tail.
type logTailOptions struct {
	logFlags
	top    int
	since  string
	follow bool
}

func logTailCommand() *cobra.Command {
	var o logTailOptions
	c := withArgs("tail STREAM", "Read the newest events of a stream", o.run)
	flags := c.Flags()
	o.add(c, "print each event as JSON with its id and time")
	flags.IntVar(&o.top, "top", 50, "most events; with --since, all of them by default")
	flags.StringVar(&o.since, "since", "", "only events newer than this: a time, a date, how long ago, or an id")
	flags.BoolVar(&o.follow, "follow", false, "go on with events as they are appended")
	return c
}

func (o *logTailOptions) run(c *cobra.Command, args []string) error {
	stream, err := onlyArg(c, args, "the stream's name")
	topGiven := c.Flags().Changed("top")
	switch {
	case err != nil:
		return err
	case o.top < 1:
		return usagef("--top is %d, want at least 1", o.top)
	case o.follow && o.since != "" && topGiven:
		return usagef("--follow begins with the --top newest or with all --since; give one of them")
	case o.follow && o.top > logtail.MaxTop:
		return usagef("--top is %d, want at most %d with --follow", o.top, logtail.MaxTop)
	}
	if o.since, err = sinceOf(o.since, time.Now()); err != nil {
		return err
	}
	streams, err := o.open(c)
	if err != nil {
		return err
	}
	show := func(e logtail.Event) error {
		return o.print(c, e, "%s %s\n", e.Time.Format("2006-01-02T15:04:05.0000000Z"), e.Record.AppendJSON(nil))
	}
	if o.follow {
		err := streams.Follow(c.Context(), stream, logtail.FollowOptions{Newest: o.top, Since: o.since}, show)
		if c.Context().Err() != nil {
			return nil // that is how following ends
		}
		return asUsage(err)
	}
	if o.since != "" && !topGiven {
		o.top = -1
	}
	return asUsage(streams.Newest(c.Context(), stream, o.since, o.top, show))
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

func logListCommand() *cobra.Command {
	var f logFlags
	c := command("list", "List the streams", func(c *cobra.Command) error {
		streams, err := f.open(c)
		if err != nil {
			return err
		}
		l := newListing(c, f.json)
		for cursor, first := "", true; first || cursor != ""; first = false {
			var page []logtail.StreamInfo
			if page, cursor, err = streams.List(c.Context(), logtail.MaxTop, cursor); err != nil {
				return err
			}
			for _, s := range page {
				l.add(s, s.Name)
			}
		}
		return l.end()
	})
	f.add(c, "print each stream as JSON, with its number of shards")
	return c
}

func logDeleteCommand() *cobra.Command {
	var f logFlags
	var yes yesFlag
	c := withArgs("delete STREAM", "Delete a stream with all its events", func(c *cobra.Command, args []string) error {
		stream, err := onlyArg(c, args, "the stream's name")
		if err != nil {
			return err
		}
		streams, err := f.open(c)
		if err != nil {
			return err
		}
		if err := yes.askDelete(c, fmt.Sprintf("all events of stream %q", stream), "table "+f.table, f.table); err != nil {
			return err
		}
		done, err := streams.Delete(c.Context(), stream, claim.Sent{})
		if err != nil {
			return asUsage(err)
		}
		return f.print(c, done, "deleted %d events\n", done.Events)
	})
	f.add(c, "print the number as JSON")
	yes.add(c)
	return c
}
