package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/file"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/jobrecord"
	"tablesweep/internal/sweep/journal"
	"tablesweep/internal/sweep/progress"
)

const exportHelp = `Write the rows of a table to files: copy, from a table to a directory or a file.

A directory becomes an export: compressed files of JSON lines in table order, and a manifest,
which is written last. Import, verify, scan, count, keys and enqueue read it like a table. A killed
export continues with --resume DIRECTORY, behind its last whole file. It is no snapshot: rows
written meanwhile may or may not be in it, and the manifest says between which times.

` + placeHelp + `

` + sinceHelp + `

` + manyJobHelp + ` The directory of the exports is its own checkpoint, unless another is given.

` + connectionHelp

const exportExamples = `  handler export --from orders --to backup/orders
  handler export --resume backup/orders
  handler export --from orders --to orders.jsonl.zst --prefix 2026-
  handler export --from orders --to backup/changed --since last --state orders.state
  handler export --from orders --to - | jq .Total
  handler export --all --to backup/`

const importHelp = `Write the rows of files to a table: copy, from a directory, a file or stdin to a table. The table is
created if it is missing.

A page of an export is proved by its hash before a row of it is written, and a prefix is read without the rest.
The rows of other files may stand in any order, and nothing proves that such a file is whole. Of rows with the same key,
the last one wins; with --mode merge, the others are merged before it, and with skip and fail, the first one stays if they
stand far apart. They are counted as repeated.

` + placeHelp + `

` + mirrorHelp + `

` + jobHelp + `

` + manyJobHelp + `

` + connectionHelp

const importExamples = `  handler import --from backup/orders --to orders
  handler import --from backup/orders --to orders --prefix 2026- --mode skip --checkpoint orders.ckpt
  handler scan --table orders | handler import --from - --to orders2
  handler import --tables 'logs*' --from backup/ --to-connection ARCHIVE`

func exportCommand() *cobra.Command {
	return copyPlaces("export", "Write a table to files, as a backup", exportHelp, exportExamples, "mode", "failed", "rows", "dry-run", "mirror", "yes", "max-deletes")
}

func importCommand() *cobra.Command {
	return copyPlaces("import", "Write files of rows to a table", importHelp, importExamples, "compress", "with-timestamp", "since", "overlap", "state")
}

// fits refuses what does not fit the places.
func (o *copyOptions) fits(c *cobra.Command, from, to place.Kind) error {
	inLines, single := from == place.KindFile || from == place.KindStream, to == place.KindFile || to == place.KindStream
	switch {
	case c.Name() == "export" && (from != place.KindTable || to == place.KindTable):
		return usagef("export is from a table to files, not %s; copy takes all", o.asked(from, to))
	case c.Name() == "import" && (from == place.KindTable || to != place.KindTable):
		return usagef("import is from files to a table, not %s; copy takes all", o.asked(from, to))
	case inLines && to != place.KindTable:
		return usagef("--from %s may have rows in any order, which only a table takes; import it first", o.from)
	}
	err := o.refuse(c,
		unfit{o.many(), "it is about one table", []string{"rows", "dry-run", "mirror"}},
		unfit{to != place.KindTable, "only tables take it as destinations", []string{"mode", "failed", "rows", "dry-run", "mirror"}},
		unfit{to != place.KindTable && !place.InBlobs(o.to), "it is about a destination in an account", []string{"to-connection"}},
		unfit{to == place.KindTable, "it says how files are written", []string{"compress", "with-timestamp"}},
		unfit{to == place.KindExport && !place.InBlobs(o.to) && !o.many(), "an export is its own checkpoint, and --resume DIRECTORY continues it", []string{"checkpoint"}},
		unfit{single, "only an export takes it", []string{"checkpoint", "resume", "verify", "compress"}},
		unfit{from != place.KindTable && !place.InBlobs(o.from), "it is about a source in an account", []string{"from-connection"}},
		unfit{from != place.KindTable, "only tables know when their rows were written", []string{"since", "overlap", "state"}},
		unfit{inLines, "rows in any order are read once; import them again to be sure", []string{"checkpoint", "resume", "rows", "verify", "dry-run", "mirror"}},
		unfit{o.since == "", "it is about --since, which is not given", []string{"overlap"}},
		unfit{o.since != lastSuccess, "it is about --since last, which is not given", []string{"state"}},
		unfit{o.since != "", "--since is about ranges", []string{"rows"}},
		unfit{!o.mirror, "it is about --mirror, which is not given", []string{"yes", "max-deletes"}},
		unfit{o.mirror, "an extra row of --mirror would be one that has not changed", []string{"since"}},
		unfit{o.mirror, "--mirror copies rows whole, in the place of what is there", []string{"mode", "select"}},
		unfit{o.mirror, "--mirror compares all rows of the range", []string{"rows", "verify"}},
		unfit{o.mirror, "--mirror changes rows; verify compares and changes nothing", []string{"dry-run"}},
		unfit{o.mirror, "--mirror lists failed rows on stderr", []string{"failed"}},
		unfit{o.mirror, "an interrupted --mirror is run again", []string{"checkpoint", "resume"}},
	)
	if err == nil {
		err = o.sinceFlags.check(&o.jobFlags)
	}
	if err == nil {
		err = o.mirrorFlags.check(c, o)
	}
	return err
}

