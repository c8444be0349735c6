package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
)

// Exported counts the rows and files that were written.
type Exported struct {
	Rows  int64
	Files int
	Bytes int64 // bytes of an export; 0 for a single file
}

// exporter writes the rows of a sweep to files.
type exporter struct {
	CopyOptions
	spec    sweep.Spec
	changes *changes
	started time.Time // when the export started, by the service's clock
}

func (o CopyOptions) toFiles(ctx context.Context, s sweep.Spec, only *changes) (*Job, error) {
	o.Timestamp = o.Timestamp || o.To.CSV != nil // CSV always has a column for the Timestamp
	if o.Timestamp && s.Select != nil {
		s.Select = append(slices.Clone(s.Select), "Timestamp")
	}
	x := &exporter{CopyOptions: o, spec: s, changes: only}
	j := &Job{options: o.Options, spec: s, run: x.export}
	if o.To.Objects == nil {
		j.run = x.exportSingle
	}
	if o.To.Kind == place.KindFile && IsThere(o.To.Path) {
		return nil, Refuse("to", ": %s: %w", o.To.Path, fs.ErrExist)
	}
	var err error
	if x.started, err = tryRow(ctx, s); err != nil || o.To.Objects == nil {
		return j, refuseMoved("to", err)
	}
	j.Places = []string{s.Source.Address()}
	if !o.To.Local() {
		j.Places = append(j.Places, o.To.Address())
	} else if path := o.To.journal(); !o.Resumed && IsThere(path) { // an export in a directory has its journal in that directory
		return nil, placeTaken(fmt.Errorf("%s %w: it contains %s", o.To.Address(), place.ErrTaken, place.JournalName))
	} else if err := o.checkOutside(ctx); err != nil {
		return nil, err
	} else if err := makeDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return j, nil
}

// checkOutside fails if the export would lie within another export. [place.Create] checks this again, but only after the directory is made.
func (o CopyOptions) checkOutside(ctx context.Context) error {
	if o.Member || o.Resumed {
		return nil
	}
	err := place.CheckOutside(ctx, o.To.Objects)
	if errors.Is(err, place.ErrTaken) {
		err = placeTaken(fmt.Errorf("%s %w", o.To.Address(), err))
	}
	return err
}

// journal returns the path of the journal of an export in a directory.
func (p Place) journal() string {
	return filepath.Join(string(p.Objects.(place.Directory)), place.JournalName)
}

func placeTaken(err error) error {
	return Hint(Refuse("to", ": %w", err), "name a place that is empty or does not exist; to continue an incomplete export, use --resume")
}

// eachRow calls `add` with the rows after the key `last`, or with all rows if `last` is nil. The function `fileBytes`, which may be nil, returns
// how many bytes of memory `add` uses for the current file.
func (x *exporter) eachRow(ctx context.Context, last *key.Key, fileBytes func() int64, add func([]storage.Row) error) (sweep.Totals, error) {
	s, o := x.spec, x.sweepOptions(x.Rows)
	s.From, o.Beside = last, fileBytes
	x.Meter.Phase("exporting")
	t, err := sweep.Each(ctx, s, o, add)
	return t, refuseMoved("to", err)
}

func (x *exporter) export(ctx context.Context, record Record, began time.Time) (r Result, err error) {
	o := place.Options{Compress: x.Compress, Timestamp: x.Timestamp, FileBytes: x.FileBytes, Journal: record.Journal, Member: x.Member}
	var w *place.Writer
	if x.Resumed {
		w, err = place.Resume(ctx, x.To.Objects, o)
	} else {
		w, err = place.Create(ctx, x.To.Objects, place.NewClaim(place.ExportID(uuid.NewString()), record.Request, x.started, x.Program), o)
	}
	var m place.Manifest
	if err == nil {
		if !w.Whole {
			r.Totals, err = x.eachRow(ctx, w.Seal.Last(), w.Holds, w.Add)
		}
		var finished time.Time
		if err = w.End(err); err == nil {
			finished, err = tryRow(ctx, x.spec)
		}
		if err == nil {
			m, err = w.Complete(ctx, x.manifest(w.Claim.StartedAt, finished))
		}
	}
	if errors.Is(err, place.ErrComplete) { // an earlier process completed the export, but died before it recorded the completion
		var e *place.Export
		if e, err = place.Open(ctx, x.To.Objects); err == nil {
			m = e.Manifest()
		}
	}
	x.Meter.End()
	x.printChanges()
	r.Export, r.Now, r.Took = Exported{m.Rows, m.Files.Count, m.Bytes}, r.Totals, time.Since(began)
	switch {
	case errors.Is(err, place.ErrTaken):
		return r, placeTaken(err)
	case errors.Is(err, journal.ErrLocked), errors.Is(err, journal.ErrDamaged):
		return r, BadCheckpoint(err)
	case errors.Is(err, place.ErrDamaged):
		return r, Hint(err, "restore the files and resume, or start a new export to another place")
	case err != nil && record.Journal == nil && w != nil:
		return r, Hint(err, fmt.Sprintf("without --checkpoint FILE, the export cannot be resumed; to start over, name another prefix, or delete the blobs of %s", x.To.Address()))
	}
	r.Begun = true
	return r, blobHint(err)
}

func (x *exporter) manifest(started, finished time.Time) place.Manifest {
	m := place.Manifest{
		Filter: x.Filter, Select: x.Select, Mapped: x.Map != nil, StartedAt: started, FinishedAt: finished, Program: x.Program,
		Encoding: place.EncodingNames{Format: "jsonl", Compress: x.Compress},
	}
	if x.Bounds != (key.Bounds{}) {
		m.Range = &x.Bounds
	}
	if x.changes.filter() != "" {
		m.Since = &x.changes.from
	}
	if e := x.From.Export(); e != nil {
		return m.WithSource(e.Manifest())
	}
	t := x.From.Table()
	m.Table, m.Account = t.Name(), strings.TrimSuffix(t.String(), "/"+t.Name())
	return m
}

// exportSingle writes one file, or a stream.
func (x *exporter) exportSingle(ctx context.Context, _ Record, began time.Time) (r Result, err error) {
	c, err := place.NewCodec(place.CompressOf(x.To.Path))
	if err != nil {
		return r, err
	}
	write := func(out io.Writer) (err error) {
		if x.To.CSV != nil {
			r.Totals, err = x.writeCSV(*x.To.CSV, c, out, func(_ bool, fn func([]storage.Row) error) (sweep.Totals, error) { return x.eachRow(ctx, nil, nil, fn) })
			return err
		}
		pages := place.NewStream(out, c, x.Timestamp)
		r.Totals, err = x.eachRow(ctx, nil, nil, pages.Add)
		if err = pages.End(err); err == nil && r.Totals.Rows == 0 { // a compressed file must not be empty, so it gets a page without rows
			_, err = out.Write(c.Encode(nil))
		}
		return err
	}
	if x.To.Kind == place.KindStream {
		err = write(x.Out)
	} else {
		err = file.PathAt(x.To.Path).Create(write)
	}
	x.Meter.End()
	x.printChanges()
	r.Export, r.Now, r.Took = Exported{Rows: r.Totals.Rows, Files: 1}, r.Totals, time.Since(began)
	return r, err
}
