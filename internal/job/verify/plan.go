package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

// PlanFile is a temporary file with the rows of the plans of one or more tables.
type PlanFile struct {
	file *os.File
	mu   sync.Mutex // guards end
	end  int64
}

// NewPlanFile makes a file that no other user can read. Where possible, it removes the file's name immediately, so that the system deletes the file
// when the process ends, even after a crash.
func NewPlanFile() (*PlanFile, error) {
	f, err := os.CreateTemp("", "tablesweep-") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("cannot create the temporary file for the plan: %w", err)
	}
	_ = os.Remove(f.Name())
	return &PlanFile{file: f}, nil
}

// Close removes the file, if there is one.
func (f *PlanFile) Close() {
	if f == nil {
		return
	}
	_ = f.file.Close()
	_ = os.Remove(f.file.Name()) // on Windows, NewPlanFile could not remove the name, because the file was open
}

func (f *PlanFile) append(text []byte) (io.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.end
	if _, err := f.file.WriteAt(text, at); err != nil {
		return nil, fmt.Errorf("cannot write the temporary file with the plan (nothing is changed yet): %w", err)
	}
	f.end += int64(len(text))
	return io.NewSectionReader(f.file, at, int64(len(text))), nil
}

// Plan holds the rows of one table that a sync copies, changes or deletes, with their ETags in the destination. A comparison makes the plan
// ([Options].Plan), and [Plan.Apply] carries out the plan.
type Plan struct {
	file    *PlanFile // nil for a plan that only counts
	deletes bool

	mu             sync.Mutex // guards the fields below
	counts         PlanCounts
	pages          int64
	writes, remove entries
}

// PlanCounts are the numbers of rows in a plan.
type PlanCounts struct {
	Copy   int64 `json:"copy"`
	Change int64 `json:"change"`
	Delete int64 `json:"delete"`
	Leave  int64 `json:"leave"` // extra rows that stay
}

// NewPlan returns an empty plan, whose rows are stored in a file. Without a file, the plan only counts its rows. If `deletes` is true, extra rows are
// to be deleted. Otherwise they stay.
func NewPlan(f *PlanFile, deletes bool) *Plan { return &Plan{file: f, deletes: deletes} }

// Counts returns how many rows the plan has.
func (p *Plan) Counts() PlanCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// The properties of a row in the file, beside its key.
const (
	etagName = "ETag" // the ETag of the destination's row; "" if the destination has no such row
	pageName = "Page" // the number of the page on which the comparison found the row
)

// entries are rows of a plan. The field `text` contains the last rows, and the field `blocks` reads all earlier rows from the file.
type entries struct {
	text   []byte
	blocks []io.Reader
}

// blockBytes is the number of bytes of text that are collected before they are written to the file.
const blockBytes = 64 << 10

func (e *entries) add(f *PlanFile, row storage.Row, page int64) error {
	one := storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty(etagName, row.ETag()), storage.Int64Property(pageName, page)}}
	if e.text = append(one.AppendJSON(e.text), '\n'); len(e.text) < blockBytes {
		return nil
	}
	return e.flush(f)
}

func (e *entries) flush(f *PlanFile) error {
	if len(e.text) == 0 {
		return nil
	}
	block, err := f.append(e.text)
	e.blocks, e.text = append(e.blocks, block), nil
	return err
}

// each divides the rows into parts, and calls fn with each part. The rows of a part are in table order, and have their ETags. A second call finds no rows.
func (e *entries) each(fn func(rows place.Rows, pages []int64) error) error {
	return place.Windows(place.JSONLines(io.MultiReader(e.blocks...)), false, nil, func(rows place.Rows, _ int) error {
		pages := make([]int64, len(rows))
		for i, row := range rows {
			one := row.Entity()
			rows[i], pages[i] = storage.Row{Key: row.Key}.WithETag(one.Get(etagName)), one.Int(pageName)
		}
		return fn(rows, pages)
	})
}

// add adds the differing rows of a page to the plan. Each of these rows has the ETag of the destination's row with the same key, if there is one. The
// argument `stay` is the number of destination rows that seem extra only because the filter leaves out the source's rows with the same keys. The sync
// leaves these rows in the destination.
func (p *Plan) add(missing, different, extra []storage.Row, stay int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, row := range missing {
		if row.ETag() == "" {
			p.counts.Copy++
		} else {
			p.counts.Change++
		}
	}
	p.counts.Change += int64(len(different))
	p.counts.Leave += int64(stay)
	if p.deletes {
		p.counts.Delete += int64(len(extra))
	} else {
		p.counts.Leave += int64(len(extra))
		extra = nil
	}
	if p.file == nil {
		return nil
	}
	p.pages++
	for _, row := range slices.Concat(missing, different) {
		if err := p.writes.add(p.file, row, p.pages); err != nil {
			return err
		}
	}
	for _, row := range extra {
		if err := p.remove.add(p.file, row, p.pages); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the last rows to the file.
func (p *Plan) finish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	return errors.Join(p.writes.flush(p.file), p.remove.flush(p.file))
}

// Split divides the differing rows into units. Without a plan, there are no units. Without a filter, all differing rows are one
// unit. With a filter, each unit has rows of only one partition, because Do searches for the unit's rows in only one partition.
func (c comparison) Split(rows []storage.Row) [][]storage.Row {
	if c.plan == nil {
		return nil
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(row storage.Row) bool { return verdictOf(row).kind == "" })
	switch {
	case len(rows) == 0:
		return nil
	case c.filter != "":
		return action.Copy{}.Split(rows)
	}
	return [][]storage.Row{rows}
}

// Do adds rows to the plan. A comparison with a filter does not read the rows that the filter leaves out. So the
// comparison may call a row missing although the destination contains the row, or extra although the source contains
// the row. Therefore, if there is a filter, Do looks up these rows without the filter. If Do finds a "missing" row in the
// destination, the sync changes this row there. If Do finds an "extra" row in the source, the sync does not delete this
// row from the destination.
func (c comparison) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (r action.Result, err error) {
	of := map[sweep.Kind][]storage.Row{}
	for _, row := range rows {
		kind := verdictOf(row).kind
		of[kind] = append(of[kind], row)
	}
	missing, extra, stay := of[sweep.Missing], of[sweep.Extra], 0
	if c.filter != "" {
		there, err := findExisting(ctx, o, c.places[1], missing, "Timestamp") // one property is enough, because only the rows' ETags are used
		if err != nil {
			return r, fmt.Errorf("read the destination: %w", err)
		}
		for i, row := range missing {
			missing[i] = row.WithETag(there[row.Key].ETag())
		}
		if there, err = findExisting(ctx, o, c.places[0], extra); err != nil {
			return r, fmt.Errorf("read the source: %w", err)
		}
		extra = slices.DeleteFunc(extra, func(row storage.Row) bool { _, has := there[row.Key]; return has })
		stay = len(there)
	}
	return r, c.plan.add(missing, of[sweep.Different], extra, stay)
}

// findExisting returns those of the given rows that exist in a place. All given rows belong to one partition. findExisting
// uses no filter. If the place is a table, findExisting reads only the given properties.
func findExisting(ctx context.Context, o storage.RequestOptions, from storage.Source, rows []storage.Row, properties ...string) (map[key.Key]storage.Row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	q := storage.Query{Select: append([]string{}, properties...)}
	if _, mapped := from.(rowmap.Kept); mapped { // a map may use any property, so all properties are read
		q.Select = nil
	}
	return action.Existing(rows, q, func(q storage.Query) (storage.Page, error) {
		p, _, err := from.Read(ctx, o, q)
		return p, err
	})
}
