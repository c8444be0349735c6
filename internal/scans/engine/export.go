package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Exports. A copy into a container writes the files of [place]. A step that has rows puts one blob, whose name has the
// step's id and its content's hash, and its commit records the file. Two deliveries of one step may have read different
// rows: named by the step alone, the late one's blob would replace what the other has committed. The blobs that no commit
// has recorded are leftovers of deliveries that lost. Whoever finds that no step is pending seals the
// export: its last objects follow from what was recorded and from the claim, so all sealers write the same bytes.

const (
	// exportBytes is the JSON of a data file, about: an invocation that has read so much reads no further page.
	exportBytes = 32 << 20
	// exportQueries is how many queries an invocation of an export makes.
	exportQueries = 16
	maxFiles      = 200_000 // of an export
	program       = "tablesweep"
)

// exportFile is what the ledger keeps of a step's data file.
type exportFile struct {
	At   time.Time  `json:"at"` // when the step's last page was read, by the service's clock
	File place.File `json:"file"`
}

// exporting writes the rows of each step to a file in a container.
type exporting struct {
	codec *place.Codec
	kept  *rowmap.Map // makes of the rows others with their keys; nil if they stay as they are
}

func (exporting) queries() int { return exportQueries }

// draft collects the rows of a step. It holds no more than encoded pages, and few that are not.
type draft struct {
	*place.FileDraft
	kept  *rowmap.Map
	sizes *sizes
	at    time.Time
	left  int64 // rows that the map makes nothing of
}

// mapRows is how many rows a map makes others of until they are added to the file: each may become one of 1 MiB.
const mapRows = 16

func (x *draft) page(ctx context.Context, _ scan.Step, at time.Time, rows []storage.Row) ([]storage.Row, error) {
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
			return nil, &fatalError{err}
		}
		x.left += int64(len(some) - len(kept))
		if err := x.Add(kept); err != nil {
			return nil, err
		}
		for _, row := range some {
			read += len(row.JSON())
		}
		done += len(some)
		x.sizes.become(done, read, x.Text()-before)
		if x.Text()-before > exportBytes && x.sizes.top(done) < done { // the page is read again, with fewer rows
			return nil, memory.ErrFull
		}
	}
	return nil, nil
}

func (*draft) wide() bool { return false } // a file has no gap: all pages lie ahead of all steps

func (x *draft) uses() int64 { return x.Held() }

func (x *draft) room(read int) int { return exportBytes - max(read, x.Text()) }

func (x *draft) end(ctx context.Context, o *stepScan, m message, _ int, _ *yield, out *outcome) (err error) {
	done := &out.done
	done.Written, done.File, err = x.put(ctx, o.files, m.id)
	done.Rows = done.Written + x.left
	return err
}

// put writes the file of a step as a blob, and returns its rows and what the ledger keeps of it: nothing, if there are no rows.
func (x *draft) put(ctx context.Context, to place.Objects, step string) (rows int64, kept []byte, err error) {
	if err := x.Pages.End(nil); err != nil {
		return 0, nil, err
	}
	f, content := x.End(step)
	if f.Rows == 0 {
		return 0, nil, nil
	}
	if _, err := to.Put(ctx, f.Path, content); err != nil { // one of that name has this content
		return 0, nil, fatalIfPermanent("write to the container", err)
	}
	if kept = pack(jsonOf(exportFile{x.at, f})); len(kept) > ledger.MaxFile { // of thousands of long names
		f.Properties = place.Properties{More: true}
		kept = pack(jsonOf(exportFile{x.at, f}))
	}
	return f.Rows, kept, nil
}