// write writes the rows of a sweep to files.
func (o *copyOptions) write(c *cobra.Command, s sweep.Spec, from, to opened) error {
	limitMemory(c)
	meter, err := o.meter(c)
	if err != nil {
		return err
	}
	if s.Raw = false; o.timestamp && s.Select != nil {
		s.Select = append(slices.Clone(s.Select), "Timestamp")
	}
	w := rowsOut{copyOptions: o, cmd: c, meter: meter, spec: s, from: from, began: time.Now(), options: o.options(c)}
	if o.timestamp {
		w.options.Spill = -1 // it keeps no Timestamp
	}
	if to.objects != nil {
		err = w.export(to.objects, place.Options{Compress: place.Compress(o.compress), Timestamp: o.timestamp, FileBytes: sharedBy(c).fileBytes})
	} else {
		err = w.single(to)
	}
	meter.End()
	if err == nil && o.verify {
		if err := to.read(c.Context(), "to"); err != nil {
			return err
		}
		return o.verifyCopy(c, s, to.source, meter, to.export().Manifest().Rows)
	}
	return err
}

// rowsOut is a sweep whose rows are written to files.
type rowsOut struct {
	*copyOptions
	cmd     *cobra.Command
	meter   *progress.Meter
	spec    sweep.Spec
	from    opened
	began   time.Time
	options sweep.Options
}

func (w *rowsOut) each(add func([]storage.Entity) error) (sweep.Totals, error) {
	w.meter.Phase("exporting")
	return sweep.Each(w.cmd.Context(), w.spec, w.options, add)
}

// export makes an export, or goes on with one.
func (w *rowsOut) export(to place.Objects, o place.Options) error {
	ctx := w.cmd.Context()
	started, err := moment(ctx, w.spec)
	if err != nil {
		return err
	}
	writer, err := w.begin(ctx, to, o, started)
	var m place.Manifest
	var totals sweep.Totals
	if err == nil {
		if w.spec.From = writer.Seal.Last(); !writer.Whole {
			totals, err = w.each(writer.Add)
		}
		var finished time.Time
		if err = writer.End(err); err == nil {
			finished, err = moment(ctx, w.spec)
		}
		if err == nil {
			m, err = writer.Complete(ctx, w.manifest(writer.Claim.StartedAt, finished, o.Compress))
		}
	}
	if errors.Is(err, place.ErrComplete) { // it died before that was noted
		var e *place.Export
		if e, err = place.Open(ctx, to); err == nil {
			m = e.Manifest()
		}
	}
	w.meter.End()
	if err != nil && w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	switch {
	case errors.Is(err, place.ErrTaken):
		return hinted{usagef("--to: %w", err), "name a place that is empty or does not exist; --resume continues an export that is not complete"}
	case errors.Is(err, journal.ErrLocked), errors.Is(err, journal.ErrDamaged):
		return refused(err)
	case errors.Is(err, place.ErrDamaged):
		return hinted{err, "bring the files back and resume, or export anew to another place"}
	case err != nil && w.file == nil && writer != nil:
		return hinted{err, fmt.Sprintf("it can't be resumed without --checkpoint FILE; name another prefix, or delete the blobs of %s", to.Address())}
	}
	return w.ended(w.cmd, blobHint(err), func() error {
		where := fmt.Sprintf("%s: %s of %d bytes,", to.Address(), progress.Plural(int64(m.Files.Count), "file"), m.Bytes)
		return w.summary(exportResult{Rows: m.Rows, Files: m.Files.Count, Bytes: m.Bytes, To: to.Address()}, where, totals)
	})
}

