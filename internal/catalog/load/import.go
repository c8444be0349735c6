package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// Note reports the progress of an import. It is also a line of the checkpoint's journal.
type Note struct {
	File        string    `json:"file"`
	Size        int64     `json:"size"`
	Modified    time.Time `json:"modified"`
	Rows        int       `json:"rows"` // handled rows of the file, including unchanged and failed rows
	Inserted    int       `json:"inserted"`
	Replaced    int       `json:"replaced,omitempty"`
	Unchanged   int       `json:"unchanged"`
	Failed      int       `json:"refused"`
	FailedBytes int64     `json:"failedBytes"` // length of the file of failed rows
}

// Progress returns the newest note in an import's checkpoint.
func Progress(of *journal.File) (last Note, err error) {
	err = journal.Events(of, func(n Note) error {
		last = n
		return nil
	})
	return last, err
}

// ImportOptions configure [Import]. Each function may be nil.
type ImportOptions struct {
	Checkpoint *journal.File  // records the progress, and may contain the progress of an earlier run; nil for no checkpoint
	Resumed    func(rows int) // called with the number of rows that earlier runs have handled
	Failed     func(Row, error)
	CSV        place.CSV  // the form of a CSV file
	Upsert     bool       // replaces the contents of existing records
	Noted      func(Note) // called about every 20 rows with the progress, possibly by several goroutines concurrently

	// Patience is the time for which Import repeats a write while the storage does not answer. If Patience is 0, Import tries each
	// write once, and the write ends at the catalog's own deadline.
	Patience time.Duration

	most int // maximum number of rows between two notes; 0 means maxRows
}

// Import writes the records of a file into a catalog, and failed rows into FILE.failed. After an interrupt, Import finishes the
// rows that it has begun, and returns [task.ErrInterrupted]. After an interrupt or a crash, the next call continues from the
// checkpoint.
func Import(ctx context.Context, c *catalog.Catalog, file *os.File, o ImportOptions) (Note, error) {
	im := importer{ImportOptions: o, catalog: c, path: file.Name()}
	rows, err := im.open(ctx, file)
	if err == nil {
		err = im.run(ctx, rows)
	}
	if o.Checkpoint != nil {
		err = cmp.Or(err, o.Checkpoint.Close())
	}
	return im.done, err
}

// shownRows is the number of rows between two progress messages.
const shownRows = 20

type importer struct {
	ImportOptions
	catalog *catalog.Catalog
	path    string
	done    Note
	header  []byte // nil unless the file is CSV
	failed  *os.File
}

// open reads the progress of an earlier run, if any, and returns a reader of the remaining rows.
func (im *importer) open(ctx context.Context, file *os.File) (*rowReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	im.done = Note{File: im.path, Size: info.Size(), Modified: info.ModTime().UTC()}
	rows, err := newRowReader(ctx, im.path, file, im.CSV)
	if err != nil {
		return nil, err
	}
	im.header = rows.header
	if im.Checkpoint == nil {
		return rows, nil
	}
	if im.Checkpoint.Resumed() {
		earlier, err := Progress(im.Checkpoint)
		if err != nil {
			return nil, err
		}
		if earlier.Size != im.done.Size || !earlier.Modified.Equal(im.done.Modified) {
			return nil, problem.Invalidf("", "%s has changed since its import began; import the file again from the start", im.path)
		}
		im.done = earlier
		if im.Resumed != nil {
			im.Resumed(earlier.Rows)
		}
		if err := rows.skip(earlier.Rows); err != nil {
			return nil, err
		}
	}
	return rows, im.Checkpoint.Renew([]any{im.done})
}

func (im *importer) run(ctx context.Context, rows *rowReader) (err error) {
	if im.failed, err = file.PathAt(im.path + FailedExt).Open(os.O_CREATE | os.O_RDWR); err != nil {
		return err
	}
	defer im.failed.Close()
	if info, err := im.failed.Stat(); err != nil {
		return err
	} else if info.Size() < im.done.FailedBytes {
		return problem.Invalidf("", "%s is missing, or shorter than before; restore this file. If you moved the imported file, also move this file to the same directory", im.failed.Name())
	}
	if err := im.failed.Truncate(im.done.FailedBytes); err != nil { // removes failed rows that this run imports again
		return err
	}
	err = rows.forEach(ctx, cmp.Or(im.most, maxRows), func(rows []Row) error { return im.insert(context.WithoutCancel(ctx), rows) })
	if err != nil {
		return err
	}
	if im.done.Failed == 0 {
		_ = os.Remove(im.failed.Name())
	}
	return nil
}

// note reports the progress after every shownRows rows, and after the last row of each call of insert. The argument `start` is
// the progress before the call of insert.
func (im *importer) note(start Note, written, all int) {
	if im.Noted != nil && (written%shownRows == 0 || written == all) {
		start.Rows += written
		im.Noted(start)
	}
}

func (im *importer) write(ctx context.Context, r record.Record) (catalog.Written, error) {
	if im.Upsert {
		return im.catalog.Put(ctx, r, catalog.Condition{})
	}
	return im.catalog.Insert(ctx, r, "")
}

func (im *importer) insert(ctx context.Context, rows []Row) error {
	var failed bytes.Buffer
	before, done := im.done, im.done
	var written atomic.Int64
	write := func(ctx context.Context, r record.Record) (catalog.Written, error) {
		for began := time.Now(); ; {
			result, err := im.write(ctx, r)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) >= im.Patience {
				im.note(before, int(written.Add(1)), len(rows))
				return result, err
			}
		}
	}
	err := Write(ctx, im.catalog, rows, write, func(row Row, r catalog.Result) error {
		switch {
		case r.Err != nil:
			done.Failed++
			if im.header != nil && done.FailedBytes == 0 && failed.Len() == 0 {
				failed.Write(append(im.header, '\n'))
			}
			failed.Write(append(row.Text, '\n'))
			if im.Failed != nil {
				im.Failed(row, r.Err)
			}
		case r.Outcome == catalog.Unchanged:
			done.Unchanged++
		case r.Outcome == catalog.Replaced:
			done.Replaced++
		default:
			done.Inserted++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := im.failed.WriteAt(failed.Bytes(), done.FailedBytes); err != nil {
		return err
	}
	if err := im.failed.Sync(); err != nil {
		return err
	}
	done.FailedBytes += int64(failed.Len())
	done.Rows += len(rows)
	im.done = done
	if im.Checkpoint != nil {
		im.Checkpoint.Append(done)
		if err := im.Checkpoint.Flush(); err != nil {
			return err
		}
		if err := im.Checkpoint.Sync(); err != nil {
			return err
		}
	}
	im.note(done, 0, 0)
	return nil
}
