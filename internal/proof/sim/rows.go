package sim

import (
	"fmt"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// rows draws a table: nothing, few rows, one big partition, many small ones, or all sizes with much in common.
func (d dice) rows() []storage.Entity {
	sizes := []int{}
	switch d.IntN(8) {
	case 0:
		sizes = slices.Repeat([]int{1}, d.number(0, 4))
	case 1:
		sizes = append(slices.Repeat([]int{1}, d.number(0, 5)), d.number(20, 150))
	case 2:
		sizes = slices.Repeat([]int{1}, d.number(20, 150))
	case 3:
		sizes = append(slices.Repeat([]int{1}, d.number(20, 150)), d.number(20, 150))
	default:
		for left := d.number(5, 60); left > 0; left -= sizes[len(sizes)-1] {
			sizes = append(sizes, min(left, d.number(1, d.number(1, 20))))
		}
	}
	d.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	name := d.names()
	var rows []storage.Entity
	for i, size := range sizes {
		pk := name(i)
		for r := range size {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: pk, Row: fmt.Sprintf("%04d", r)}, Properties: []storage.Property{
				storage.StringProperty("Name", fmt.Sprint("row ", r)), storage.Int64Property("Number", d.Int64()),
			}})
		}
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

// names draws how partitions are named. Names are distinct by their numbers.
func (d dice) names() func(i int) string {
	switch d.IntN(4) {
	case 0: // close together
		return func(i int) string { return fmt.Sprintf("customer-%05d", i) }
	case 1: // far apart, with what needs escaping
		return func(i int) string { return fmt.Sprintf("%c'%% +é%d", 'A'+d.IntN(26), i) }
	case 2: // beyond the basic plane, where UTF-8 and UTF-16 differ in order
		return func(i int) string {
			return fmt.Sprintf("%s%d", []string{"😀", "\ue000", "\uffee", "z"}[d.IntN(4)], i)
		}
	}
	return func(i int) string { return fmt.Sprintf("%08x-%d", d.Uint32(), i) }
}

// taken draws rows of the destination with keys of the source, and the same, other, or too much content for a merge.
func (d dice) taken(source []storage.Entity) []storage.Entity {
	var rows []storage.Entity
	for _, row := range source {
		if !d.chance(0.1) {
			continue
		}
		switch d.IntN(3) {
		case 0:
			row.Properties = []storage.Property{storage.StringProperty("Name", "another")}
		case 1:
			row.Properties = nil
			for i := range maxProperties {
				row.Properties = append(row.Properties, storage.Int64Property(fmt.Sprint("P", i), 1))
			}
		}
		rows = append(rows, row)
	}
	return rows
}
