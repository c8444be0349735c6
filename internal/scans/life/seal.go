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

// Exports. A copy into a container writes the files of [place]. A step that has rows puts one blob, whose name has the
// step's id and its content's hash, and its commit records the file. Two deliveries of one step may have read different
// rows: named by the step alone, the late one's blob would replace what the other has committed. The blobs that no commit
// has recorded are leftovers of deliveries that lost. Whoever finds that no step is pending seals the
// export: its last objects follow from what was recorded and from the claim, so all sealers write the same bytes.

const (
	maxFiles = 200_000 // of an export
	program  = "tablesweep"
)

// exports claims the places of scans that export, and completes or withdraws what these have written.
type exports struct {
	scans  *scans.Scans
	ledger *ledger.Ledger
}

// claim makes the place this scan's, before it has another object. It first asks for the scan: if this process dies behind the claim,
// another one starts the scan.
func (ex *exports) claim(ctx context.Context, o *scans.RunnableScan, id ledger.ScanID) error {
	to, claimOf, c := o.Container, place.ClaimOf, place.NewClaim(string(id), scans.JSON(o.Request), o.Began, program)
	if o.Request.IsGroup() {
		claimOf, c = place.TablesClaimOf, place.NewTablesClaim(string(id), scans.JSON(o.Request), o.Began, program)
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
	if member { // its group has looked for it, and has it started
		take = func() error { return place.PutClaim(ctx, to, c) }
	}
	if x := o.Export(); x != nil {
		source := place.Manifest{}.Of(x.Content.Manifest())
		c.Source = &source
	}
	err := scans.CheckFree(ctx, to, member)
	if problem.Of(err).Kind == problem.Conflict {
		if there, err := claimOf(ctx, to); err == nil && there.ID == string(id) { // of a process that has died, or is faster
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

// claimed returns the error of a claim as the caller's, who named the place.
func claimed(err error) error {
	if errors.Is(err, place.ErrTaken) {
		return problem.Conflictf("action.destination", "%v; name another prefix", err)
	}
	return scans.Refusal("action.destination", scans.ExportRefused, err)
}

// collected is a scan that exports, with all that it has written.
type collected struct {
	*scans.RunnableScan
	claim place.Claim
	files []scans.ExportFile // that commits have recorded, in table order
}

// collect returns what a scan has exported. It deletes the data files of deliveries that were not committed, and fails if one that was
// is missing, or the record of one: rows is how many the scan has written. It returns nil for other scans.
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
	if claim.ID != string(s.ID) {
		return nil, fmt.Errorf("%s belongs to scan %s now", to.Address(), claim.ID)
	}
	files, err := ex.exportedFiles(ctx, s.ID, rows)
	if err != nil {
		return nil, err
	}
	return &collected{o, claim, files}, clearLeftovers(ctx, to, files)
}

// seal completes the export of a scan without pending steps, if it is one. It may be repeated, by several at once.
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
		m = m.Of(*claim.Source)
	}
	if err := place.PutSame(ctx, to, place.FilesName, index); err != nil {
		return err
	}
	return place.PutSame(ctx, to, place.ManifestName, all.Manifest(m).JSON(string(s.ID)))
}

// incomplete says why an export can't be completed, and what to do.
func incomplete(err error) string {
	advice := "mend that and retry, or export to another prefix"
	if errors.Is(err, errFilesLost) || errors.Is(err, place.ErrNoExport) || errors.Is(err, fs.ErrNotExist) {
		advice = "start a new scan, to another prefix"
	}
	return scans.Shortened("the export can't be completed: " + err.Error() + "; " + advice)
}

// errFilesLost means that somebody has deleted rows of the state table in which commits recorded data files.
var errFilesLost = errors.New("the state table lacks data files that steps have written")

// exportedFiles returns the files that commits have recorded, in table order, which must have as many rows as were written.
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
			err = fmt.Errorf("more than %d files; export prefixes of the table by themselves", maxFiles)
		}
		return err
	})
	if err == nil && has != rows {
		err = fmt.Errorf("%w: its files have %d rows, of %d", errFilesLost, has, rows)
	}
	slices.SortFunc(files, func(a, b scans.ExportFile) int { return a.File.First.Key().Compare(b.File.First.Key()) })
	return files, err
}

// clearLeftovers deletes files of deliveries that were not committed, unless one that was is missing, or of other length.
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

// tidyExport deletes what deliveries put into an export after it was sealed, or was deleted, and what is left of one that is left out.
func (ex *exports) tidyExport(ctx context.Context, id ledger.ScanID) error {
	found, err := ex.ledger.Snapshot(ctx, id)
	if s := found.Scan; err == nil && (s.State == ledger.Succeeded || s.LeftOut) {
		err = ex.tidyPlace(ctx, s, found.Sums.Written)
	}
	if errors.Is(err, ledger.ErrNotFound) || err != nil && !storage.Passing(err) { // it has become another's
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
		err = place.Withdraw(ctx, to, string(s.ID))
	}
	if err == nil {
		err = place.ClearLate(ctx, to)
	}
	return err
}

// placeOf returns the place of a scan that exports one table, and nil for others.
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

// withdraw takes back the claims of scans that are left out.
func (ex *exports) withdraw(ctx context.Context, out []ledger.Scan) error {
	for _, s := range out {
		to, err := ex.placeOf(s)
		if err == nil {
			err = place.Withdraw(ctx, to, string(s.ID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
