package sweep

import (
	"fmt"
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

const (
	keysMost  = 256 << 20            // the maximum memory of a list, in bytes
	keyWeight = 32                   // the memory that a key uses in addition to its text, in bytes
	groupRows = storage.MaxBatchRows // the maximum number of keys that one query searches for

	// If a query searches for n keys, it requests a page of at most groupMeets + n*keyMeets rows.
	groupMeets, keyMeets = 100, 10
)

// Keys holds in memory, in any order, the keys of the rows to sweep. The zero value is ready for use.
type Keys struct {
	keys  []key.Key
	bytes int64
}

// Add adds a key. If a key is added more than once, its row is still processed only once. If the keys exceed the limit of a list, Add
// drops all of them, and [Keys.Fit] fails.
func (k *Keys) Add(one key.Key) {
	if k.bytes += int64(len(one.Partition) + len(one.Row) + keyWeight); k.bytes > keysMost {
		k.keys = nil
		return
	}
	k.keys = append(k.keys, one)
}

// Fit returns an error if the keys exceed the limit of a list.
func (k *Keys) Fit() error {
	if k.bytes > keysMost {
		return fmt.Errorf("its keys take %d MiB of memory, but at most %d MiB are allowed; split the list", (k.bytes+1<<20-1)>>20, keysMost>>20)
	}
	return nil
}

// Len returns the number of different keys.
func (k *Keys) Len() int64 { return int64(len(k.keysAfter(nil))) }

// keysAfter returns the keys that follow the given key, in table order and without repetitions. For nil, it returns all
// keys.
func (k *Keys) keysAfter(after *key.Key) []key.Key {
	slices.SortFunc(k.keys, key.Key.Compare)
	k.keys = slices.Compact(k.keys)
	if after == nil {
		return k.keys
	}
	at, found := slices.BinarySearchFunc(k.keys, *after, key.Key.Compare)
	if found {
		at++
	}
	return k.keys[at:]
}

// takeGroup removes the first keys of a list, and returns them. They have the same partition, and one query searches
// for all of them.
func takeGroup(keys *[]key.Key) (partition string, rows []string) {
	partition = (*keys)[0].Partition
	for len(*keys) > 0 && len(rows) < groupRows && (*keys)[0].Partition == partition {
		rows = append(rows, (*keys)[0].Row)
		*keys = (*keys)[1:]
	}
	return partition, rows
}

// wantedStep returns the step that searches for the given sorted row keys of a partition.
func wantedStep(partition string, rows []string) scan.Step {
	return scan.Step{Range: key.Range{Partition: &partition, Low: &key.Bound{Key: rows[0]}, High: &key.Bound{Key: rows[len(rows)-1]}}}
}

func rowsIn(rows []string, in key.Range) []string {
	var all []string
	for _, row := range rows {
		if in.Contains(key.Key{Partition: *in.Partition, Row: row}) {
			all = append(all, row)
		}
	}
	return all
}

// searchRest returns the steps that search for the keys beyond a page, and how many of the step's keys need no further query. If the page ended
// early, many other rows lie between the keys. So two steps each search for one half of the remaining keys. Each query finds or excludes a key, unless
// its page ends early without any row. Without such pages, there is at most one query per key.
func (s *step) searchRest(p scan.Page) (children []scan.Step, answered int) {
	if p.Next == nil {
		return nil, len(s.Wanted)
	}
	if len(p.Keys) == 0 {
		return []scan.Step{s.Continue(*p.Next)}, 0
	}
	answered, found := slices.BinarySearchFunc(s.Wanted, p.Last().Row, key.Compare)
	if found {
		answered++
	}
	left := s.Wanted[answered:]
	for _, half := range [][]string{left[:(len(left)+1)/2], left[(len(left)+1)/2:]} {
		if len(half) > 0 {
			children = append(children, wantedStep(*s.Range.Partition, half))
		}
	}
	return children, answered
}

// choose takes a page, and returns the rows with the keys that the step searches for. Unless the page was already read before a resume, choose also
// returns the keys that are missing in the table.
func (s *step) choose(rows []storage.Row, p scan.Page) (chosen []storage.Row, missing []action.Failure) {
	answered := 0
	if s.Through == nil {
		_, answered = s.searchRest(p)
	}
	for i, row := range s.Wanted {
		for len(rows) > 0 && key.Compare(rows[0].Key.Row, row) < 0 {
			rows = rows[1:]
		}
		switch {
		case len(rows) > 0 && rows[0].Key.Row == row:
			chosen = append(chosen, rows[0])
		case i < answered:
			missing = append(missing, action.Failure{Key: key.Key{Partition: *s.Range.Partition, Row: row}, Reason: "the table has no row with this key"})
		}
	}
	return chosen, missing
}
