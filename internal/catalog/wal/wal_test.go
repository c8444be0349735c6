package wal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	here := func(identity index.IdentityHash, version int64, content wal.ContentHash) *wal.Head {
		return &wal.Head{Write: wal.Write{Identity: identity, Version: version}, Content: content}
	}
	gone := func(identity index.IdentityHash, version int64) *wal.Head {
		h := here(identity, version, "")
		h.Gone = true
		return h
	}
	a, b := wal.Write{Identity: "a"}, wal.Write{Identity: "b"}
	tests := []struct {
		name    string
		decide  func() ([]wal.Write, wal.Verdict)
		want    []wal.Write
		verdict wal.Verdict
	}{
		{"insert", insertion(nil, a, "x"), []wal.Write{{Identity: "a", Version: 7, Fresh: true}}, wal.Commit},
		{"insert again", insertion(here("a", 1, "x"), a, "x"), nil, wal.Same},
		{"insert another", insertion(here("a", 1, "x"), a, "y"), nil, wal.Taken},
		{"insert after a deletion", insertion(gone("a", 2), a, "x"), []wal.Write{{Identity: "a", Version: 3}}, wal.Commit},
		{"replace by the same content", replacement(here("a", 2, "x"), nil, a, "x"), nil, wal.Same},
		{"replace contents", replacement(here("a", 2, "x"), nil, a, "y"), []wal.Write{{Identity: "a", Version: 3}}, wal.Commit},
		{"move", replacement(here("a", 2, "x"), nil, b, "y"), []wal.Write{{Identity: "a", Version: 3, Gone: true, Next: &wal.FormerIdentity{Identity: "b", Version: 7}, Lineage: &wal.FormerIdentity{Identity: "a", Version: 2}}, {Identity: "b", Version: 7, Fresh: true, Instead: &wal.FormerIdentity{Identity: "a", Version: 2}, Lineage: &wal.FormerIdentity{Identity: "a", Version: 2}}}, wal.Commit},
		{"move to a deleted record's identity", replacement(here("a", 2, "x"), gone("b", 4), b, "y"), []wal.Write{{Identity: "a", Version: 3, Gone: true, Next: &wal.FormerIdentity{Identity: "b", Version: 5}, Lineage: &wal.FormerIdentity{Identity: "a", Version: 2}}, {Identity: "b", Version: 5, Instead: &wal.FormerIdentity{Identity: "a", Version: 2}, Lineage: &wal.FormerIdentity{Identity: "a", Version: 2}}}, wal.Commit},
		{"move to an existing record's identity", replacement(here("a", 2, "x"), here("b", 4, "z"), b, "y"), nil, wal.Taken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, verdict := tt.decide()
			if verdict != tt.verdict {
				t.Fatalf("the verdict is %v, want %v", verdict, tt.verdict)
			}
			if verdict == wal.Commit && !cmp.Equal(got, tt.want) {
				t.Error(cmp.Diff(tt.want, got))
			}
		})
	}
}

func insertion(head *wal.Head, w wal.Write, content wal.ContentHash) func() ([]wal.Write, wal.Verdict) {
	return func() ([]wal.Write, wal.Verdict) {
		w, v := wal.Insertion(head, w, content, time.Unix(0, 700))
		return []wal.Write{w}, v
	}
}

func replacement(old, target *wal.Head, w wal.Write, content wal.ContentHash) func() ([]wal.Write, wal.Verdict) {
	return func() ([]wal.Write, wal.Verdict) { return wal.Replacement(old, target, w, content, time.Unix(0, 700)) }
}

