package step

import (
	"context"
	"slices"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// draft collects the rows of an export's step: encoded pages, and a few rows that are not yet encoded.
type draft struct {
	*place.FileDraft
	kept  *rowmap.Map
	sizes *scans.Sizes
	at    time.Time
	left  int64 // rows that the map drops
}

// mapRows is the number of rows that are mapped together. More rows could need too much memory, because each mapped row
// may have 1 MiB.
const mapRows = 16

// exportBytes is about the maximum size of a data file's JSON. An invocation that has read this much reads no further
// page.
const exportBytes = 32 << 20

func (x *draft) add(ctx context.Context, _ scan.Step, at time.Time, rows []storage.Row) ([]storage.Row, error) {
	x.at = at
	if x.kept == nil {
		return nil, x.Add(rows)
	}
	before, read, done := x.Text(), 0, 0
	for some := range slices.Chunk(rows, mapRows) {
		kept, err := x.kept.Keep(ctx, some, false)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, scans.Fatal(err)
		}
		x.left += int64(len(some) - len(kept))
		if err := x.Add(kept); err != nil {
			return nil, err
		}
		for _, row := range some {
			read += len(row.JSON())
		}
		done += len(some)
		x.sizes.LearnMapped(done, read, x.Text()-before)
		if x.Text()-before > exportBytes && x.sizes.Top(done) < done { // read the page again, with fewer rows
			return nil, memory.ErrFull
		}
	}
	return nil, nil
}

func (*draft) parallel() bool { return false } // a file must have no gaps

func (x *draft) uses() int64 { return x.Held() }

func (x *draft) room(read int) int { return exportBytes - max(read, x.Text()) }

func (x *draft) end(ctx context.Context, o *stepScan, m scans.Message, _ int, _ *readResult, out *stepResult) (err error) {
	done := &out.done
	done.Written, done.File, err = x.put(ctx, o.files, m.ID)
	done.Rows = done.Written + x.left
	return err
}

// put writes a step's rows as a blob, unless the step has no rows. It returns the number of rows, and the ledger's
// record of the file.
func (x *draft) put(ctx context.Context, to place.Objects, step ledger.StepID) (rows int64, kept []byte, err error) {
	if err := x.Pages.End(nil); err != nil {
		return 0, nil, err
	}
	f, content := x.End(string(step))
	if f.Rows == 0 {
		return 0, nil, nil
	}
	if _, err := to.Put(ctx, f.Path, content); err != nil { // an existing blob is not an error, because it has the same content
		return 0, nil, scans.FatalIfPermanent("write to the container", err)
	}
	if kept = scans.Pack(scans.JSON(scans.ExportFile{At: x.at, File: f})); len(kept) > ledger.MaxFile { // happens if rows have thousands of long property names
		f.Properties = place.Properties{More: true}
		kept = scans.Pack(scans.JSON(scans.ExportFile{At: x.at, File: f}))
	}
	return f.Rows, kept, nil
}
