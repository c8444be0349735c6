package sim

import (
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// maxProperties is the greatest number of properties of a row, besides its keys and its Timestamp.
const maxProperties = 252

// expected is the result that a scan must have.
type expected struct {
	rows                     []storage.Entity // the rows of the destination
	scanned, written, failed int64
	bad                      []key.Key // the keys of rows that fail
	mended                   []key.Key // the destination's rows that prevent writes, in the order in which the operator removes them
	missing, extra, changed  int64     // the numbers of rows in a comparison
}

func (x expected) differences() int64 { return x.missing + x.extra + x.changed }

// state is a scan's state after its last retry.
func (x expected) state() ledger.State {
	if x.failed+x.differences() > 0 {
		return ledger.Failed
	}
	return ledger.Succeeded
}

// compared returns the expected result of a comparison of a scan's source and destination.
func compared(source, destination []storage.Entity) expected {
	x := expected{scanned: int64(len(source)), extra: int64(len(destination))}
	for _, row := range source {
		i := slices.IndexFunc(destination, func(d storage.Entity) bool { return d.Key == row.Key })
		switch {
		case i < 0:
			x.missing++
			continue
		case !storage.Equal(row, destination[i]):
			x.changed++
		}
		x.extra--
	}
	return x
}

// expect computes a scan's result row by row, as simply as possible.
func expect(p PlannedScan, source []storage.Entity) expected {
	if p.group() {
		var all expected
		for _, m := range p.members() {
			x := expect(m, source)
			all.scanned, all.written, all.failed = all.scanned+x.scanned, all.written+x.written, all.failed+x.failed
		}
		return all
	}
	a, destination := p.Request.Action, p.Destination
	if source = p.rows(source); a.Type == scans.Verify {
		return compared(source, destination)
	}
	x := expected{scanned: int64(len(source))}
	if a.Type == scans.Delete {
		x.written = x.scanned
	}
	if a.Type != scans.Copy && a.Type != scans.Enqueue {
		return x
	}
	there := map[key.Key]storage.Entity{}
	for _, row := range destination {
		there[row.Key] = row
	}
	for _, row := range source {
		became, fails := become(a, row)
		written := len(became) > 0
		for _, one := range became {
			old, exists := there[one.Key]
			result := one
			if exists && a.Mode == action.Merge {
				result = merge(old, one)
			}
			differs := exists && !storage.Equal(old, one)
			if a.Mode == action.Fail && differs || len(result.Properties) > maxProperties {
				if x.mended = append(x.mended, one.Key); len(x.mended)%3 >= p.Rounds {
					fails = true
					continue
				}
				result, differs = one, false // the operator has removed the old row
			}
			if a.Mode == action.Skip && differs {
				written = false
				continue
			}
			there[one.Key] = result
		}
		if fails {
			x.bad = append(x.bad, row.Key)
		} else if written {
			x.written++
		}
	}
	x.failed = int64(len(x.bad))
	for _, row := range there {
		x.rows = append(x.rows, row)
	}
	slices.SortFunc(x.rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return x
}

func merge(old, row storage.Entity) storage.Entity {
	merged := storage.Entity{Key: row.Key, Properties: slices.Clone(row.Properties)}
	for _, p := range old.Properties {
		if !slices.ContainsFunc(row.Properties, func(q storage.Property) bool { return q.Name == p.Name }) {
			merged.Properties = append(merged.Properties, p)
		}
	}
	return merged
}
