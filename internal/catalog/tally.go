package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/storage"
)

const (
	// groups is how many groups a tally makes of the identities.
	groups = 1 << 20
	// maxGone is how many identities are kept of rows that say "gone".
	maxGone = 1 << 20
)

// tally compares the index with the log while both are read page by page, in any order
// and in bounded memory. Each index row that a head wants adds a hash of its place, its
// version and its content to the sum of its identity's group; each row that is there
// takes it off. Where a group's sum isn't 0 in the end, something is wrong, or was being
// written: its identities are suspect, and are looked at one by one.
type tally struct {
	sums    []uint64
	suspect map[uint64]bool
	gone    map[string]bool // identities of rows that say "gone", whose heads were not met yet
}

func newTally() *tally {
	return &tally{sums: make([]uint64, groups), suspect: map[uint64]bool{}, gone: map[string]bool{}}
}

func sumOf(texts ...string) uint64 {
	sum := sha256.Sum256([]byte(encode(texts)))
	return binary.BigEndian.Uint64(sum[:])
}

func groupOf(identity string) uint64 { return sumOf(identity) % groups }

func (t *tally) head(h *head) {
	delete(t.gone, h.Identity)
	if h.Gone {
		return
	}
	for _, p := range h.Partitions {
		t.sums[groupOf(h.Identity)] += placeHash(h.Write, p, h.Content)
	}
}

func placeHash(w wal.Write, partition, content string) uint64 {
	return sumOf(partition, w.Row, w.Identity, etagOf(w.Version), content)
}

// row takes in a row of the index. It returns an error if it is not that of a record.
func (t *tally) row(c *Catalog, row storage.Entity) error {
	s := c.slotOf(row)
	if s.Gone {
		if t.gone[s.Identity] = true; len(t.gone) > maxGone {
			delete(t.gone, s.Identity)
			t.suspect[groupOf(s.Identity)] = true
		}
		return nil
	}
	r := contentOf(row)
	id, err := c.identify(r)
	if err != nil {
		return err
	}
	w := writeFor(id)
	w.Version = s.Version
	if row.Key.Row != w.Row || !slices.Contains(w.Partitions, row.Key.Partition) || s.Identity != w.Identity {
		t.suspect[groupOf(s.Identity)] = true
		t.suspect[groupOf(w.Identity)] = true
	}
	t.sums[groupOf(w.Identity)] -= placeHash(w, row.Key.Partition, r.Hash())
	return nil
}

// close returns which identities are suspect, nil if none is.
func (t *tally) close() func(identity string) bool {
	for identity := range t.gone {
		t.suspect[groupOf(identity)] = true
	}
	for g, sum := range t.sums {
		if sum != 0 {
			t.suspect[uint64(g)] = true
		}
	}
	if len(t.suspect) == 0 {
		return nil
	}
	return func(identity string) bool { return t.suspect[groupOf(identity)] }
}
