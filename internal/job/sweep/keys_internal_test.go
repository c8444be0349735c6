package sweep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// listed is a sweep of listed keys with its results.
type listed struct {
	keys    *Keys
	there   map[key.Key]bool // listed keys that are in the table
	missing map[key.Key]bool // listed keys that are not in the table
	scan    Spec
}

// someListed makes a table with partitions of many sizes, and a list of some of their keys, including repeated keys and keys that do not exist.
func someListed(t *testing.T, a *storage.Account, r *rand.Rand) *listed {
	l := &listed{keys: &Keys{}, there: map[key.Key]bool{}, missing: map[key.Key]bool{}}
	var rows []storage.Entity
	for p := range 12 {
		part, size := r.Float64(), []int{1, 3, 40, 150, 400}[r.IntN(5)]
		for i := range size {
			one := key.Key{Partition: fmt.Sprintf("p%02d", p), Row: fmt.Sprintf("%04d", i)}
			if there := r.IntN(10) > 0; there {
				rows = append(rows, storage.Entity{Key: one})
				if r.Float64() < part*part {
					l.there[one] = true
				}
			} else if r.Float64() < part {
				l.missing[one] = true
			}
		}
	}
	for _, all := range []map[key.Key]bool{l.there, l.missing} {
		for one := range all {
			for range 1 + r.IntN(2) {
				l.keys.Add(one)
			}
		}
	}
	l.scan = Spec{Source: emulatortest.Table(t, a, fmt.Sprintf("t%d", r.Uint32()), rows), Keys: l.keys, PageRows: 25}
	return l
}

// check fails the test unless each row was done once and each missing key was reported.
func (l *listed) check(t *testing.T, done []key.Key, missing map[key.Key]int, totals Totals) {
	t.Helper()
	all := map[key.Key]bool{}
	for _, one := range done {
		if all[one] || !l.there[one] {
			t.Fatalf("row %q was done; it had been done before: %v", one, all[one])
		}
		all[one] = true
	}
	if len(all) != len(l.there) || len(missing) != len(l.missing) {
		t.Fatalf("%d rows were done and %d were missing, want %d and %d", len(all), len(missing), len(l.there), len(l.missing))
	}
	for one := range missing {
		if !l.missing[one] {
			t.Fatalf("%q was reported as missing, but is not a missing key", one)
		}
	}
	if n := int64(len(all) + len(missing)); totals.Rows != n || totals.Failed != int64(len(missing)) || totals.Written != int64(len(all)) {
		t.Fatalf("got the totals %+v, want %d rows, %d of them failed", totals, n, len(missing))
	}
}

// TestListedKeysAreDoneOnce sweeps random lists, on storage that ends pages early, and resumes from the journal as it was after each line. Each row must be done
// once, and each missing key must be reported.
func TestListedKeysAreDoneOnce(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Of[uint64](2, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "checkpoint")
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 3))
				_, a := emulatortest.NewAccount(t, emulator.Options{Faults: fmt.Sprintf("seed=%d; latency=5ms..20ms; short-page p=0.1; empty-page p=0.1; busy p=0.02", seed+1)})
				l := someListed(t, a, r)
				var missing map[key.Key]int
				run := func(c *Checkpoint) (done []key.Key, totals Totals) {
					record := &recorder{}
					totals, err := Do(t.Context(), l.scan, Options{Checkpoint: c, Workers: 1 + r.IntN(4), Failed: func(rows []action.Failure) error {
						for _, f := range rows {
							missing[f.Key]++
						}
						return nil
					}}, record)
					proof.Must(t, err)
					return record.keys, totals
				}
				c := newCheckpoint(t, path)
				missing = map[key.Key]int{}
				done, totals := run(c)
				l.check(t, done, missing, totals)
				text, err := os.ReadFile(path)
				proof.Must(t, err)
				lines := bytes.SplitAfter(text, []byte("\n"))
				was := readHistory(t, text, rowsOf(l.there), map[key.Key]bool{})
				for at := 1 + r.IntN(5); at < len(was.lines); at += 1 + r.IntN(20) {
					proof.Must(t, os.WriteFile(path, bytes.Join(lines[:at+1], nil), 0o600))
					c := readCheckpoint(t, path)
					before := missing // the resumed run need not report these keys again
					missing = map[key.Key]int{}
					done, totals := run(c)
					for one := range before {
						missing[one]++
					}
					for one := range was.done[at] {
						done = append(done, one)
					}
					l.check(t, done, missing, totals)
				}
			})
		})
	}
}

