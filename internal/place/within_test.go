package place_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// pairOf returns a place, and one within it, in blobs or in directories.
func pairOf(t *testing.T, local bool) (outer, inner place.Objects) {
	t.Helper()
	if local {
		dir := t.TempDir()
		return place.Directory(filepath.Join(dir, "orders")), place.Directory(filepath.Join(dir, "orders", "a", "new"))
	}
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	at := func(prefix string) *place.Blobs {
		b, err := place.InContainer(a, "backups", prefix)
		proof.Must(t, err, b.Make(t.Context()))
		return b
	}
	return at("orders"), at("orders/a/new")
}

// create begins an export of one table, and createMany one of many.
func create(ctx context.Context, to place.Objects) error {
	_, err := place.Create(ctx, to, place.NewClaim("one", nil, began, "test"), place.Options{Compress: place.Zstd})
	return err
}

func createMany(ctx context.Context, to place.Objects) error {
	if err := place.FreeOfTables(ctx, to); err != nil {
		return err
	}
	return place.ClaimTables(ctx, to, tablesClaim("many"), false)
}

// Within an export, complete or not, no other one begins, but for the tables of one that is under way: a restore of all would meet it. Nor does one
// of many tables begin around another export.
func TestWithinExports(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			there func(to place.Objects)
			taken bool
		}{
			{"of many tables", func(to place.Objects) { exportTables(t, to) }, true},
			{"of one table", func(to place.Objects) { oneExport(t, to) }, true},
			{"of one, under way", func(to place.Objects) { proof.Must(t, create(t.Context(), to)) }, true},
			{"of many, under way", func(to place.Objects) { proof.Must(t, createMany(t.Context(), to)) }, true},
			{"of others", func(to place.Objects) { putOthers(t, to) }, false},
		} {
			outer, inner := pairOf(t, local)
			tt.there(outer)
			for _, begin := range []func(context.Context, place.Objects) error{createMany, create} {
				if err := begin(t.Context(), inner); errors.Is(err, place.ErrTaken) != tt.taken || !tt.taken && err != nil {
					t.Errorf("within an export %s, local %t: %v, want it taken: %t", tt.name, local, err, tt.taken)
				}
				if all := content(t, inner); tt.taken && len(all) > 0 {
					t.Errorf("within an export %s, local %t: %v is left", tt.name, local, all)
				} else if !tt.taken {
					proof.Must(t, place.Withdraw(t.Context(), inner, "one"), inner.Delete(t.Context(), "tables-claim.json"))
				}
			}
			if _, err := place.Create(t.Context(), inner, claim(), place.Options{Compress: place.Zstd, Member: true}); err != nil {
				t.Errorf("a table of many within an export %s: %v", tt.name, err)
			}

			outer, inner = pairOf(t, local)
			tt.there(inner)
			if err := createMany(t.Context(), outer); errors.Is(err, place.ErrTaken) != tt.taken || !tt.taken && err != nil {
				t.Errorf("around an export %s, local %t: %v, want it taken: %t", tt.name, local, err, tt.taken)
			}
		}
	}
}

// slow is a place whose requests take their time, each another one, and perhaps fail for good.
type slow struct {
	place.Objects
	pause func() error
}

func (s slow) around(do func() error) error {
	if err := s.pause(); err != nil {
		return err
	}
	return errors.Join(do(), s.pause())
}

func (s slow) Put(ctx context.Context, name string, content []byte) (made bool, err error) {
	err = s.around(func() (err error) { made, err = s.Objects.Put(ctx, name, content); return err })
	return made, err
}

func (s slow) Get(ctx context.Context, name string, offset, most int64) (text []byte, err error) {
	err = s.around(func() (err error) { text, err = s.Objects.Get(ctx, name, offset, most); return err })
	return text, err
}

func (s slow) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return s.around(func() error { return s.Objects.List(ctx, prefix, fn) })
}

func (s slow) Delete(ctx context.Context, name string) error {
	return s.around(func() error { return s.Objects.Delete(ctx, name) })
}

func (s slow) Above() (above []place.Objects) {
	for _, o := range s.Objects.Above() {
		above = append(above, slow{o, s.pause})
	}
	return above
}

