package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"

	"tablesweep/internal/job"
	"tablesweep/internal/task"
)

type deleteOptions struct {
	sourceFlags
	jobFlags
	yesFlag
}

func (o *deleteOptions) options() []option {
	return slices.Concat(o.sourceFlags.options(), o.jobFlags.options(), o.yesFlag.options())
}

func (o *deleteOptions) run(r *call) error {
	r.changes, r.dry = true, o.dryRun.on
	from, err := o.source(r, false)
	if err != nil {
		return err
	}
	if from.Table() != nil && r.point.Resume == "" { // a resumed command checked the table in its first run
		if err := mayChange(r, "table", from.Table()); err != nil {
			return err
		}
	}
	j, err := job.Delete(r.ctx, o.job(r, o.Rows, from))
	if err == nil && r.dry {
		r.announceChanges(from.Address())
	}
	return o.runEach(r, j, err, deleted, func() error {
		err := o.confirm(r, from.Address())
		if err == nil {
			r.announceChanges(from.Address())
		}
		return err
	}, nil)
}

// confirm asks whether to delete, unless --yes is given.
func (o *deleteOptions) confirm(r *call, where string) error {
	what := o.Rows.String()
	if o.rows != "" {
		what = "the rows listed in " + o.rows
	}
	return o.confirmDelete(r, what, where, o.table.path)
}

// yesFlag is the flag --yes of commands that ask before they start.
type yesFlag struct{ yes bool }

func (f *yesFlag) options() []option {
	return []option{{"yes", perRun, &f.yes, nil, "do not ask for confirmation"}}
}

// confirmDelete asks whether to delete rows or records. The question contains the texts of the arguments `rows` and `address`. To agree, the user must type
// the table's name.
func (f *yesFlag) confirmDelete(r *call, rows, address, table string) error {
	return f.confirm(r, fmt.Sprintf("delete %s of %s", rows, address), "This cannot be undone. ", "--dry-run counts the rows, and --yes deletes them without asking", "the table's name", table)
}

// confirm asks whether to do something, unless --yes is given. To agree, the user must type the text of the argument `answer`. The question names this
// text by the argument `description`, such as "the table's name". If stdin is not a terminal, the error contains the argument `hint`.
func (f *yesFlag) confirm(r *call, do, warning, hint, description, answer string) error {
	if f.yes {
		return nil
	}
	if !isTerminal(r.In) {
		return job.Hint(usagef("stdin is not a terminal; cannot ask whether to %s", do), hint)
	}
	fmt.Fprintf(r.toErr, "%s? %sType %s to continue: ", strings.ToUpper(do[:1])+do[1:], warning, description)
	given, err := readAnswer(r.ctx, r.In)
	switch {
	case errors.Is(err, task.ErrInterrupted):
		fmt.Fprintln(r.toErr) // ends the question's line
		return err
	case err != nil || given != answer:
		return fmt.Errorf("nothing was done, because the answer was not %q", answer)
	}
	return nil
}

// isTerminal reports whether in is a terminal, where a user can answer.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// readAnswer reads a line, without the white space around it. If ctx ends first, the error is [task.ErrInterrupted].
func readAnswer(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends when a line is read or the process ends
		text, err := bufio.NewReader(in).ReadString('\n')
		answers <- answer{strings.TrimSpace(text), err}
	}()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-ctx.Done():
		return "", task.ErrInterrupted
	}
}
