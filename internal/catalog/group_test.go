package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

// TestGroupsNeedFewRequests counts the requests of many concurrent writes. Each index row takes one request, and the records
// share the requests to the log.
func TestGroupsNeedFewRequests(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		n             int
		insert, again float64 // maximum number of requests for each record; again inserts existing records
		remove        float64 // deletion by a key other than the first: the head, two rows and three tombstones, and the log
	}{{100, 3.4, 5.5, 6.5}, {1000, 3.1, 5.5, 6.2}}[:testsize.Of(1, 2)] {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			requests := func(what string, most float64, do func()) {
				w.emulator.ResetCounts()
				do()
				c.Close() // waits for the background work
				got := float64(w.emulator.Counts().TableTransactions()) / float64(tt.n)
				if t.Logf("%d records: %s takes %.3f requests for each record", tt.n, what, got); got > most {
					t.Errorf("%d records: %s takes %.3f requests for each record, want at most %.2f", tt.n, what, got, most)
				}
			}
			all := make([]record.Record, tt.n)
			for i := range all {
				all[i] = rec(t, fmt.Sprintf(`{"eid":"%d","npi":"%d","ssn":"%d","lastname":"Faux"}`, i, i, i))
			}
			requests("inserted", tt.insert, func() { w.insertMany(c, all) })
			requests("unchanged", tt.again, func() { c.InsertAll(t.Context(), record.Decoded(all), nil) })
			shared := sharing(t, "npi", tt.n)
			for i := range shared {
				shared[i] = rec(t, strings.Replace(string(shared[i].AppendJSON(nil)), "Faux", "Smith", 1))
			}
			w.insertMany(c, shared)
			c.Close()
			only := by("npi", "7")
			only.RowFrom = "smith"
			requests("deleted", tt.remove, func() { w.delete(c, only, tt.n) })
			w.check(c)
		})
	}
}

// TestGroupCrashPoints lets the writer of a group die at each of its requests. After Maintain, each record must be in all
// indexes or in none, and the same writes must complete the work.
func TestGroupCrashPoints(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			for _, retried := range []bool{false, true} {
				t.Run(fmt.Sprintf("deletes %v, applied %v, retried %v", deletes, applied, retried), func(t *testing.T) {
					deaths(t, 1, testsize.Slow(17, 5, 1), func(t *testing.T, n int) bool {
						w, c := newCatalog(t, people, "lastname")
						all := append(sharing(t, "eid", 3), rec(t, `{"eid":"1","npi":"3","lastname":"Faux"}`))
						do := func(ctx context.Context, c *catalog.Catalog) (err error) {
							if deletes {
								for _, eid := range []string{"7", "1"} {
									if err == nil {
										_, err = c.Delete(ctx, by("eid", eid), always, nil)
									}
								}
								return err
							}
							for _, one := range c.InsertAll(ctx, record.Decoded(all), nil) {
								if one.Err != nil {
									err = one.Err
								}
							}
							return err
						}
						if deletes {
							w.insertMany(c, all)
							c.Close()
						}
						victim, process := w.mortal(n, applied, nil)
						err := do(t.Context(), victim)
						victim.Close()
						if retried {
							err = do(t.Context(), c)
							if err != nil {
								t.Errorf("the retry returns the error %v", err)
							}
						}
						complete := func() {
							if got := len(w.find(c, by("eid", "7"))) + len(w.find(c, by("eid", "1"))); err == nil && (got > 0) == deletes || err == nil && !deletes && got != len(all) {
								t.Errorf("there are %d records", got)
							}
						}
						complete()
						time.Sleep(time.Minute)
						w.maintain(c)
						complete()
						w.check(c)
						w.nextDay(c)
						w.check(c)
						return process.Dead()
					})
				})
			}
		}
	}
}

