package life

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// In an export, each step that reads rows writes one blob. When the step is committed, the ledger records the blob as a
// file. The blob's name contains the step's id and the content's hash. If the name contained only the id, a late delivery
// that has read other rows would replace the committed blob. If the ledger does not record a blob, the delivery that
// wrote the blob did not commit. A process that finds no pending step completes the export, which the code calls sealing.
// The objects that complete the export depend only on the recorded files and the claim, so all processes that seal the
// export write the same bytes.

const (
	maxFiles = 200_000 // in an export
	program  = "tablesweep"
)

// exports claims the places of exports, and completes or withdraws exports.
type exports struct {
	scans  *scans.Scans
	ledger *ledger.Ledger
}

// claim puts the scan's claim into the place of the export, which must still be empty. If the scan is not a member, claim
// first makes a start request. So if this process dies after the claim, another process starts the scan.
func (ex *exports) claim(ctx context.Context, o *scans.RunnableScan, id ledger.ScanID) error {
	to, claimOf, c := o.Container, place.ClaimOf, place.NewClaim(place.ExportID(id), scans.JSON(o.Request), o.Began, program)
	if o.Request.IsGroup() {
		claimOf, c = place.TablesClaimOf, place.NewTablesClaim(place.ExportID(id), scans.JSON(o.Request), o.Began, program)
	}
	member := id.IsMember()
	begun := func() (bool, error) {
		_, err := ex.ledger.Scan(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return true, err
	}
	take := func() error { return place.Take(ctx, to, c, begun) }
	if member { // its group has claimed the place and starts the member
		take = func() error { return place.PutClaim(ctx, to, c) }
	}
	if x := o.Export(); x != nil {
		source := place.Manifest{}.WithSource(x.Content.Manifest())
		c.Source = &source
	}
	err := scans.CheckFree(ctx, to, member)
	if problem.Of(err).Kind == problem.Conflict {
		if there, err := claimOf(ctx, to); err == nil && there.ID == place.ExportID(id) { // another process has claimed the place for this scan, and may have died
			if is, err := begun(); is || err != nil {
				return err
			}
			return claimed(take())
		}
	}
	if err != nil {
		return scans.Refusal("action.destination", scans.ExportRefused, err)
	}
	if !member {
		if _, err := ex.ledger.AddStartRequest(ctx, ledger.StartRequest{ID: id, Request: scans.JSON(o.Request)}); err != nil {
			return err
		}
	}
	return claimed(take())
}

// claimed turns an error from claiming a place into an error about the request's field action.destination.
func claimed(err error) error {
	if errors.Is(err, place.ErrTaken) {
		return problem.Conflictf("action.destination", "%v; name another prefix", err)
	}
	return scans.Refusal("action.destination", scans.ExportRefused, err)
}

// collected is an export with the files that it has written.
type collected struct {
	*scans.RunnableScan
	claim place.Claim
	files []scans.ExportFile // recorded by commits, in table order
}

// collect returns the files that a scan has exported. If the scan is not an export of one table, the result is nil.
// collect deletes the files of deliveries that did not commit. It fails if a committed file or its record is missing.
// The argument `rows` is the number of rows that the scan has written.
func (ex *exports) collect(ctx context.Context, s ledger.Scan, rows int64) (*collected, error) {
	r, err := scans.ParseStored(s.Request)
	if err != nil || !r.Exports() || r.IsGroup() {
		return nil, err
	}
	o, err := ex.scans.Open(r)
	if err != nil {
		return nil, scans.FatalIfOwn(err)
	}
	to := o.Container
	claim, err := place.ClaimOf(ctx, to)
	if err != nil {
		return nil, err
	}
	if claim.ID != place.ExportID(s.ID) {
		return nil, fmt.Errorf("the export %s now belongs to scan %s", to.Address(), claim.ID)
	}
	files, err := ex.exportedFiles(ctx, s.ID, rows)
	if err != nil {
		return nil, err
	}
	return &collected{o, claim, files}, clearLeftovers(ctx, to, files)
}

// seal completes the export of a scan without pending steps. Several processes may call seal for the same scan, and
// each may call it several times. For a scan that is not an export, seal does nothing.
func (ex *exports) seal(ctx context.Context, s ledger.Listed) error {
	x, err := ex.collect(ctx, s.Scan, s.Totals.Written)
	if err != nil || x == nil {
		return err
	}
	to, r, claim := x.Container, x.Request, x.claim
	var all place.Seal
	var index []byte
	m := place.Manifest{
		Table: r.Source.Table, Account: x.Account, Filter: r.Filter, Select: r.Select, Mapped: r.Action.Map != "", StartedAt: claim.StartedAt, FinishedAt: claim.StartedAt,
		Encoding: place.EncodingNames{Format: "jsonl", Compress: place.Zstd}, Program: claim.Program,
	}
	if r.Range != (key.Bounds{}) {
		m.Range = &r.Range
	}
	for _, f := range x.files {
		line, err := all.Add(f.File)
		if err != nil {
			return err
		}
		index = append(index, line...)
		if f.At.After(m.FinishedAt) {
			m.FinishedAt = f.At
		}
	}
	if claim.Source != nil {
		m = m.WithSource(*claim.Source)
	}
	if err := place.PutSame(ctx, to, place.FilesName, index); err != nil {
		return err
	}
	return place.PutSame(ctx, to, place.ManifestName, all.Manifest(m).JSON(place.ExportID(s.ID)))
}

// incomplete explains why an export cannot be completed, and what to do.
func incomplete(err error) string {
	advice := "correct the cause and retry, or export to another prefix"
	if errors.Is(err, errFilesLost) || errors.Is(err, place.ErrNoExport) || errors.Is(err, fs.ErrNotExist) {
		advice = "start a new scan with another prefix"
	}
	return scans.Shortened("the export cannot be completed: " + err.Error() + "; " + advice)
}

var errFilesLost = errors.New(ledger.RowsLost + "rows that list data files of the export")

// exportedFiles returns the files that commits have recorded, in table order. It fails if the argument `rows` is not the
// number of rows in these files.
func (ex *exports) exportedFiles(ctx context.Context, id ledger.ScanID, rows int64) ([]scans.ExportFile, error) {
	var files []scans.ExportFile
	has := int64(0)
	err := ex.ledger.Files(ctx, id, func(packed []byte) error {
		var f scans.ExportFile
		text, err := scans.Unpack(packed)
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		has += f.File.Rows
		if files = append(files, f); err == nil && len(files) > maxFiles {
			err = fmt.Errorf("the export needs more than %d files; export the table in several scans, each with its own prefix", maxFiles)
		}
		return err
	})
	if err == nil && has != rows {
		err = fmt.Errorf("%w: the listed files contain %d of the export's %d rows", errFilesLost, has, rows)
	}
	slices.SortFunc(files, func(a, b scans.ExportFile) int { return a.File.First.Key().Compare(b.File.First.Key()) })
	return files, err
}

// clearLeftovers deletes the files of deliveries that did not commit. It fails if a committed file is missing or does
// not have the recorded length.
func clearLeftovers(ctx context.Context, to place.Objects, files []scans.ExportFile) error {
	committed := map[string]int64{}
	for _, f := range files {
		committed[f.File.Path] = f.File.Bytes
	}
	var leftovers []string
	err := place.CheckObjects(ctx, to, place.DataPrefix, committed, func(name string) {
		if place.Leftover(name) {
			leftovers = append(leftovers, name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range leftovers {
		if err := to.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// tidyExport tidies up a scan's export. If a group has left out the scan's table, tidyExport deletes all files of the
// export. If the scan has succeeded, tidyExport deletes only the files that late deliveries of steps wrote after the
// export was sealed or deleted.
func (ex *exports) tidyExport(ctx context.Context, id ledger.ScanID) error {
	found, err := ex.ledger.Snapshot(ctx, id)
	if s := found.Scan; err == nil && (s.State == ledger.Succeeded || s.LeftOut) {
		err = ex.tidyPlace(ctx, s, found.Sums.Written)
	}
	if errors.Is(err, ledger.ErrNotFound) || err != nil && !storage.Passing(err) { // a permanent error means that the place now belongs to another export
		return nil
	}
	return err
}

func (ex *exports) tidyPlace(ctx context.Context, s ledger.Scan, written int64) error {
	if s.State == ledger.Succeeded {
		if x, err := ex.collect(ctx, s, written); err == nil || storage.Passing(err) || x != nil {
			return err
		}
	}
	to, err := ex.placeOf(s)
	if err != nil || to == nil {
		return err
	}
	if s.LeftOut {
		err = place.Withdraw(ctx, to, place.ExportID(s.ID))
	}
	if err == nil {
		err = place.ClearLate(ctx, to)
	}
	return err
}

// placeOf returns the place of a scan that exports one table, or nil for other scans.
func (ex *exports) placeOf(s ledger.Scan) (*place.Blobs, error) {
	r, err := scans.ParseStored(s.Request)
	if err != nil || !r.Exports() || r.IsGroup() {
		return nil, err
	}
	o, err := ex.scans.Open(r)
	if err != nil {
		return nil, scans.FatalIfOwn(err)
	}
	return o.Container, nil
}

// withdraw removes the claims of the members that their group has left out.
func (ex *exports) withdraw(ctx context.Context, out []ledger.Scan) error {
	for _, s := range out {
		to, err := ex.placeOf(s)
		if err == nil {
			err = place.Withdraw(ctx, to, place.ExportID(s.ID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
