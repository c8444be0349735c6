package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"tablesweep/internal/logtail"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

const logAppendHelp = `Append events to a stream: those given as arguments, or else the lines of a
file or of stdin, each a JSON object.

Prints the ids of the events, in the order of the events. Lines are appended as they
arrive; waiting lines are appended together, up to 100 at once, all or none. When
the command fails or is interrupted, it says how many events it has appended, and which may
be missing.

` + connectionHelp

const logAppendExamples = `  handler log append orders '{"order":17,"total":9.5}'
  handler log append orders --file orders.jsonl --json
  ./worker | handler log append worker`

// One append has at most maxLines lines, and ends with the line that reaches maxBytes.
// As much is read ahead.
const (
	maxLines = 1000
	maxBytes = maxLineBytes
)

// logAppendOptions are the flags of the command log append.
type logAppendOptions struct {
	logFlags
	file string
}

func logAppendCommand() *cobra.Command {
	var o logAppendOptions
	c := &cobra.Command{
		Use:     "append STREAM [EVENT...]",
		Short:   "Append events to a stream",
		Long:    logAppendHelp,
		Example: logAppendExamples,
		RunE:    func(c *cobra.Command, args []string) error { return runLogAppend(c, o, args) },
	}
	o.add(c)
	c.Flags().StringVar(&o.file, "file", "", "file with an event a line; - is stdin, which is read if there are no events among the arguments")
	c.Flags().BoolVar(&o.json, "json", false, "print each event's id and time as JSON")
	return c
}

func runLogAppend(c *cobra.Command, o logAppendOptions, args []string) error {
	stream, events, err := streamArg(args)
	if err != nil {
		return err
	}
	limitMemory()
	streams, err := o.open(c)
	if err != nil {
		return err
	}
	a := &appender{cmd: c, streams: streams, stream: stream, json: o.json}
	in := c.InOrStdin()
	switch {
	case len(events) > 0 && o.file != "":
		return usagef("give events as arguments or by --file, not both")
	case len(events) > 0:
		for i, text := range events {
			if err := a.add(inputLine{i + 1, []byte(text)}); err != nil {
				return usageError{err}
			}
		}
		return a.flush()
	case o.file != "" && o.file != "-":
		f, err := os.Open(o.file)
		if err != nil {
			return usagef("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	return a.lines(in)
}

// appender appends lines.
type appender struct {
	cmd     *cobra.Command
	streams *logtail.Streams
	stream  string
	json    bool

	waiting []record.Record
	numbers []int // of the waiting events' lines
	bytes   int   // in those lines
	done    int   // events that were appended
}

// lines appends all lines of in. It appends waiting lines at once, without waiting for
// more. After an interrupt it appends the lines that it has read.
func (a *appender) lines(in io.Reader) error {
	ctx, cancel := context.WithCancel(a.cmd.Context())
	defer cancel()
	lines := make(chan inputLine, maxLines)
	room := semaphore.NewWeighted(maxBytes) // for the text of these lines
	var unread error                        // set before lines is closed
	go func() {                             // ends with the input, or the process
		defer close(lines)
		unread = readLines(in, func(l inputLine) error {
			if room.Acquire(ctx, int64(len(l.text))) != nil {
				return sweep.ErrInterrupted
			}
			return sendLine(ctx, lines, l)
		})
	}()
	for {
		if len(lines) == 0 || len(a.waiting) == maxLines || a.bytes >= maxBytes {
			if err := a.flush(); err != nil {
				return err
			}
		}
		select {
		case l, ok := <-lines:
			if !ok {
				return a.failed(errors.Join(a.flush(), unread))
			}
			room.Release(int64(len(l.text)))
			if err := a.add(l); err != nil { // the lines ahead of it are none the worse
				return a.failed(errors.Join(a.flush(), err))
			}
		case <-ctx.Done():
			if len(lines) == 0 {
				return a.failed(sweep.ErrInterrupted)
			}
		}
	}
}

func (a *appender) add(l inputLine) error {
	r, err := record.Parse(l.text)
	if err != nil {
		return fmt.Errorf("event %d: %w", l.number, err)
	}
	a.waiting = append(a.waiting, r)
	a.numbers = append(a.numbers, l.number)
	a.bytes += len(l.text)
	return nil
}

// flush appends the waiting events, and prints their ids. It does so even after an
// interrupt: if a request is broken off, nobody knows whether its events were appended.
func (a *appender) flush() error {
	if len(a.waiting) == 0 {
		return nil
	}
	ctx := context.WithoutCancel(a.cmd.Context())
	events, err := a.streams.Append(ctx, a.stream, a.waiting)
	if storage.HasCode(err, "TableNotFound") { // before anything was written
		if err = a.streams.Prepare(ctx); err == nil {
			events, err = a.streams.Append(ctx, a.stream, a.waiting)
		}
	}
	var partial *logtail.PartialError
	if errors.As(err, &partial) {
		for i, id := range partial.IDs {
			if id == "" {
				fmt.Fprintf(a.cmd.ErrOrStderr(), "tablesweep: failed: event %d may be missing\n", a.numbers[i])
				continue
			}
			a.done++
			if err := a.print(id); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return a.failed(asUsage(err))
	}
	a.done += len(events)
	clear(a.waiting)
	a.waiting, a.numbers, a.bytes = a.waiting[:0], a.numbers[:0], 0
	for _, e := range events {
		if err := a.print(e.ID); err != nil {
			return err
		}
	}
	return nil
}

func (a *appender) print(id string) error {
	if !a.json {
		_, err := fmt.Fprintln(a.cmd.OutOrStdout(), id)
		return err
	}
	at, err := logtail.KeyTime(id)
	if err != nil {
		return err
	}
	return jsonTo(a.cmd.OutOrStdout()).Encode(struct {
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
	}{id, at})
}

// failed adds the number of appended events to an error, which may be nil.
func (a *appender) failed(err error) error {
	if err == nil || a.done == 0 {
		return err
	}
	return hinted{err, fmt.Sprintf("%d events were appended; leave them out when you try again", a.done)}
}
