package main

import (
	"fmt"

	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
)

// check returns an error if the flags do not fit these places.
func (o *copyOptions) check(r *call, from, to place.Kind) error {
	inLines, single := from == place.KindFile || from == place.KindStream, to == place.KindFile || to == place.KindStream
	switch {
	case r.name == "export" && (from != place.KindTable || to == place.KindTable):
		return usagef(`export copies only from a table to files, not %s; use "tablesweep copy"`, o.describe(from, to))
	case r.name == "import" && (from == place.KindTable || to != place.KindTable):
		return usagef(`import copies only from files to a table, not %s; use "tablesweep copy"`, o.describe(from, to))
	case inLines && to != place.KindTable:
		return usagef("the rows of --from %s may be in any order, so the destination must be a table; import the file into a table", o.from.path)
	}
	err := o.conflicts(r, append(o.besideAccounts(from, to), []conflict{
		{"rows", o.Many(), "the flag is only for a single table"},
		{"mode failed rows overwrite", to != place.KindTable, "the flag needs a table as the destination"},
		{"compress with-timestamp", to == place.KindTable, "the flag is only for files"},
		{"checkpoint", to == place.KindExport && !place.InBlobs(o.to.path) && !o.Many() && r.part == nil, "an export is its own checkpoint, and --resume DIRECTORY continues it"},
		{"checkpoint resume verify compress", single, "the flag needs an export as the destination"},
		{"since since-overlap state", from != place.KindTable, "only tables record when rows were written"},
		{"dry-run", to != place.KindTable && (o.Many() || !o.mapFlags.given()), "the flag needs a table as the destination"},
		{"dry-run", inLines && !o.mapFlags.given(), "rows in any order are read only once; with --map, it shows the mapped rows"},
		{"checkpoint resume rows verify", inLines, "rows in any order are read only once; to be sure, import them again"},
		{"types", !o.isCSV(from, o.from.path), "the flag is only for a CSV source"},
		{"delimiter", !o.isCSV(from, o.from.path) && !o.isCSV(to, o.to.path), "the flag is only for CSV"},
		{"format", from != place.KindStream && to != place.KindStream, "the flag is only for stdin and stdout; a file's format follows from its name"},
		{"with-timestamp", o.isCSV(to, o.to.path), "CSV always has a column Timestamp"},
		{"overwrite", !o.Many() && r.part == nil, "the flag is only for --all or --tables, which are not given"},
		{"since-overlap", o.Since.Text == "", "the flag is only for --since, which is not given"},
		{"state", o.Since.Text != job.LastSuccess, "the flag is only for --since last, which is not given"},
		{"rows", o.Since.Text != "", "--since works on ranges"},
	}...))
	if err == nil {
		err = o.Check()
	}
	return err
}

// export writes the rows to files. err is the error of the job's preparation, or nil.
func (o *copyOptions) export(r *call, copied job.CopyOptions, j *job.Job, err error) error {
	if err != nil {
		return err
	}
	to := copied.To
	where := to.Path
	if to.Local() {
		r.point.New, r.point.In = where, place.JournalName
	}
	if to.Kind == place.KindStream {
		r.Out = r.toErr
		where = "stdout"
	}
	_, err = r.runJob(j, func(done job.Result) error {
		if to.Objects != nil {
			where = fmt.Sprintf("%s: %d bytes in %s,", to.Address(), done.Export.Bytes, problem.Plural(int64(done.Export.Files), "file"))
		}
		return o.printExport(r, done, to, where)
	})
	if err == nil {
		err = o.verifyCopy(r, copied, j)
	}
	return j.Close(err)
}

// exportResult is the result of an export.
type exportResult struct {
	Rows     int64  `json:"rows"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes,omitempty"` // the size of an export
	To       string `json:"to"`
	Unproven bool   `json:"unproven,omitempty"` // the rows are in a file or a pipe, so nobody notices if rows are missing
	figures
}

func (o *copyOptions) printExport(r *call, done job.Result, to job.Place, where string) error {
	sum := exportResult{Rows: done.Export.Rows, Files: done.Export.Files, Bytes: done.Export.Bytes, To: to.Path, Unproven: to.Objects == nil, figures: figuresOf(done)}
	if !sum.Unproven {
		sum.To = to.Address()
	}
	return r.print(o.json, sum, "exported %s to %s in %.1f s: %.0f rows/s, %s, %d throttled\n", problem.Plural(sum.Rows, "row"), where,
		sum.Seconds, sum.RowsPerSec, problem.Plural(sum.Requests, "request"), sum.Throttles)
}
