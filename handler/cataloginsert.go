package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/lines"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/sweep"
)

const catalogInsertHelp = `Insert records: JSON objects, given as arguments or, one a line, in a file or on stdin.

Each record's line is printed with its outcome: inserted, unchanged if the catalog
had it with the same contents, replaced with --upsert, or refused, for example because the
catalog has it with other contents. A refused record does not stop the others; stderr shows
it with the reason. Several records are written at once, those with the same first
index key one after the other. An interrupted command can be run again.

` + catalogConnectionHelp

const catalogInsertExamples = `  handler catalog insert '{"eid":"F314","npi":1414213562,"lastname":"Faux"}'
  handler catalog insert --file people.jsonl
  handler catalog insert --upsert --json < people.jsonl
  handler catalog insert --upsert --if-match '"17"' '{"eid":"F314","npi":1414213562,"lastname":"Faux"}'`

// insertOptions are the flags of the command catalog insert.
type insertOptions struct {
	*catalogFlags
	file, once   string
	upsert, json bool
	ifMatch      string
	workers      int
}

func catalogInsertCommand(f *catalogFlags) *cobra.Command {
	o := insertOptions{catalogFlags: f}
	c := &cobra.Command{
		Use:     "insert [RECORD…]",
		Short:   "Insert records, or replace them",
		Long:    catalogInsertHelp,
		Example: catalogInsertExamples,
		RunE:    func(c *cobra.Command, args []string) error { return runCatalogInsert(c, o, args) },
	}
	flags := c.Flags()
	flags.StringVar(&o.file, "file", "", "file with a record a line; - is stdin, which is read if there are no records among the arguments")
	flags.StringVar(&o.once, "idempotency-key", "", "of a single record: with the same key and record, nothing is done for a day")
	flags.BoolVar(&o.upsert, "upsert", false, "replace what is there with the same index values and row key")
	flags.StringVar(&o.ifMatch, "if-match", "", ifMatchUsage+"; with --upsert and a single record")
	flags.BoolVar(&o.json, "json", false, "print a JSON object for each record")
	flags.IntVar(&o.workers, "workers", 16, "most records under way at once")
	return c
}

func runCatalogInsert(c *cobra.Command, o insertOptions, args []string) error {
	switch {
	case o.workers < 1:
		return usagef("--workers is %d, want at least 1", o.workers)
	case o.once != "" && (len(args) != 1 || o.upsert):
		return usagef("--idempotency-key is for inserting one record, given as an argument")
	case o.ifMatch != "" && (len(args) != 1 || !o.upsert):
		return usagef("--if-match is for --upsert of one record, given as an argument")
	case len(args) > 0 && o.file != "":
		return usagef("records are arguments or in a --file, not both")
	}
	input, err := o.open(c, args)
	if err != nil {
		return err
	}
	defer input.Close()
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := cat.Prepare(ctx); err != nil {
			return err
		}
		if err := cat.Writable(ctx); err != nil {
			return err
		}
		in := inserter{Catalog: cat, options: o, out: jsonTo(c.OutOrStdout()), cmd: c}
		return in.run(ctx, input)
	})
}

// open returns the input, which has a record a line.
func (o *insertOptions) open(c *cobra.Command, args []string) (io.ReadCloser, error) {
	if len(args) > 0 {
		for i, a := range args {
			if strings.TrimSpace(a) == "" {
				return nil, usagef("argument %d is empty; a record is a JSON object", i+1)
			}
			args[i] = strings.ReplaceAll(a, "\n", " ") // no JSON string has one
		}
		return io.NopCloser(strings.NewReader(strings.Join(args, "\n"))), nil
	}
	if o.file != "" && o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return nil, usagef("--file: %w", err)
		}
		return f, nil
	}
	if in, ok := c.InOrStdin().(*os.File); ok && o.file == "" && isatty.IsTerminal(in.Fd()) {
		return nil, usagef("give records as arguments, or a --file")
	}
	return io.NopCloser(c.InOrStdin()), nil
}

// inserter writes records.
type inserter struct {
	*catalog.Catalog
	options insertOptions
	cmd     *cobra.Command
	out     *json.Encoder
	refused failedRows
}

