package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
)

// Place is a source or destination of rows.
type Place struct {
	Kind    place.Kind
	Path    string         // the given path, without a SAS
	Source  storage.Source // a table, or an export to read; nil for all other places
	Objects place.Objects  // the files of an export; nil for other kinds of places
	CSV     *place.CSV     // the form of a file or a stream of CSV; nil for JSON lines
}

// Table returns the place if it is a table, and nil otherwise.
func (p Place) Table() *storage.Table {
	t, _ := p.Source.(*storage.Table)
	return t
}

// Export returns the place if it is an export to read, and nil otherwise.
func (p Place) Export() *place.Export {
	e, _ := p.Source.(*place.Export)
	return e
}

// Address identifies the place. For an export that is read, Address also identifies the content.
func (p Place) Address() string {
	switch {
	case p.Source != nil:
		return p.Source.Address()
	case p.Objects != nil:
		return p.Objects.Address()
	}
	return p.Path
}

// Local reports whether the place is an export in a directory.
func (p Place) Local() bool {
	_, ok := p.Objects.(place.Directory)
	return ok
}

// inLines reports whether the place is a file, stdin or stdout. The rows of such a place may be in any order.
func (p Place) inLines() bool { return p.Kind == place.KindFile || p.Kind == place.KindStream }

// CheckEnding refuses an export's path that looks like the name of an unsupported file, such as rows.txt, unless an export has
// already begun there.
func (p Place) CheckEnding(ctx context.Context, option string) error {
	ending := place.UnknownEnding(p.Path)
	if ending == "" || p.Objects == nil {
		return nil
	}
	claimed, err := place.Claimed(ctx, p.Objects)
	switch {
	case claimed:
		return nil
	case err != nil && place.InBlobs(p.Path): // any other path probably leads to a file, so the error below is clearer than err
		return blobHint(fmt.Errorf("--%s: %w", option, err))
	}
	return Hint(Refuse(option, " %s: files that end with %s are not supported", p.Path, ending),
		fmt.Sprintf("a file's name must end with .jsonl, .ndjson or .csv, optionally followed by .gz or .zst; for an export, end the path with a slash: %s/", p.Path))
}

// Read opens an export for reading. It does nothing for other places.
func (p *Place) Read(ctx context.Context, option string) error {
	if p.Objects == nil {
		return nil
	}
	export, err := place.Open(ctx, p.Objects)
	if err == nil {
		p.Source = export
		return nil
	}
	if storage.Passing(err) || storage.Denied(err) {
		return blobHint(fmt.Errorf("--%s: %w", option, err))
	}
	refusal := Refuse(option, ": %w", err)
	claim, claimErr := place.ClaimOf(ctx, p.Objects)
	if claimErr != nil || !errors.Is(err, place.ErrNoExport) {
		return refusal
	}
	with := p.Path
	switch _, notOurs := jobrecord.Parse(claim.Request, "copy"); {
	case notOurs != nil:
		return Hint(refusal, fmt.Sprintf("scan %s of the app began this export; to finish the export, retry the scan: POST /api/scans/%s/retry", claim.ID, claim.ID))
	case !p.Local():
		with = "FILE, the file of its --checkpoint,"
	case !IsThere(filepath.Join(with, place.JournalName)):
		return refusal
	}
	return Hint(refusal, fmt.Sprintf(`this export is not complete; "tablesweep export --resume %s" completes it`, with))
}

// tryRow reads one row of the source, so that a missing table or a bad filter is found before anything is created. It returns the
// service's time if the source is a table, and otherwise this machine's time.
func tryRow(ctx context.Context, s sweep.Spec) (time.Time, error) {
	p, err := firstPage(ctx, s, 1)
	if p.Date.IsZero() {
		p.Date = time.Now().UTC().Truncate(time.Second)
	}
	return p.Date, err
}

func firstPage(ctx context.Context, s sweep.Spec, rows int) (storage.Page, error) {
	p, _, err := s.Source.Read(ctx, storage.RequestOptions{}, storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Select: s.Select, Top: rows})
	if err != nil {
		err = fmt.Errorf("read the table: %w", err)
	}
	return p, err
}

// IsThere reports whether a file, a directory or a link exists.
func IsThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IsDirectory reports whether a path leads to a directory.
func IsDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func makeDirectory(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Refusal{Err: err}
	}
	return nil
}