// claim makes the place this scan's, before it has another object. It first asks for the scan: if this process dies behind the claim,
// another one starts the scan.
func (e *Engine) claim(ctx context.Context, o *opened, id string) error {
	to, claimOf, c := o.container, place.ClaimOf, place.NewClaim(id, jsonOf(o.request), o.began, program)
	if o.request.isGroup() {
		claimOf, c = place.TablesClaimOf, place.NewTablesClaim(id, jsonOf(o.request), o.began, program)
	}
	_, _, member := ledger.MemberOf(id)
	begun := func() (bool, error) {
		_, err := e.ledger.Scan(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return true, err
	}
	take := func() error { return place.Take(ctx, to, c, begun) }
	if member { // its group has looked for it, and has it started
		take = func() error { return place.PutClaim(ctx, to, c) }
	}
	if x := o.export(); x != nil {
		source := place.Manifest{}.Of(x.content.Manifest())
		c.Source = &source
	}
	err := free(ctx, to, member)
	if problem.Of(err).Kind == problem.Conflict {
		if there, err := claimOf(ctx, to); err == nil && there.ID == id { // of a process that has died, or is faster
			if is, err := begun(); is || err != nil {
				return err
			}
			return claimed(take())
		}
	}
	if err != nil {
		return refusal("action.destination", exportRefused, err)
	}
	if !member {
		if _, err := e.ledger.Ask(ctx, id, jsonOf(o.request)); err != nil {
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
	return refusal("action.destination", exportRefused, err)
}

const exportRefused = "the Blob service refuses what an export needs: to list, to read and to write blobs; check the name, the connection and its permissions"

// takenBy is the error for a place that has an object.
func takenBy(name string, _ int64) error {
	return problem.Conflictf("action.destination", "is taken: it has %s; name another prefix", name)
}

// free fails unless a place has no objects, and does not lie within an export: what reads that would meet this one. An export of many has the
// places of its members within its own.
func free(ctx context.Context, to *place.Blobs, member bool) error {
	err := to.List(ctx, "", takenBy)
	if err != nil || member {
		return err
	}
	name, err := place.Within(ctx, to)
	if err == nil && name != "" {
		err = problem.Conflictf("action.destination", "lies within another export, which has %s; name a prefix that is not below it", name)
	}
	return err
}

// collected is a scan that exports, with all that it has written.
type collected struct {
	*opened
	claim place.Claim
	files []exportFile // that commits have recorded, in table order
}

// collect returns what a scan has exported. It deletes the data files of deliveries that were not committed, and fails if one that was
// is missing, or the record of one: rows is how many the scan has written. It returns nil for other scans.
func (e *Engine) collect(ctx context.Context, s ledger.Scan, rows int64) (*collected, error) {
	r, err := parseStored(s.Request)
	if err != nil || !r.exports() || r.isGroup() {
		return nil, err
	}
	o, err := e.open(r)
	if err != nil {
		return nil, final(err)
	}
	to := o.container
	claim, err := place.ClaimOf(ctx, to)
	if err != nil {
		return nil, err
	}
	if claim.ID != s.ID {
		return nil, fmt.Errorf("%s belongs to scan %s now", to.Address(), claim.ID)
	}
	files, err := e.exported(ctx, s.ID, rows)
	if err != nil {
		return nil, err
	}
	return &collected{o, claim, files}, clearLeftovers(ctx, to, files)
}

// seal completes the export of a scan without pending steps, if it is one. It may be repeated, by several at once.
func (e *Engine) seal(ctx context.Context, s ledger.Listed) error {
	x, err := e.collect(ctx, s.Scan, s.Totals.Written)
	if err != nil || x == nil {
		return err
	}
	to, r, claim := x.container, x.request, x.claim
	var all place.Seal
	var index []byte
	m := place.Manifest{
		Table: r.Source.Table, Account: x.account, Filter: r.Filter, Select: r.Select, StartedAt: claim.StartedAt, FinishedAt: claim.StartedAt,
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
	return place.PutSame(ctx, to, place.ManifestName, all.Manifest(m).JSON(s.ID))
}

// incomplete says why an export can't be completed, and what to do.
func incomplete(err error) string {
	advice := "mend that and retry, or export to another prefix"
	if errors.Is(err, errFilesLost) || errors.Is(err, place.ErrNoExport) || errors.Is(err, fs.ErrNotExist) {
		advice = "start a new scan, to another prefix"
	}
	return shortened("the export can't be completed: " + err.Error() + "; " + advice)
}

// errFilesLost means that somebody has deleted rows of the state table in which commits recorded data files.
var errFilesLost = errors.New("the state table lacks data files that steps have written")

// exported returns the files that commits have recorded, in table order, which must have as many rows as were written.
func (e *Engine) exported(ctx context.Context, id string, rows int64) ([]exportFile, error) {
	var files []exportFile
	has := int64(0)
	err := e.ledger.Files(ctx, id, func(packed []byte) error {
		var f exportFile
		text, err := unpack(packed)
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
	slices.SortFunc(files, func(a, b exportFile) int { return a.File.First.Key().Compare(b.File.First.Key()) })
	return files, err
}

// clearLeftovers deletes files of deliveries that were not committed, unless one that was is missing, or of other length.
func clearLeftovers(ctx context.Context, to place.Objects, files []exportFile) error {
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
func (e *Engine) tidyExport(ctx context.Context, id string) error {
	found, err := e.ledger.Snapshot(ctx, id)
	if s := found.Scan; err == nil && (s.State == ledger.Succeeded || s.LeftOut) {
		err = e.tidyPlace(ctx, s, found.Sums.Written)
	}
	if errors.Is(err, ledger.ErrNotFound) || err != nil && !storage.Passing(err) { // it has become another's
		return nil
	}
	return err
}

func (e *Engine) tidyPlace(ctx context.Context, s ledger.Scan, written int64) error {
	if s.State == ledger.Succeeded {
		if x, err := e.collect(ctx, s, written); err == nil || storage.Passing(err) || x != nil {
			return err
		}
	}
	to, err := e.placeOf(s)
	if err != nil || to == nil {
		return err
	}
	if s.LeftOut {
		err = place.Withdraw(ctx, to, s.ID)
	}
	if err == nil {
		err = place.ClearLate(ctx, to)
	}
	return err
}

// placeOf returns the place of a scan that exports one table, and nil for others.
func (e *Engine) placeOf(s ledger.Scan) (*place.Blobs, error) {
	r, err := parseStored(s.Request)
	if err != nil || !r.exports() || r.isGroup() {
		return nil, err
	}
	o, err := e.open(r)
	if err != nil {
		return nil, final(err)
	}
	return o.container, nil
}

// exportTo returns the plan of a copy into a container. Its errors are [problem.Invalid].
func (e *Engine) exportTo(ref TableRef) (plan, error) {
	a, to, err := e.blobs("action.destination", ref)
	if err == nil {
		err = e.checkContainer("action.destination", a, ref.Container)
	}
	if err != nil {
		return plan{}, err
	}
	codec, err := e.codec()
	if err != nil {
		return plan{}, err
	}
	return plan{
		work: exporting{codec: codec}, container: to, properties: true,
		prepare: func(ctx context.Context) error {
			err := to.Make(ctx)
			if storage.BeingDeleted(err) {
				return problem.BeingDeleted("action.destination.container", err)
			}
			return refusal("action.destination", exportRefused, err)
		},
		missing: func(ctx context.Context) (bool, error) {
			err := free(ctx, to, false)
			if storage.Gone(err) { // the container
				return true, nil
			}
			return false, refusal("action.destination", exportRefused, err)
		},
	}, nil
}

func (e *Engine) blobs(field string, ref TableRef) (*storage.Account, *place.Blobs, error) {
	a, err := e.account(field, ref.Connection)
	if err != nil {
		return nil, nil, err
	}
	b, err := place.InContainer(a, ref.Container, ref.Prefix)
	if err != nil {
		return nil, nil, problem.Invalidf(field, "%v", err)
	}
	return a, b, nil
}

// export is a source of rows: an export in a container. It is opened once, since it never changes.
type export struct {
	objects *place.Blobs
	hash    string        // of the one that the scan began with; "" before it begins
	turn    chan struct{} // has room for the one that opens it, or looks whether it is open
	content *place.Export
}

func (x *export) open(ctx context.Context) (*place.Export, error) {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.content != nil {
		return x.content, nil
	}
	content, err := place.Open(ctx, x.objects)
	if err == nil && x.hash != "" && x.hash != content.Hash() {
		content, err = nil, fmt.Errorf("%s has another export now, %s, not %s; start a new scan", x.objects.Address(), content.Hash(), x.hash)
	}
	x.content = content
	return content, err
}

// Address implements [storage.Source]: an export that is not open yet is where it stands.
func (x *export) Address() string { return x.objects.Address() }

// Read implements [storage.Source]. An error that no repetition mends is fatal.
func (x *export) Read(ctx context.Context, options storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	content, err := x.open(ctx)
	if err == nil {
		p, queries, err = content.Read(ctx, options, q)
	}
	if err != nil && !storage.Passing(err) && !errors.Is(err, memory.ErrFull) {
		err = &fatalError{fmt.Errorf("read the source: %w", err)}
	}
	return p, queries, err
}

// Hints implements [storage.Hinted]. The export must be open.
func (x *export) Hints(fn func(last key.Key, rows int64)) { x.content.Hints(fn) }

// probe opens the export, and finds out whether it can be read.
func (x *export) probe(ctx context.Context, field string, r Request) error {
	_, err := x.open(ctx)
	if err := place.CheckFilter(r.Filter); err != nil && field == "source" {
		return problem.Invalidf("filter", "%v", err)
	}
	return unreadable(field, err)
}

// unreadable returns an error of opening exports as the caller's, who named them in a field, unless it may pass.
func unreadable(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, place.ErrNoExport), errors.Is(err, fs.ErrNotExist):
		return problem.NotFoundf(field, "%v", err)
	case storage.BeingDeleted(err):
		return problem.BeingDeleted(field+".container", err)
	case storage.Permanent(err):
		return refusal(field, "the Blob service refuses to read it; check the connection and its permissions", err)
	case storage.Passing(err):
		return err
	}
	return problem.Invalidf(field, "%v", err)
}