// outcome is a record's result.
type outcome struct {
	Line    int    `json:"line"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	catalog.Meta
	err error // not about this record alone
}

// refusedRecords ends a command that finished, although some records were refused.
type refusedRecords struct{ failedRows }

func (r refusedRecords) Error() string {
	return fmt.Sprintf("%d records were refused", int64(r.failedRows))
}

func (r refusedRecords) Unwrap() error { return r.failedRows }

// begun is a line whose record is being written.
type begun struct {
	line   int
	record record.Record
	done   chan outcome // gets one
}

// run writes the records of the input, and prints their outcomes in the order of the
// lines. After an interrupt it finishes the records that it has begun.
func (in *inserter) run(ctx context.Context, input io.Reader) error {
	most := 4 * in.options.workers // lines begun and not yet printed, about
	workers, wait := in.start(context.WithoutCancel(ctx), most)
	defer wait()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan begun, most) // in the order of the lines
	var unread error                // set before queue is closed
	go func() {                     // ends with reading, and when the queue was emptied
		defer close(queue)
		unread = lines.Arriving(reading, input, func(some []lines.Line) error {
			for _, l := range some {
				queue <- in.begin(l, workers)
			}
			return nil
		})
	}()
	var failed error
	for b := range queue {
		o := <-b.done
		o.Line = b.line
		if err := in.print(o); err != nil && failed == nil {
			failed = err
			stop() // the outcomes of what has been begun are still printed
		}
	}
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return sweep.ErrInterrupted
	case unread != nil:
		return unread
	case in.refused > 0:
		return refusedRecords{in.refused}
	}
	return nil
}

// start starts the workers, each with a queue of up to most records. wait ends them.
func (in *inserter) start(ctx context.Context, most int) (workers []chan begun, wait func()) {
	var group sync.WaitGroup
	for range in.options.workers {
		work := make(chan begun, most)
		workers = append(workers, work)
		group.Go(func() {
			for b := range work {
				b.done <- in.write(ctx, b.record)
			}
		})
	}
	return workers, func() {
		for _, work := range workers {
			close(work)
		}
		group.Wait()
	}
}

// begin gives a line's record to a worker. Records with the same first index key go to
// the same worker, which keeps their order.
func (in *inserter) begin(l lines.Line, workers []chan begun) begun {
	r, err := record.Parse(l.Text)
	b := begun{line: l.Number, record: r, done: make(chan outcome, 1)}
	first := ""
	if err == nil {
		first, err = in.First(r)
	}
	if err != nil {
		b.done <- outcomeOf(catalog.Written{}, err)
		return b
	}
	workers[index.Shard(first, len(workers))] <- b
	return b
}

func (in *inserter) write(ctx context.Context, r record.Record) outcome {
	if in.options.upsert {
		return outcomeOf(in.Put(ctx, r, matching(in.options.ifMatch)))
	}
	return outcomeOf(in.Insert(ctx, r, in.options.once))
}

const ifMatchUsage = "only if the record has this ETag, or * for any"

// matching returns the condition of the flag --if-match, none without it.
func matching(etag string) (on catalog.Condition) {
	if etag != "" {
		on.Match = []string{etag}
	}
	return on
}

// verbs has a word for each outcome.
var verbs = map[catalog.Outcome]string{catalog.Created: "inserted", catalog.Replaced: "replaced", catalog.Unchanged: "unchanged"}

// outcomeOf separates errors of one record from all others.
func outcomeOf(done catalog.Written, err error) outcome {
	var p *problem.Error
	switch {
	case err == nil:
		return outcome{Outcome: verbs[done.Outcome], Meta: done.Meta}
	case errors.As(err, &p) && problem.Status(err) < 500:
		return outcome{Outcome: "refused", Reason: err.Error()}
	}
	return outcome{err: err}
}

func (in *inserter) print(o outcome) error {
	if o.err != nil {
		return fmt.Errorf("line %d: %w", o.Line, o.err)
	}
	if o.Reason != "" {
		in.refused++
		fmt.Fprintf(in.cmd.ErrOrStderr(), "tablesweep: refused: line %d: %s\n", o.Line, o.Reason)
	}
	if in.options.json {
		return in.out.Encode(o)
	}
	_, err := fmt.Fprintf(in.cmd.OutOrStdout(), "%d %s\n", o.Line, o.Outcome)
	return err
}