func TestDecide(t *testing.T) {
	t.Parallel()
	w := wal.Write{Identity: "a", Version: 3}
	gone := wal.Write{Identity: "a", Version: 3, Gone: true}
	moved := wal.Write{Identity: "b", Version: 1, Instead: &wal.FormerIdentity{Identity: "a", Version: 3}}
	tests := []struct {
		name string
		have wal.IndexRow
		w    wal.Write
		want wal.Effect
	}{
		{"no row", wal.IndexRow{}, w, wal.Create},
		{"no row, deletion", wal.IndexRow{}, gone, wal.Create},
		{"another program's row", wal.IndexRow{State: wal.HasRecord, Identity: "a"}, w, wal.Overwrite},
		{"older", wal.IndexRow{State: wal.HasRecord, Identity: "a", Version: 2}, w, wal.Overwrite},
		{"the same", wal.IndexRow{State: wal.HasRecord, Identity: "a", Version: 3}, w, wal.Keep},
		{"newer", wal.IndexRow{State: wal.Tombstone, Identity: "a", Version: 4}, w, wal.Keep},
		{"another record's row", wal.IndexRow{State: wal.HasRecord, Identity: "b", Version: 1}, w, wal.Collide},
		{"another record's row, deletion", wal.IndexRow{State: wal.HasRecord, Identity: "b", Version: 9}, gone, wal.Keep},
		{"the record's own former row", wal.IndexRow{State: wal.HasRecord, Identity: "a", Version: 3}, moved, wal.Overwrite},
		{"the record has moved back", wal.IndexRow{State: wal.HasRecord, Identity: "a", Version: 4}, moved, wal.Keep},
		{"a third record's row", wal.IndexRow{State: wal.HasRecord, Identity: "c", Version: 1}, moved, wal.Collide},
	}
	for _, tt := range tests {
		if got := wal.Decide(tt.have, tt.w); got != tt.want {
			t.Errorf("%s: the effect is %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestNextTimeIsLater checks the order of changes if clocks differ.
func TestNextTimeIsLater(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 123, time.UTC)
	ahead := &wal.Head{Time: now.Add(5 * time.Minute)}
	if got := wal.NextTime(now, nil, &wal.Head{Time: now.Add(-time.Hour)}); !got.Equal(now.Truncate(key.Tick)) {
		t.Errorf("After returns %v, want now", got)
	}
	if got := wal.NextTime(now, ahead, nil); !got.After(ahead.Time) {
		t.Errorf("After returns %v, which is not after %v", got, ahead.Time)
	}
}

// TestSuperseded moves a record through several identities, and compares any of the rows of the record's writes. All rows
// except the newest must be superseded.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		heads := map[index.IdentityHash]*wal.Head{}
		identities := []index.IdentityHash{"a", "b", "c"}
		at := identities[rnd.IntN(3)]
		w, _ := wal.Insertion(nil, wal.Write{Identity: at}, "0", time.Unix(0, 100*int64(rnd.IntN(10))))
		heads[at] = &wal.Head{Write: w, Content: "0"}
		standing := func(w wal.Write) wal.VersionClaim {
			return wal.VersionClaim{Identity: w.Identity, Version: w.Version, Lineage: w.Lineage}
		}
		rows := []wal.VersionClaim{standing(w)}
		for i := range 1 + rnd.IntN(6) {
			to := identities[rnd.IntN(3)]
			target := heads[to]
			if to == at {
				target = nil
			}
			writes, verdict := wal.Replacement(heads[at], target, wal.Write{Identity: to}, wal.ContentHash(fmt.Sprint(i+1)), time.Unix(0, 100*int64(rnd.IntN(10))))
			if verdict != wal.Commit {
				t.Fatalf("seed %d: the verdict is %v", seed, verdict)
			}
			for _, w := range writes {
				heads[w.Identity] = &wal.Head{Write: w, Content: wal.ContentHash(fmt.Sprint(i + 1))}
			}
			at = to
			for _, w := range writes { // a tombstone also has a claim
				rows = append(rows, standing(w))
			}
		}
		other := wal.VersionClaim{Identity: "another", Version: int64(rnd.IntN(20))}
		newest := len(rows) - 1
		met := []wal.VersionClaim{other, rows[newest]}
		for range rnd.IntN(4) {
			met = append(met, rows[rnd.IntN(newest+1)])
		}
		for i, old := range wal.Superseded(met) {
			if want := met[i] != other && met[i].Version != rows[newest].Version; old != want {
				t.Fatalf("seed %d: the row %+v among %+v is superseded: %v, want %v", seed, met[i], met, old, want)
			}
		}
	}
}
