package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/task"
)

// deleteOptions are the flags of the command delete.
type deleteOptions struct {
	sourceFlags
	jobFlags
	yesFlag
}

func deleteCommand() *cobra.Command {
	var o deleteOptions
	c := command("delete", "Delete rows by range and filter", o.run)
	o.sourceFlags.add(c)
	o.jobFlags.add(c)
	o.yesFlag.add(c)
	return c
}

func (o *deleteOptions) run(c *cobra.Command) error {
	from, err := o.source(c)
	if err != nil {
		return err
	}
	if from.Table() != nil {
		changed(c, from.Address())
	}
	j, err := job.Delete(c.Context(), o.options(c, o.Rows, from))
	return o.each(c, j, err, "deleted", func() error { return o.confirm(c, from.Address()) }, nil)
}

// confirm asks whether to delete, unless --yes is given.
func (o *deleteOptions) confirm(c *cobra.Command, where string) error {
	what := o.Rows.String()
	if o.rows != "" {
		what = "the rows listed in " + o.rows
	}
	return o.askDelete(c, what, where, o.table)
}

// yesFlag is the flag --yes of commands that ask before they start.
type yesFlag struct{ yes bool }

func (f *yesFlag) add(c *cobra.Command) { c.Flags().BoolVar(&f.yes, "yes", false, "don't ask") }

// askDelete asks whether to delete something of a table.
func (f *yesFlag) askDelete(c *cobra.Command, what, where, table string) error {
	return f.ask(c, fmt.Sprintf("delete %s of %s", what, where), "This can't be undone. ", "--dry-run shows how many they are, --yes deletes them without asking", table)
}

// ask asks whether to do something, unless the flag is set; the answer yes is the table's
// name. hint is the advice if stdin is not a terminal.
func (f *yesFlag) ask(c *cobra.Command, do, warning, hint, table string) error {
	if f.yes {
		return nil
	}
	if !asks(c) {
		return job.Hint(usagef("stdin is not a terminal; cannot confirm to %s", do), hint)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s? %sType the table's name to go on: ", strings.ToUpper(do[:1])+do[1:], warning)
	answer, err := readAnswer(c.Context(), c.InOrStdin())
	switch {
	case errors.Is(err, task.ErrInterrupted):
		fmt.Fprintln(c.ErrOrStderr()) // ends the question's line
		return err
	case err != nil || answer != table:
		return fmt.Errorf("nothing done: the answer was not %q", table)
	}
	return nil
}

// asks reports whether there is somebody to ask.
func asks(c *cobra.Command) bool {
	in, ok := c.InOrStdin().(*os.File)
	return ok && isatty.IsTerminal(in.Fd())
}

// readAnswer reads a line, without white space around it, unless ctx ends before there
// is one.
func readAnswer(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the line, or the process
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