// begin begins an export, or goes on with one. A directory has its journal in it, and may move with it.
func (w *rowsOut) begin(ctx context.Context, to place.Objects, o place.Options, started time.Time) (_ *place.Writer, err error) {
	places, path := []string{w.spec.Source.Address()}, w.checkpoint
	if dir, local := to.(place.Directory); local {
		if w.checkpoint, path = string(dir), filepath.Join(string(dir), place.JournalName); w.resume == "" && isThere(path) {
			return nil, fmt.Errorf("%s %w: it has %s", to.Address(), place.ErrTaken, place.JournalName)
		}
		if err := makeDirectory(string(dir)); err != nil {
			return nil, err
		}
	} else {
		places = append(places, to.Address())
	}
	if o.Journal, err = w.beginAt(w.cmd, path, places...); err != nil {
		return nil, err
	}
	if w.resume != "" {
		return place.Resume(ctx, to, o)
	}
	if w.file == nil {
		w.record = jobrecord.New(jobName(w.cmd), recordFlags(w.cmd, ""), places, "")
	}
	return place.Create(ctx, to, place.NewClaim(uuid.NewString(), w.record.JSON(), started, program()), o)
}

func (w *rowsOut) manifest(started, finished time.Time, c place.Compress) place.Manifest {
	m := place.Manifest{
		Filter: w.filter, Select: w.selected, StartedAt: started, FinishedAt: finished, Program: program(),
		Encoding: place.EncodingNames{Format: "jsonl", Compress: c},
	}
	if w.bounds.Prefix+w.bounds.After+w.bounds.Before != "" {
		m.Range = &w.bounds
	}
	if w.changes.filter() != "" {
		m.Since = &w.changes.from
	}
	if e := w.from.export(); e != nil {
		return m.Of(e.Manifest())
	}
	t := w.from.table()
	m.Table, m.Account = t.Name(), strings.TrimSuffix(t.String(), "/"+t.Name())
	return m
}

func program() string { return "handler " + thisBuild().Version }

// single writes one file, or stdout.
func (w *rowsOut) single(to opened) error {
	if to.kind == place.KindFile {
		if err := mustNotExist("to", to.path); err != nil {
			return err
		}
	}
	if err := probe(w.cmd.Context(), w.spec); err != nil {
		return err
	}
	c, err := place.NewCodec(place.CompressOf(to.path))
	if err != nil {
		return err
	}
	var totals sweep.Totals
	write := func(out io.Writer) (err error) {
		pages := place.NewStream(out, c, w.timestamp)
		totals, err = w.each(pages.Add)
		if err = pages.End(err); err == nil && totals.Rows == 0 { // nothing at all is no compressed file
			_, err = out.Write(c.Encode(nil))
		}
		return err
	}
	if to.kind == place.KindStream {
		err = write(w.cmd.OutOrStdout())
		w.cmd.SetOut(w.cmd.ErrOrStderr())
	} else {
		err = file.At(to.path).Create(write)
	}
	w.meter.End()
	if err != nil {
		return err
	}
	where := to.path
	if to.kind == place.KindStream {
		where = "stdout"
	}
	return w.summary(exportResult{Rows: totals.Rows, Files: 1, To: to.path, Unproven: true}, where, totals)
}

