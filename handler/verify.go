package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
)

const verifyHelp = `Compare two tables row by row, values and types included, and list what is missing
from the destination, extra in it, or different.

Both tables are read once, in key order, by many requests at a time, in bounded
memory and a temporary file each of at most 2 GiB (TMPDIR says where). --repair copies the rows that are missing or different; rows that are extra
are never touched.

` + connectionHelp

const verifyExamples = `  handler verify --from orders --to orders --to-connection ARCHIVE
  handler verify --from orders --to orders2024 --prefix 2024- --allow-extra
  handler verify --from orders --to orders --to-connection ARCHIVE --repair --json`

// verifyOptions are the flags of the command verify.
type verifyOptions struct {
	rowFlags
	pairFlags
	progressFlag
	repair, allowExtra, json bool
}

func verifyCommand() *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:     "verify",
		Short:   "Compare two tables, and repair the second",
		Long:    verifyHelp,
		Example: verifyExamples,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runVerify(c, o) },
	}
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addStrategy(c)
	o.addSelect(c)
	o.progressFlag.add(c, progress.Auto)
	flags := c.Flags()
	flags.BoolVar(&o.repair, "repair", false, "copy the rows that are missing or different")
	flags.BoolVar(&o.allowExtra, "allow-extra", false, "rows that only the destination has are no difference")
	flags.BoolVar(&o.json, "json", false, "print differences and result as JSON, one object a line")
	return c
}

// errDifferent ends a comparison that found differences.
var errDifferent = errors.New("the tables differ")

func runVerify(c *cobra.Command, o verifyOptions) error {
	limitMemory()
	from, to, err := o.open(c)
	if err != nil {
		return err
	}
	source, err := o.scan(from)
	if err != nil {
		return err
	}
	if err := probe(c.Context(), source); err != nil {
		return err
	}
	meter, err := o.meter(c)
	if err != nil {
		return err
	}
	meter.Phase("verifying")
	destination := source
	destination.Table = to
	options := verify.Options{AllowExtra: o.allowExtra, Workers: o.workers, Watch: meter.Show}
	tell := printDifference(c, meter, o.json)
	if !o.repair {
		r, err := verify.Tables(c.Context(), source, destination, options, tell)
		meter.Clear()
		if err != nil {
			return err
		}
		return tellComparison(c, r, o.json)
	}
	return repair(c, source, destination, o, options, meter)
}

// repairRows and repairBytes are how many rows are repaired at a time, at most, and
// about how many bytes.
const (
	repairRows  = 1000
	repairBytes = 4 << 20
)

// repairs collects rows and has them written now and then.
type repairs struct {
	write func([]storage.Entity) error
	rows  []storage.Entity
	bytes int
}

func (r *repairs) add(e storage.Entity) error {
	e = e.Clone() // or else one row would keep its whole page
	r.rows = append(r.rows, e)
	for _, p := range e.Properties {
		r.bytes += len(p.Value)
	}
	if len(r.rows) < repairRows && r.bytes < repairBytes {
		return nil
	}
	return r.flush()
}

func (r *repairs) flush() error {
	rows := r.rows
	r.rows, r.bytes = nil, 0
	return r.write(rows)
}

// repair compares and copies what is missing or different, as it is found.
func repair(c *cobra.Command, source, destination sweep.Spec, o verifyOptions, options verify.Options, m *progress.Meter) error {
	tell := printDifference(c, m, o.json)
	var failed, written int64
	found := repairs{write: func(rows []storage.Entity) error {
		r, err := action.Copy{Destination: destination.Table, Mode: repairMode(o)}.Copy(c.Context(), rows)
		written += r.Written
		failed += int64(len(r.Failed))
		for _, f := range r.Failed {
			m.Say("failed", f.String())
		}
		return err
	}}
	r, err := verify.Tables(c.Context(), source, destination, options, func(d verify.Difference) error {
		if err := tell(d); err != nil || d.Kind == verify.Extra {
			return err
		}
		return found.add(d.Source)
	})
	if err == nil {
		err = found.flush()
	}
	m.Clear()
	if err != nil {
		return err
	}
	err = tellComparison(c, r, o.json)
	if !o.json {
		fmt.Fprintf(c.OutOrStdout(), "repaired %d rows\n", written)
	}
	switch {
	case failed > 0:
		return failedRows(failed)
	case r.Extra > 0:
		return err
	}
	return nil
}

// repairMode keeps properties that were not compared.
func repairMode(o verifyOptions) action.Mode {
	if o.selected != nil {
		return action.Merge
	}
	return action.Replace
}

// printDifference returns a function that prints differences.
func printDifference(c *cobra.Command, m *progress.Meter, asJSON bool) func(verify.Difference) error {
	e := jsonTo(c.OutOrStdout())
	return func(d verify.Difference) error {
		m.Clear()
		if asJSON {
			return e.Encode(struct {
				Kind         verify.Kind `json:"difference"`
				PartitionKey string
				RowKey       string
				Detail       string `json:"detail,omitempty"`
			}{d.Kind, d.Key.Partition, d.Key.Row, d.Detail})
		}
		detail := ""
		if d.Detail != "" {
			detail = ": " + d.Detail
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "%-9s PartitionKey %q RowKey %q%s\n", d.Kind, d.Key.Partition, d.Key.Row, detail)
		return err
	}
}

// tellComparison prints the result, and returns an error if it is a difference.
func tellComparison(c *cobra.Command, r verify.Result, asJSON bool) error {
	var err error
	if asJSON {
		err = jsonTo(c.OutOrStdout()).Encode(r)
	} else {
		_, err = fmt.Fprintf(c.OutOrStdout(), "compared %d rows by %d queries: %d missing, %d extra, %d different\n", r.Rows, r.Queries, r.Missing, r.Extra, r.Different)
	}
	if err == nil && !r.Same() {
		return errDifferent
	}
	return err
}