// TestGroupAfterLostAnswers loses the answer of each transaction after the transaction was carried out. One entry in the log shows that
// all writes were committed. It also loses the answers of writes to index rows, so the heads must be marked as not Sure.
func TestGroupAfterLostAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		const n = 40
		proof.Must(t, w.emulator.SetFaults("timeout-after p=1 times=1 on=batch; timeout-after p=1 times=1 on=insert table=People"))
		w.insertMany(c, sharing(t, "eid", n)) // each insertion must return Created; a second try would return Unchanged
		c.Close()
		proof.Must(t, w.emulator.SetFaults(""))
		if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
			t.Errorf("%d pending entries remain", len(left))
		}
		doubts := slices.DeleteFunc(w.rows("PeopleWAL", "h|"), func(e storage.Entity) bool { return e.Get("Sure") == "true" })
		if len(doubts) != n {
			t.Errorf("%d heads are marked as not Sure, want %d", len(doubts), n)
		}
		w.delete(c, by("eid", "7"), n)
		w.check(c)
	})
}

// TestGroupWithRefusedWrites checks that a refused record does not affect the other records of its group.
func TestGroupWithRefusedWrites(t *testing.T) {
	t.Parallel()
	for _, storageRefuses := range []bool{false, true} {
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			all := sharing(t, "eid", 20)
			refused := map[int]bool{0: true, 7: true, 8: true, 19: true}
			for i := range refused {
				if !storageRefuses {
					w.wantOutcome(catalog.Created)(c.Insert(t.Context(), all[i], ""))
				}
				text := string(all[i].AppendJSON(nil))
				all[i] = rec(t, text[:len(text)-1]+`,"wage":"bad"}`)
			}
			c.Close()
			writer := w.via(func(r *http.Request) (*http.Response, error) {
				if what := describe(r); storageRefuses && strings.Contains(what, `"bad"`) {
					return emulatortest.Refusal(r, http.StatusBadRequest, "PropertyValueTooLarge"), nil
				}
				return w.emulator.Transport().Do(r)
			})
			for i, one := range writer.InsertAll(t.Context(), record.Decoded(all), nil) {
				if refused[i] {
					wantKind(t, one.Err, problem.Conflict, problem.TooLarge)
				} else if one.Err != nil || one.Outcome != catalog.Created {
					t.Errorf("record %d has the result %+v", i, one)
				} else {
					w.wantFound(c, by("npi", fmt.Sprint(i)), all[i])
				}
			}
			writer.Close()
			if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
				t.Errorf("%d pending entries remain", len(left))
			}
			w.check(c)
		})
	}
}

// TestGroupFinishedByAnotherProcess lets another process finish some entries of a group before the group's writer. The writer must
// finish the others.
func TestGroupFinishedByAnotherProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		hold, reached, release := holdOnce("POST", "/People HTTP", `"19"`) // holds the request for an index row of one record
		held := w.gated(hold)
		ended := make(chan struct{})
		all := sharing(t, "eid", 20)
		go func() {
			defer close(ended)
			w.insertMany(held, all)
		}()
		<-reached
		w.wantOutcome(catalog.Unchanged)(c.Insert(t.Context(), all[3], "")) // finishes the entry of that record
		close(release)
		<-ended
		held.Close()
		if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
			t.Errorf("%d pending entries remain", len(left))
		}
		w.check(c)
	})
}

// TestGroupsFitTransactions writes records of half a megabyte each, which are too large for one transaction together.
func TestGroupsFitTransactions(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
		all := sharing(t, "eid", 10)
		for i, r := range all {
			text := string(r.AppendJSON(nil))
			for f := range 16 {
				text = text[:len(text)-1] + fmt.Sprintf(`,"f%d":"%s"}`, f, strings.Repeat("x", 30_000))
			}
			all[i] = rec(t, text)
		}
		w.insertMany(c, all)
		w.delete(c, by("eid", "7"), len(all))
		for _, r := range all { // writes whose index rows are not written
			dead, p := w.mortal(0, false, nil)
			p.DieWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/People(") })
			if _, err := dead.Insert(t.Context(), r, ""); err == nil {
				t.Error("a writer did not die")
			}
		}
		w.delete(c, by("eid", "7"), len(all))
		c.Close()
		w.check(c)
	})
}

