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

// pairOf returns a place and a second place within it, in blobs or in directories.
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

// create begins an export of one table. createMany begins an export of many tables.
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

// No export begins within another export, complete or not, because a restore of the outer export would find the inner one. The exception is the
// tables of an unfinished export of many tables. An export of many tables does not begin around another export either.
func TestExportsWithinExportsAreRefused(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			there func(to place.Objects)
			taken bool
		}{
			{"of many tables", func(to place.Objects) { exportTables(t, to) }, true},
			{"of one table", func(to place.Objects) { oneExport(t, to) }, true},
			{"of one table, unfinished", func(to place.Objects) { proof.Must(t, create(t.Context(), to)) }, true},
			{"of many tables, unfinished", func(to place.Objects) { proof.Must(t, createMany(t.Context(), to)) }, true},
			{"of others", func(to place.Objects) { putOthers(t, to) }, false},
		} {
			outer, inner := pairOf(t, local)
			tt.there(outer)
			for _, begin := range []func(context.Context, place.Objects) error{createMany, create} {
				if err := begin(t.Context(), inner); errors.Is(err, place.ErrTaken) != tt.taken || !tt.taken && err != nil {
					t.Errorf("within an export %s, local %t: got error %v, want the place to be taken: %t", tt.name, local, err, tt.taken)
				}
				if all := content(t, inner); tt.taken && len(all) > 0 {
					t.Errorf("within an export %s, local %t: the objects %v are left", tt.name, local, all)
				} else if !tt.taken {
					proof.Must(t, place.Withdraw(t.Context(), inner, "one"), inner.Delete(t.Context(), "tables-claim.json"))
				}
			}
			if _, err := place.Create(t.Context(), inner, newClaim(), place.Options{Compress: place.Zstd, Member: true}); err != nil {
				t.Errorf("a table's export within an export %s: got error %v", tt.name, err)
			}

			outer, inner = pairOf(t, local)
			tt.there(inner)
			if err := createMany(t.Context(), outer); errors.Is(err, place.ErrTaken) != tt.taken || !tt.taken && err != nil {
				t.Errorf("around an export %s, local %t: got error %v, want the place to be taken: %t", tt.name, local, err, tt.taken)
			}
		}
	}
}

// slow is a place whose requests take different times and may fail permanently.
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

func (s slow) Parents() (above []place.Objects) {
	for _, o := range s.Objects.Parents() {
		above = append(above, slow{o, s.pause})
	}
	return above
}

// TestConcurrentExports begins two exports at the same or nearly the same time, one within the other. Both must never begin. If no process is killed and no request
// takes seconds, one of them must begin.
func TestConcurrentExports(t *testing.T) {
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
				begin, late := begins[r.IntN(2)], time.Duration(seed%2)*time.Duration(r.Int64N(20*int64(longest))) // otherwise the inner export seldom begins
				mu.Unlock()
				all.Go(func() {
					time.Sleep(late)
					errs[i] = begin(t.Context(), slow{o, pause})
				})
			}
			all.Wait()
			switch {
			case errs[0] == nil && errs[1] == nil:
				t.Errorf("seed %d: both have begun", seed)
			case !dies && longest < time.Second && errs[0] != nil && errs[1] != nil:
				t.Errorf("seed %d: neither has begun: %v", seed, errs)
			}
			began := 0
			for i, err := range errs {
				if err == nil {
					began++
				} else if !dies && !errors.Is(err, place.ErrTaken) {
					t.Errorf("seed %d: got error %v", seed, err)
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
}

// If two processes begin the same export, the process that finds the other's claim keeps the claim if the other process continues, and withdraws the
// claim if the other process has died.
func TestClaimOfAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, goesOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			outer, inner := pairOf(t, false)
			one := place.NewClaim("one", nil, began, "test")
			proof.Must(t, place.PutClaim(t.Context(), inner, one), place.PutClaim(t.Context(), outer, tablesClaim("many")))
			err := place.Take(t.Context(), inner, one, func() (bool, error) { return goesOn, nil })
			if left := content(t, inner); (err == nil) != goesOn || errors.Is(err, place.ErrTaken) == goesOn || (len(left) == 1) != goesOn {
				t.Errorf("the other process continues: %t; got error %v, and the objects %v are left", goesOn, err, left)
			}
		})
	}
}

// If a place cannot be listed, so that another export may lie within it, the claim is withdrawn.
func TestUnlistablePlaceIsNotClaimed(t *testing.T) {
	t.Parallel()
	_, inner := pairOf(t, false)
	denied := errors.New("denied")
	if err := createMany(t.Context(), unlisted{inner, denied}); !errors.Is(err, denied) {
		t.Errorf("got %v", err)
	}
	err := place.Take(t.Context(), unlisted{inner, denied}, tablesClaim("many"), nil)
	if left := content(t, inner); !errors.Is(err, denied) || len(left) > 0 {
		t.Errorf("got error %v, and the objects %v are left", err, left)
	}
}

// unlisted is a place that cannot be listed.
type unlisted struct {
	place.Objects
	err error
}

func (u unlisted) List(context.Context, string, func(string, int64) error) error { return u.err }

// overtaken is a place around which another export puts its claim directly before the place's own claim is put.
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

// An export that yields leaves no journal. Otherwise --resume would continue from the journal, and a directory with a journal would count as an
// export.
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
		_, err := place.Create(t.Context(), overtaken{inner, outer}, newClaim(), place.Options{Compress: place.Zstd, Journal: j})
		if !errors.Is(err, place.ErrTaken) {
			t.Errorf("local %t: got error %v, want the place to be taken", local, err)
		}
		proof.Must(t, j.Close())
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 || len(content(t, inner)) > 0 {
			t.Errorf("local %t: error %v, the objects %v are left", local, err, left)
		}
	}
}

// A link to a directory within an export counts as a place within that export.
func TestLinkIntoAnExportIsRefused(t *testing.T) {
	t.Parallel()
	outer, _ := pairOf(t, true)
	oneExport(t, outer)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(outer.Address(), "data"), link); err != nil {
		t.Skip(err) // on Windows, only some users may make links
	}
	if err := create(t.Context(), place.Directory(filepath.Join(link, "a", "b"))); !errors.Is(err, place.ErrTaken) {
		t.Errorf("got error %v, want the place to be taken", err)
	}
	proof.Must(t, os.Mkdir(filepath.Join(outer.Address(), "empty"), 0o700), os.Remove(link), os.Symlink(filepath.Join(outer.Address(), "empty"), link))
	if err := create(t.Context(), place.Directory(link)); !errors.Is(err, place.ErrTaken) {
		t.Errorf("got error %v for a link to a directory within an export", err)
	}
}
