package check

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/storage"
)

const (
	// groups is the number of groups into which a tally divides identities.
	groups = 1 << 20
	// A tally remembers at most maxTombstones identities that have tombstones.
	maxTombstones = 1 << 20
)

// tally compares the index with the log, in limited memory. The pages of both tables may be read in any order. For each index
// row that a head requires, it adds a hash of the row's key, version and content to the sum of the identity's group. For each
// existing row, it subtracts this hash. If a group's sum is not 0 at the end, the group is suspect: one of its rows is wrong,
// or was written while the tally read the tables. The check then examines the group's identities one by one.
type tally struct {
	sums    map[uint64]uint64
	suspect map[uint64]bool
	gone    map[index.IdentityHash]bool // identities that have tombstones, and whose heads were not read yet
}

func newTally() *tally {
	return &tally{sums: map[uint64]uint64{}, suspect: map[uint64]bool{}, gone: map[index.IdentityHash]bool{}}
}

func sumOf(texts ...string) uint64 {
	sum := sha256.Sum256([]byte(store.Encode(texts)))
	return binary.BigEndian.Uint64(sum[:])
}

func groupOf(identity index.IdentityHash) uint64 { return sumOf(string(identity)) % groups }

func (t *tally) addHead(h *store.Head) {
	delete(t.gone, h.Identity)
	if h.Gone {
		return
	}
	for _, p := range h.Partitions {
		t.sums[groupOf(h.Identity)] += rowHash(h.Write, p, h.Content)
	}
}

func rowHash(w wal.Write, p index.PartitionKey, content wal.ContentHash) uint64 {
	return sumOf(string(p), w.Row, string(w.Identity), strconv.FormatInt(w.Version, 10), string(content))
}

// addRow adds an index row to the tally.
func (t *tally) addRow(c *catalog.Catalog, row storage.Entity) {
	s := c.SlotOf(row)
	if s.State == wal.Tombstone {
		if t.gone[s.Identity] = true; len(t.gone) > maxTombstones {
			delete(t.gone, s.Identity)
			t.suspect[groupOf(s.Identity)] = true
		}
		return
	}
	r := store.ContentOf(row)
	id, err := c.Identify(r)
	if err != nil {
		t.suspect[groupOf(s.Identity)] = true
		return
	}
	w := store.WriteFor(id)
	w.Version = s.Version
	if !w.HasRowAt(row.Key) || s.Identity != w.Identity {
		t.suspect[groupOf(s.Identity)] = true
		t.suspect[groupOf(w.Identity)] = true
	}
	t.sums[groupOf(w.Identity)] -= rowHash(w, index.PartitionKey(row.Key.Partition), store.HashOf(r))
}

// close ends the tally. It returns a function that reports whether an identity is suspect, or nil if no identity is suspect.
func (t *tally) close() func(identity index.IdentityHash) bool {
	for identity := range t.gone {
		t.suspect[groupOf(identity)] = true
	}
	for g, sum := range t.sums {
		if sum != 0 {
			t.suspect[g] = true
		}
	}
	if len(t.suspect) == 0 {
		return nil
	}
	return func(identity index.IdentityHash) bool { return t.suspect[groupOf(identity)] }
}