// TestExportsAtOnce has two exports begin at the same moment, one within the other. Never do both begin. If no process dies, and no request takes seconds, one does.
func TestExportsAtOnce(t *testing.T) {
	t.Parallel()
	died := errors.New("died")
	outcomes := map[string]int{}
	for seed := range uint64(testsize.Slow(80, 300, 4000)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 58))
			outer, inner := pairOf(t, seed%4 == 3)
			longest := []time.Duration{50 * time.Millisecond, 10 * time.Second}[r.IntN(2)]
			dies := r.IntN(3) == 0
			var mu sync.Mutex
			pause := func() error {
				mu.Lock()
				d, dead := time.Duration(r.Int64N(int64(longest))), dies && r.IntN(30) == 0
				mu.Unlock()
				if time.Sleep(d); dead {
					return died
				}
				return nil
			}
			begins := []func(context.Context, place.Objects) error{create, createMany}
			var errs [2]error
			var all sync.WaitGroup
			for i, o := range []place.Objects{outer, inner} {
				mu.Lock()
				begin := begins[r.IntN(2)]
				mu.Unlock()
				all.Go(func() { errs[i] = begin(t.Context(), slow{o, pause}) })
			}
			all.Wait()
			switch {
			case errs[0] == nil && errs[1] == nil:
				t.Errorf("seed %d: both have begun", seed)
			case !dies && longest < time.Second && errs[0] != nil && errs[1] != nil:
				t.Errorf("seed %d: none has begun: %v", seed, errs)
			}
			began := 0
			for i, err := range errs {
				if err == nil {
					began++
				} else if !dies && !errors.Is(err, place.ErrTaken) {
					t.Errorf("seed %d: %v", seed, err)
				}
				outcomes[fmt.Sprint([]string{"outer", "inner"}[i], " began: ", err == nil)]++
			}
			claims := 0
			for name := range content(t, outer) {
				if base := name[strings.LastIndexByte(name, '/')+1:]; slices.Contains([]string{place.ClaimName, "tables-claim.json"}, base) {
					claims++
				}
			}
			if claims != began && !dies {
				t.Errorf("seed %d: %d claims are left, and %d exports have begun", seed, claims, began)
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	if len(outcomes) < 4 {
		t.Errorf("one-sided: %v", outcomes)
	}
	t.Log(outcomes)
}

// Of two processes that begin one export, the one that finds the other's claim leaves it, if that one goes on; and takes it back if that one has died.
func TestClaimOfAnother(t *testing.T) {
	t.Parallel()
	for _, goesOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			outer, inner := pairOf(t, false)
			one := place.NewClaim("one", nil, began, "test")
			proof.Must(t, place.PutClaim(t.Context(), inner, one), place.PutClaim(t.Context(), outer, tablesClaim("many")))
			err := place.Take(t.Context(), inner, one, func() (bool, error) { return goesOn, nil })
			if left := content(t, inner); (err == nil) != goesOn || errors.Is(err, place.ErrTaken) == goesOn || (len(left) == 1) != goesOn {
				t.Errorf("it goes on: %t; got %v, and %v is left", goesOn, err, left)
			}
		})
	}
}

// If nobody can tell whether another export lies within a place, its claim does not stay.
func TestClaimOfAPlaceThatCanNotBeListed(t *testing.T) {
	t.Parallel()
	_, inner := pairOf(t, false)
	denied := errors.New("denied")
	if err := createMany(t.Context(), unlisted{inner, denied}); !errors.Is(err, denied) {
		t.Errorf("got %v", err)
	}
	err := place.Take(t.Context(), unlisted{inner, denied}, tablesClaim("many"), nil)
	if left := content(t, inner); !errors.Is(err, denied) || len(left) > 0 {
		t.Errorf("got %v, and %v is left", err, left)
	}
}

// unlisted is a place that cannot be listed.
type unlisted struct {
	place.Objects
	err error
}

func (u unlisted) List(context.Context, string, func(string, int64) error) error { return u.err }

// overtaken is a place around which another export is claimed right before its own claim is put.
type overtaken struct {
	place.Objects
	by place.Objects
}

func (o overtaken) Put(ctx context.Context, name string, content []byte) (bool, error) {
	if err := place.PutClaim(ctx, o.by, tablesClaim("faster")); err != nil {
		return false, err
	}
	return o.Objects.Put(ctx, name, content)
}

// An export that yields leaves no journal, which --resume would go on with, and which in a directory looks like an export.
func TestYieldingLeavesNoJournal(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		outer, inner := pairOf(t, local)
		dir := t.TempDir()
		if local {
			dir = inner.Address()
			proof.Must(t, os.MkdirAll(dir, 0o700))
		}
		j := newJournal(t, filepath.Join(dir, place.JournalName))
		_, err := place.Create(t.Context(), overtaken{inner, outer}, claim(), place.Options{Compress: place.Zstd, Journal: j})
		if !errors.Is(err, place.ErrTaken) {
			t.Errorf("local %t: %v, want it taken", local, err)
		}
		proof.Must(t, j.Close())
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 || len(content(t, inner)) > 0 {
			t.Errorf("local %t: %v, %v is left", local, err, left)
		}
	}
}

// A link leads to where a place lies: also to one within an export.
func TestWithinExportsByLink(t *testing.T) {
	t.Parallel()
	outer, _ := pairOf(t, true)
	oneExport(t, outer)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(outer.Address(), "data"), link); err != nil {
		t.Skip(err) // Windows lets only some users make them
	}
	if err := create(t.Context(), place.Directory(filepath.Join(link, "a", "b"))); !errors.Is(err, place.ErrTaken) {
		t.Errorf("%v, want it taken", err)
	}
	proof.Must(t, os.Mkdir(filepath.Join(outer.Address(), "empty"), 0o700), os.Remove(link), os.Symlink(filepath.Join(outer.Address(), "empty"), link))
	if err := create(t.Context(), place.Directory(link)); !errors.Is(err, place.ErrTaken) {
		t.Errorf("got %v for a link to a directory within an export", err)
	}
}
