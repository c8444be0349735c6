package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/local/demo"
)

type demoOptions struct {
	instances   int
	json, watch bool
}

func (o *demoOptions) options() []option {
	return []option{
		{"instances", perRun, &o.instances, 3, "number of handler processes"},
		{"json", perRun, &o.json, nil, "print the report as JSON"},
		{"watch", perRun, &o.watch, nil, "print the address of the console, and keep the app running"},
	}
}

func (o *demoOptions) run(r *call) error {
	root, err := appRoot()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	options := demo.Options{Root: root, Executable: self, Instances: o.instances, Progress: r.toErr}
	if o.watch {
		var printed error
		options.Watch = func(report demo.Report) {
			printed = o.show(r, report)
			<-r.ctx.Done()
		}
		_, err := demo.Run(r.ctx, options)
		return cmp.Or(err, printed)
	}
	report, err := demo.Run(r.ctx, options)
	if err != nil {
		return err
	}
	return o.show(r, report)
}

func (o *demoOptions) show(r *call, report demo.Report) error {
	if o.json {
		e := lines.JSON(r.Out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return printReport(r.Out, report)
}

func printReport(w io.Writer, r demo.Report) error {
	fmt.Fprintf(w, "\nCopied %d rows in %d partitions by %d handler processes in %.1f s: %d steps, %d queries, %d storage requests.\nVerified: the copy is exact.\n\n",
		r.Copy.Rows, r.Partitions, len(r.Processes), r.Copy.Seconds, r.Copy.Steps, r.Copy.Queries, r.Copy.Transactions)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "count by\trows\tqueries\t÷ optimum\tsteps\trequests\tseconds\t")
	for _, s := range r.Strategies {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%d\t%d\t%.1f\t\n", s.Name, s.Rows, s.Queries, s.QueriesPerOptimum, s.Steps, s.Transactions, s.Seconds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nThe copy stored hints about where to divide the table, and the count by %s used them. The copy itself made %d queries.\n", r.Strategies[0].Name, r.Copy.Queries)
	return nil
}

// appRoot returns the closest directory with a host.json: the working directory, or one above it.
func appRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "host.json")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("neither %s nor a directory above it has a host.json; run the command in a clone of the project, or in the directory of an unpacked tablesweep_VERSION_app.tar.gz", start)
		}
	}
}