// A list that is too large is refused with an error that names its size, and its keys are dropped.
func TestLargeListIsRefused(t *testing.T) {
	t.Parallel()
	var k Keys
	row := strings.Repeat("r", 1<<20)
	for range 300 {
		k.Add(key.Key{Partition: "p", Row: row})
	}
	if err := k.Fit(); err == nil || err.Error() != "its keys take 301 MiB of memory, but at most 256 MiB are allowed; split the list" || k.Len() > 50 {
		t.Errorf("got error %v and %d keys", err, k.Len())
	}
}

// TestResumeNeedsTheSameList checks that a sweep does not resume without the list of its checkpoint, or with a list if its checkpoint has none.
func TestResumeNeedsTheSameList(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	source := emulatortest.Table(t, a, "source", nil)
	for header, keys := range map[string]*Keys{`{"listed":true}`: nil, `{}`: {}} {
		file, _ := journalOf(t, 1, header)
		c, err := NewCheckpoint(file)
		proof.Must(t, err)
		if _, err := Do(t.Context(), Spec{Source: source, Keys: keys}, Options{Checkpoint: c}, &recorder{}); err == nil {
			t.Errorf("a sweep resumed from %s, with the list %v", header, keys)
		}
		proof.Must(t, c.close())
	}
}

func rowsOf(keys map[key.Key]bool) (rows []storage.Entity) {
	for one := range keys {
		rows = append(rows, storage.Entity{Key: one})
	}
	return rows
}

// TestListedKeysAreGrouped counts requests. One query searches for neighbouring keys, and one transaction writes them. Keys far apart cost at most
// one query each.
func TestListedKeysAreGrouped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		partitions int
		size, step int // the rows of a partition; one of step rows is listed
		queries    int64
		units      int64 // the number of transactions
	}{
		{"whole partitions", 20, 100, 1, 20, 20},
		{"every other row", 10, 200, 2, 10, 10},
		{"one in nine", 10, 450, 9, 10, 10},
		{"two of a hundred", 10, 100, 50, 10, 10},
		{"one in a hundred", 2, 5000, 100, 100, 100},
		{"one of each", 500, 1, 1, 500, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, a := emulatortest.NewAccount(t, emulator.Options{})
				var rows []storage.Entity
				keys := &Keys{}
				listed := 0
				for p := range tt.partitions {
					for i := range tt.size {
						one := key.Key{Partition: fmt.Sprintf("p%04d", p), Row: fmt.Sprintf("%05d", i)}
						rows = append(rows, storage.Entity{Key: one})
						if i%tt.step == 0 {
							listed++
							keys.Add(one)
						}
					}
				}
				s := Spec{Source: emulatortest.Table(t, a, "source", rows), Keys: keys}
				destination := emulatortest.Table(t, a, "destination", nil)
				e.ResetCounts()
				totals, err := Do(t.Context(), s, Options{}, action.Copy{Destination: destination})
				if err != nil || totals.Written != int64(listed) {
					t.Fatalf("got %+v, error %v; want %d rows", totals, err, listed)
				}
				c := e.Counts()
				units := c.TableTransactions() - c.Query
				t.Logf("%d rows: %d queries that found %d rows, %d writes", listed, c.Query, c.QueryRows, units)
				if c.Query > tt.queries || units > tt.units {
					t.Errorf("made %d queries and %d writes, want at most %d and %d", c.Query, units, tt.queries, tt.units)
				}
			})
		})
	}
}