// TestGroupPanics checks that a panic in the commit of a group, or of half a group, is the error of each write that was not
// committed.
func TestGroupPanics(t *testing.T) {
	t.Parallel()
	for _, size := range []int{4, 20} { // the second group contains an existing record, so it is committed in halves
		inBubble(t, people, "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			all := sharing(t, "eid", size)
			if size == 20 {
				w.wantOutcome(catalog.Created)(c.Insert(t.Context(), all[0], ""))
			}
			writer := w.via(func(r *http.Request) (*http.Response, error) {
				if n := strings.Count(describe(r), "tsw_kind"); n > 1 && n < 20 {
					panic("planted")
				}
				return w.emulator.Transport().Do(r)
			})
			for i, one := range writer.InsertAll(t.Context(), record.Decoded(all), nil) {
				if (one.Err == nil) != (size == 20 && i == 0) {
					t.Errorf("record %d has the result %+v", i, one)
				}
			}
			writer.Close()
			w.check(c)
		})
	}
}

// TestGroupKeepsTheOrder writes several records with the same identity in one call. A group must contain an identity only once,
// and the first write must succeed.
func TestGroupKeepsTheOrder(t *testing.T) {
	t.Parallel()
	_, c := newCatalog(t, people, "lastname")
	same := make([]record.Record, 20)
	for i := range same {
		same[i] = rec(t, fmt.Sprintf(`{"eid":"3","lastname":"a","x":%d}`, i))
	}
	for i, one := range c.InsertAll(t.Context(), record.Decoded(same), nil) {
		if (one.Err == nil) != (i == 0) {
			t.Errorf("write %d of the same identity returns %+v, want only the first write to succeed", i, one)
		}
	}
}

// TestSlowGroups delays the reads of one write of a group by minutes, or each try of the commit by 9 s. Meanwhile records move to
// another schema. The group must check the schema again before it commits, and no entry may be committed more than a minute after
// its time.
func TestSlowGroups(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"schema", "reads", "commits"} {
		inBubble(t, "eid,npi", "lastname", func(t *testing.T, w *world, c *catalog.Catalog) {
			until := time.Now().Add(3 * time.Minute)
			writer := w.via(func(r *http.Request) (*http.Response, error) {
				what := describe(r)
				if bad != "commits" && r.Method == http.MethodGet && strings.Contains(what, "h|") && time.Now().Before(until) {
					return emulatortest.Refusal(r, http.StatusServiceUnavailable, "ServerBusy"), nil
				}
				if n := strings.Count(what, "tsw_kind"); bad == "commits" && n > 0 && task.Sleep(r.Context(), 9*time.Second) && n > 1 {
					return emulatortest.Refusal(r, http.StatusBadRequest, "InvalidInput"), nil
				}
				return w.emulator.Transport().Do(r)
			})
			all := make([]record.Record, 48)
			for i := range all {
				all[i] = rec(t, fmt.Sprintf(`{"eid":"7","npi":"%d","phone":"%d","lastname":"a"}`, i, i))
			}
			ended := make(chan []catalog.Result)
			go func() {
				ctx := storage.WithPatience(t.Context(), time.Hour)
				ended <- writer.WriteAll(ctx, record.Decoded(all), func(ctx context.Context, i int) (catalog.Written, error) {
					if i > 0 {
						return writer.Insert(ctx, all[i], "")
					}
					return writer.Put(ctx, all[i], always)
				})
			}()
			time.Sleep(time.Second)
			if bad == "schema" {
				w.schema = parsed(t, "npi,phone", "lastname")
				c = w.openOn(w.account, nil)
				if _, err := migrate.Run(t.Context(), c, false, func(f catalog.Finding) { t.Errorf("the migration leaves %+v", f) }); err != nil || time.Now().After(until) {
					t.Fatal(err)
				}
			}
			for i, one := range <-ended {
				switch {
				case bad == "schema":
					wantKind(t, one.Err, problem.Conflict)
					w.wantFound(c, by("phone", fmt.Sprint(i)))
				case bad == "reads" && one.Err != nil:
					t.Error(one.Err)
				}
			}
			writer.Close()
			for _, row := range append(w.rows("PeopleWAL", "c|"), w.rows("PeopleWAL", "e|")...) {
				if at, err := logtail.KeyTime(row.Key.Row[2:]); err != nil || row.Timestamp.Sub(at) > time.Minute {
					t.Errorf("%s: the entry with the time %v is committed at %v, error %v", bad, at, row.Timestamp, err)
				}
			}
			w.check(c)
		})
	}
}
