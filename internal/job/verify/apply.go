package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
)

// Applied counts what was done with the rows of a plan.
type Applied struct {
	Written, Deleted, Failed int64
	Kept                     int64 // rows that Apply left alone, because another program has changed them in the destination or the source since the plan was made
}

// Apply carries out a plan once. It reads the missing and different rows again from the source, writes them to the destination, and then deletes the
// extra rows. If a row could not be copied, Apply deletes nothing.
//
// Apply writes or deletes a row only if the row is unchanged in the destination since the plan was made. If `fixed` is false, Apply deletes a row only
// if the source still lacks the row. If `fixed` is true, the source cannot have changed, for example because it is an export, so Apply does not check
// the source again.
func (p *Plan) Apply(ctx context.Context, s sweep.Spec, destination *storage.Table, o sweep.Options, fixed bool) (r Applied, err error) {
	all, watch := int64(0), o.Watch
	if watch != nil {
		o.Watch = func(now sweep.Progress) {
			now.Rows, now.Run.Rows, now.Ended = all+now.Rows, all+now.Rows, false
			watch(now)
		}
	}
	each := func(e *entries, done *int64, do func(place.Rows, []int64) (sweep.Totals, error)) error {
		return e.each(func(rows place.Rows, pages []int64) error {
			t, err := do(rows, pages)
			all += t.Rows
			*done += t.Written
			r.Failed += t.Failed
			if err == nil {
				r.Kept += int64(len(rows)) - t.Written - t.Failed
			}
			return err
		})
	}
	err = each(&p.writes, &r.Written, func(rows place.Rows, pages []int64) (sweep.Totals, error) {
		now := plannedRows{s.Source, s.Filter, rows, pages}
		return sweep.Do(ctx, sweep.Spec{Source: now, PageRows: s.PageRows, Steal: true}, o, action.Copy{Destination: destination, Compared: true})
	})
	if err != nil || r.Failed > 0 {
		return r, err
	}
	work := deletion{Delete: action.Delete{Table: destination, Unchanged: true}, source: s.Source, limit: storage.NewLimit(o.MaxRows)}
	if fixed {
		work.source = nil
	}
	return r, each(&p.remove, &r.Deleted, func(rows place.Rows, _ []int64) (sweep.Totals, error) {
		return sweep.Do(ctx, sweep.Spec{Source: rows, PageRows: s.PageRows}, o, work)
	})
}

// plannedRows reads the plan's rows again from the source, and adds the ETags from the plan. A page contains only rows from one page of the
// comparison that made the plan, so plannedRows usually makes at most three queries for each page.
type plannedRows struct {
	storage.Source
	filter string
	rows   []storage.Row // keys and ETags, in table order
	pages  []int64       // for each row, which page of the comparison contained it
}

// Read implements [storage.Source].
func (p plannedRows) Read(ctx context.Context, o storage.RequestOptions, q storage.Query) (page storage.Page, queries int, err error) {
	at := sort.Search(len(p.rows), func(i int) bool { return q.Range.Side(p.rows[i].Key) >= 0 })
	if q.Token != nil {
		if at, err = strconv.Atoi(q.Token.Partition); err != nil {
			return page, 0, err
		}
	}
	within := func(i int) bool { return i < len(p.rows) && q.Range.Side(p.rows[i].Key) == 0 }
	end := at
	for within(end) && end-at < cmp.Or(q.Top, storage.PageRows) && p.pages[end] == p.pages[at] {
		end++
	}
	wanted := p.rows[at:end]
	for _, part := range partsOf(wanted) {
		for of := (storage.Query{Range: part, Filter: p.filter}); ; {
			got, n, err := p.Source.Read(ctx, o, of)
			queries += n
			if err != nil {
				return page, queries, fmt.Errorf("read the source: %w", err)
			}
			chosen := len(page.Rows)
			for _, row := range got.Rows {
				i, has := slices.BinarySearchFunc(wanted, row.Key, func(r storage.Row, k key.Key) int { return r.Key.Compare(k) })
				if has {
					page.Rows = append(page.Rows, row.WithETag(wanted[i].ETag()))
				}
			}
			if len(page.Rows) > chosen { // without copies, the chosen rows would keep the whole page in memory
				page.Bytes += got.Bytes
			}
			if of.Token = got.Next; of.Token == nil {
				break
			}
		}
	}
	if within(end) {
		page.Next = &key.Token{Partition: strconv.Itoa(end)}
	}
	return page, queries, nil
}

// partsOf returns ranges that together extend from the first to the last of the sorted rows. Each is a range of partitions, or of rows within one
// partition.
func partsOf(rows []storage.Row) (parts []key.Range) {
	if len(rows) == 0 {
		return nil
	}
	first, last := rows[0].Key, rows[len(rows)-1].Key
	if first.Partition == last.Partition {
		return []key.Range{{Partition: &first.Partition, Low: &key.Bound{Key: first.Row}, High: &key.Bound{Key: last.Row}}}
	}
	parts = append(parts, key.Range{Partition: &first.Partition, Low: &key.Bound{Key: first.Row}})
	if slices.ContainsFunc(rows, func(r storage.Row) bool {
		return r.Key.Partition != first.Partition && r.Key.Partition != last.Partition
	}) {
		parts = append(parts, key.Range{Low: &key.Bound{Key: first.Partition, Open: true}, High: &key.Bound{Key: last.Partition, Open: true}})
	}
	return append(parts, key.Range{Partition: &last.Partition, High: &key.Bound{Key: last.Row}})
}

// deletion deletes rows that the source lacks, if they still have the ETags in the plan.
type deletion struct {
	action.Delete
	source storage.Source // the source to check; nil for a fixed source
	limit  *storage.Limit // limits the rows that are read per second
}

// Do implements [action.Work].
func (d deletion) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	if d.source != nil {
		unplanned := o
		unplanned.Rows = d.limit
		there, err := findExisting(ctx, unplanned, d.source, rows)
		if err != nil {
			return action.Result{}, fmt.Errorf("read the source: %w", err)
		}
		rows = slices.DeleteFunc(slices.Clone(rows), func(row storage.Row) bool { _, has := there[row.Key]; return has })
	}
	return d.Delete.Do(ctx, o, rows)
}
