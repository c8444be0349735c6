package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/sweep"
)

// noteExt ends the name of the file that has an import's progress.
const noteExt = ".import"

// noteVersion is the version of that file's form.
const noteVersion = 1

// Note is an import's progress, as its file has it.
type Note struct {
	Version     int       `json:"version"`
	Size        int64     `json:"size"`
	Modified    time.Time `json:"modified"`
	Catalog     string    `json:"catalog"` // its table and schema
	Rows        int       `json:"rows"`    // of the file, that are done with
	Inserted    int       `json:"inserted"`
	Unchanged   int       `json:"unchanged"`
	Refused     int       `json:"refused"`
	FailedBytes int64     `json:"failedBytes"` // of the file of refused rows
}

// ImportOptions configure [Import]. It calls what is not nil.
type ImportOptions struct {
	Restart bool           // begin anew, not where an earlier import ended
	Resumed func(rows int) // after this many rows that are done with
	Refused func(Row, error)
	Noted   func(Note) // whenever the progress was noted

	most int // rows between two notes; 0 means maxRows
}

// Import inserts the records of a file into a catalog. Meanwhile, its progress stands in
// FILE.import, and refused rows in FILE.failed. If it is interrupted or dies, the next Import
// goes on from there. After an interrupt it ends the rows that it has begun, and returns
// [sweep.ErrInterrupted].
func Import(ctx context.Context, c *catalog.Catalog, file *os.File, o ImportOptions) (Note, error) {
	im := importer{ImportOptions: o, catalog: c, path: file.Name()}
	rows, err := im.open(file)
	if err == nil {
		err = im.run(ctx, rows)
	}
	return im.done, err
}

// importer is one call of Import.
type importer struct {
	ImportOptions
	catalog *catalog.Catalog
	path    string
	done    Note
	header  []byte // of CSV
	failed  *os.File
}

// open reads the progress of an earlier import. It returns a reader of the rows behind it.
func (im *importer) open(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	im.done = Note{Version: noteVersion, Size: info.Size(), Modified: info.ModTime().UTC(), Catalog: im.catalog.Index.String() + " " + im.catalog.Schema.String()}
	rows, err := NewFile(im.path, file)
	if err != nil {
		return nil, err
	}
	im.header = rows.header
	text, err := os.ReadFile(im.path + noteExt)
	if errors.Is(err, os.ErrNotExist) || im.Restart {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	var earlier Note
	if err := json.Unmarshal(text, &earlier); err != nil || earlier.Version != noteVersion {
		return nil, problem.Invalidf("", "%s%s is damaged or of a later version: remove it, or give --restart", im.path, noteExt)
	}
	if earlier.Size != im.done.Size || !earlier.Modified.Equal(im.done.Modified) || earlier.Catalog != im.done.Catalog {
		return nil, problem.Invalidf("", "%s has changed since its import began, or the import was into another catalog: --restart starts over", im.path)
	}
	im.done = earlier
	if im.Resumed != nil {
		im.Resumed(earlier.Rows)
	}
	return rows, rows.skip(earlier.Rows)
}

// run imports the rows, and removes the files that are no longer needed.
func (im *importer) run(ctx context.Context, rows *File) (err error) {
	if im.failed, err = os.OpenFile(im.path+RefusedExt, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	defer im.failed.Close()
	if err := im.failed.Truncate(im.done.FailedBytes); err != nil { // what was not noted is done again
		return err
	}
	err = rows.each(ctx, cmp.Or(im.most, maxRows), func(rows []Row) error { return im.insert(context.WithoutCancel(ctx), rows) })
	if err != nil {
		return err
	}
	if im.done.Refused == 0 {
		_ = os.Remove(im.failed.Name()) // it is empty
	}
	if err := os.Remove(im.path + noteExt); !errors.Is(err, os.ErrNotExist) { // a file without records has none
		return err
	}
	return nil
}

// insert inserts rows, and notes the progress.
func (im *importer) insert(ctx context.Context, rows []Row) error {
	var refused bytes.Buffer
	done := im.done
	write := func(ctx context.Context, r record.Record) (catalog.Written, error) {
		return im.catalog.Insert(ctx, r, "")
	}
	err := Write(ctx, im.catalog, rows, write, func(row Row, r catalog.Result) error {
		switch {
		case r.Err != nil:
			done.Refused++
			if im.header != nil && done.FailedBytes == 0 && refused.Len() == 0 {
				refused.Write(append(im.header, '\n'))
			}
			refused.Write(append(row.Text, '\n'))
			if im.Refused != nil {
				im.Refused(row, r.Err)
			}
		case r.Outcome == catalog.Unchanged:
			done.Unchanged++
		default:
			done.Inserted++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := im.failed.WriteAt(refused.Bytes(), done.FailedBytes); err != nil {
		return err
	}
	if err := im.failed.Sync(); err != nil {
		return err
	}
	done.FailedBytes += int64(refused.Len())
	done.Rows += len(rows)
	im.done = done
	text, err := json.Marshal(done)
	if err == nil {
		err = sweep.ReplaceFile(im.path+noteExt, text)
	}
	if err == nil && im.Noted != nil {
		im.Noted(done)
	}
	return err
}
