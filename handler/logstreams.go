package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/logtail"
	"tablesweep/internal/logtail/claim"
)

func logListCommand() *cobra.Command {
	var f logFlags
	c := command("list", "List the streams",
		"List the streams, one name a line.\n\n"+connectionHelp,
		"  handler log list",
		func(c *cobra.Command) error {
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
					if err := l.add(s, s.Name); err != nil {
						return err
					}
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
	c := withArgs("delete STREAM", "Delete a stream with all its events",
		"Delete a stream with all its events. The command asks before it starts, unless --yes is\ngiven. Events that are appended meanwhile may stay.\n\n"+connectionHelp,
		"  handler log delete orders",
		func(c *cobra.Command, args []string) error {
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
