package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"tablesweep/internal/file"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

type logAppendOptions struct {
	logFlags
	file string
}

func (o *logAppendOptions) options() []option {
	return append(o.logFlags.options("print each event's id and time as JSON"),
		option{"file", perRun, &o.file, nil, "file with one event per line; \"-\" is stdin, the default if no event is given as an argument"})
}

func (o *logAppendOptions) run(r *call) error {
	if len(r.args) == 0 || r.args[0] == "" {
		return usagef("the stream's name is missing")
	}
	stream, events := r.args[0], r.args[1:]
	memory.Limit()
	r.changes = true
	streams, err := o.open(r)
	if err != nil {
		return err
	}
	r.announceChanges(o.address)
	a := &appender{call: r, streams: streams, stream: stream, json: o.json}
	in := r.In
	switch {
	case len(events) > 0 && o.file != "":
		return usagef("give events as arguments or with --file, not both")
	case len(events) > 0:
		for i, text := range events {
			if err := a.add(lines.Line{Number: i + 1, Text: []byte(text)}); err != nil {
				return usageError(err)
			}
		}
		return a.withCount(a.flush())
	case o.file != "" && o.file != "-":
		f, err := file.OpenPipe(r.ctx, o.file, os.O_RDONLY, 0)
		if err != nil {
			return job.Unopened("file", err)
		}
		defer f.Close()
		in = f
	}
	return a.appendLines(in)
}

type appender struct {
	call    *call
	streams *logtail.Streams
	stream  string
	json    bool

	waiting []record.Record
	numbers []int // the line numbers of the waiting events
	done    int   // appended events
}

// appendLines appends the input's lines as they arrive. After an interrupt, it still appends the lines that it has read.
func (a *appender) appendLines(in io.Reader) error {
	err := lines.Arriving(a.call.ctx, in, func(some []lines.Line) error {
		for _, l := range some {
			if err := a.add(l); err != nil { // the lines before l are still appended
				return errors.Join(a.flush(), err)
			}
		}
		return a.flush()
	})
	if ended := a.call.ctx.Err(); ended != nil && (errors.Is(err, ended) || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = task.ErrInterrupted
	}
	return a.withCount(err)
}

func (a *appender) add(l lines.Line) error {
	r, err := record.Parse(l.Text)
	if err != nil {
		return fmt.Errorf("event %d: %w", l.Number, err)
	}
	a.waiting = append(a.waiting, r)
	a.numbers = append(a.numbers, l.Number)
	return nil
}

// flush appends the waiting events, and prints their ids. An interrupt does not stop flush, because flush would not know whether a canceled request
// appended the events.
func (a *appender) flush() error {
	if len(a.waiting) == 0 {
		return nil
	}
	var unprinted error
	err := a.streams.AppendEach(context.WithoutCancel(a.call.ctx), a.stream, record.Decoded(a.waiting), func(i int, id string) {
		if id == "" {
			fmt.Fprintf(a.call.toErr, "tablesweep: failed: event %d may be missing\n", a.numbers[i])
			return
		}
		a.done++ // the event is appended, even if its id cannot be printed
		if unprinted == nil {
			unprinted = a.print(id)
		}
	})
	clear(a.waiting)
	a.waiting, a.numbers = a.waiting[:0], a.numbers[:0]
	return cmp.Or(unprinted, asUsage(err))
}

func (a *appender) print(id string) error {
	if !a.json {
		_, err := fmt.Fprintln(a.call.Out, id)
		return err
	}
	at, err := logtail.KeyTime(id)
	if err != nil {
		return err
	}
	return lines.JSON(a.call.Out).Encode(struct {
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
	}{id, at})
}

func (a *appender) withCount(err error) error {
	if err == nil || a.done == 0 {
		return err
	}
	return job.Hint(err, fmt.Sprintf("already appended: %s; when you try again, append only the other events", problem.Plural(int64(a.done), "event")))
}