// unproven ends the last line about a file or a pipe: one that was cut between two rows looks whole.
const unproven = "; only an export in a directory or in blobs proves that it is whole"

// exportResult has what an export wrote.
type exportResult struct {
	Rows       int64   `json:"rows"`
	Files      int     `json:"files"`
	Bytes      int64   `json:"bytes,omitempty"`    // of an export
	To         string  `json:"to"`                 // where they are
	Unproven   bool    `json:"unproven,omitempty"` // of a file or a pipe: nothing shows that these are all rows
	Requests   int64   `json:"requests"`
	Throttles  int64   `json:"throttles"`
	Seconds    float64 `json:"seconds"`       // of this run
	RowsPerSec float64 `json:"rowsPerSecond"` // of this run
}

// summary prints what was exported, and where it is.
func (w *rowsOut) summary(r exportResult, where string, t sweep.Totals) error {
	end := ""
	if r.Unproven {
		end = unproven
	}
	r.Requests, r.Throttles, r.Seconds = t.Requests, t.Throttles, time.Since(w.began).Round(time.Millisecond).Seconds()
	r.RowsPerSec = math.Round(float64(t.Rows) / max(r.Seconds, 0.001))
	return w.print(w.cmd, r, "exported %s to %s in %.1f s: %.0f rows/s, %s, %d throttled%s\n", progress.Plural(r.Rows, "row"), where,
		r.Seconds, r.RowsPerSec, progress.Plural(r.Requests, "request"), r.Throttles, end)
}

const importAgain = "import all of it again: a row that is there with the same content counts as written"

// takeLines copies rows in any order to a table.
func (o *copyOptions) takeLines(c *cobra.Command, s sweep.Spec, from opened, work action.Copy) error {
	var in io.ReadCloser
	if from.kind == place.KindFile {
		var err error
		if in, err = place.OpenFile(c.Context(), from.path); err != nil {
			return unopened("--from", err)
		}
		defer in.Close()
	}
	j, err := o.start(c, o.options(c), work.Destination.Create)
	if err != nil {
		return err
	}
	if in == nil {
		in = arriving(c.Context(), c.InOrStdin())
		defer in.Close()
	}
	j.lines.Unproven = true
	j.meter.Phase("importing")
	var all sweep.Totals
	j.options.Watch = func(p sweep.Progress) {
		now := all
		now.Add(p.Totals)
		p.Totals, p.Run, p.Ended = now, now, false
		j.ran = now
		j.meter.Show(p)
	}
	windows := 0
	err = place.Windows(in, s.Filter == "" && s.Select == nil, work.Mode == action.Merge, func(rows place.Rows, repeated int) error {
		windows++
		j.lines.Repeated += int64(repeated)
		j.lines.MoreRepeated = windows > 1
		s.Source = rows
		t, err := sweep.Do(c.Context(), s, j.options, work)
		all.Add(t)
		return err
	})
	if c.Context().Err() != nil && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) { // who wrote to stdin may have been interrupted, too
		err = sweep.ErrInterrupted
	}
	if err != nil && !errors.Is(err, sweep.ErrInterrupted) && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%s: %w", from.path, err)
	}
	if errors.Is(err, sweep.ErrInterrupted) || errors.Is(err, storage.ErrAway) {
		err = hinted{err, importAgain}
	}
	if err = j.finish(all, err, 0, "imported"); exitCode(err) == exitFailedRows {
		err = hinted{err, "--failed FILE lists all of them; when the cause is removed, " + importAgain}
	}
	return err
}

// arriving returns what arrives from in, until ctx ends, even while in keeps it waiting.
func arriving(ctx context.Context, in io.Reader) io.ReadCloser {
	out, to := io.Pipe()
	go func() { // ends with the input, or the process
		_, err := io.Copy(to, in)
		to.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { to.CloseWithError(sweep.ErrInterrupted) })
	return out
}

// jobName is a command's name in checkpoints: those of copy are good for its aliases.
func jobName(c *cobra.Command) string {
	if name := c.Name(); c.Parent() != c.Root() || name != "export" && name != "import" { // catalogs have these, too
		return name
	}
	return "copy"
}
