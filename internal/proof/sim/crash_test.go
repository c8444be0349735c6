package sim_test

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/sim"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// small is a plan in which nothing goes wrong: a copy of a dozen rows by two machines.
func small(strategy string) sim.Plan {
	p := sim.Plan{
		Seed: 1, MaxPolling: 5 * time.Second, // as in host.json
		Faults:   "seed=1; latency=2ms..20ms on=query,insert,update,merge,delete,batch,tables,put,get,update-message,delete-message,queues",
		Machines: slices.Repeat([]sim.Machine{{Restart: 2 * time.Second, Replace: 30 * time.Second}}, 2),
		Scans: []sim.PlannedScan{{Request: scans.Request{
			Source:   scans.TableRef{Table: "Source"},
			Action:   scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "Target0"}},
			Strategy: strategy, SegmentSize: 3,
		}}},
	}
	for i := range 12 { // a partition of six rows, and six of one
		p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", max(0, i-5)), Row: fmt.Sprintf("%02d", i)}})
	}
	return p
}

// repair is the longest that a crash may delay a scan: Maintain runs every minute, looks
// twice at what is lost, and what it sends waits for a poll. If the machine that held the timer's
// lease is lost, another takes the lease a minute later.
const (
	repair         = 90 * time.Second
	repairOfHolder = 150 * time.Second
)

// strategies makes the exhaustive test take some of them only; the seeds take all.
var strategies = flag.Int("strategies", 1, "how many of the strategies TestEveryCrashPoint tries")

// TestEveryCrashPoint has one thing go wrong with each storage request of one of the machines in turn, before the
// request is applied or after. Each row of DESIGN.md's crash table is among these points.
func TestEveryCrashPoint(t *testing.T) {
	testsize.WithoutRace(t)
	deletion := small("serial")
	deletion.Scans[0].Request.Source.Table, deletion.Scans[0].Request.Action = "Doomed", scans.Action{Type: scans.Delete}
	deletion.Scans[0].Request.SegmentsPerInvocation = 2
	group := small("serial") // and its verification, which is one
	group.Scans[0].Request.Source, group.Scans[0].Tables = scans.TableRef{Tables: "grp*"}, 3
	group.Scans[0].Request.Action.Destination = &scans.TableRef{Container: "exports", Prefix: "Group"}
	group.Scans[0].Request.Verify = true
	retry := small("serial") // once canceled, and once done but for failed rows
	retry.FoldEvery = 2
	retry.Scans[0].Cancel, retry.Scans[0].Rest, retry.Scans[0].Rounds = time.Second, time.Second, 2
	retry.Scans[0].Request.Action.Mode = action.Fail
	for _, row := range retry.Source[:7] { // in the way
		retry.Scans[0].Destination = append(retry.Scans[0].Destination, storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("Name", "another")}})
	}
	row := retry // asks for the retries
	row.Scans = slices.Clone(retry.Scans)
	row.Scans[0].ByStorage = true
	plans := map[string]sim.Plan{"delete": deletion, "group": group, "retry": retry, "retry by a row": row}
	for _, strategy := range strategy.Names[:*strategies] {
		plans[strategy] = small(strategy)
	}
	for name, plan := range plans {
		undisturbed, violations := run(t, plan, zerolog.Nop())
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		for _, kind := range []sim.Kind{sim.Crash, sim.Loss, sim.Silence}[:testsize.Of(1, 3)] {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				points := crashEverywhere(t, plan, kind, undisturbed.Took)
				for holder, limit := range map[bool]time.Duration{false: repair, true: repairOfHolder} {
					delays := points[holder]
					if len(delays) == 0 {
						continue
					}
					slices.Sort(delays)
					longest := delays[len(delays)-1]
					t.Logf("%d points; timer's holder %v; the scan is delayed by %v at the median, %v at most", len(delays), holder, delays[len(delays)/2], longest)
					if longest > limit {
						t.Errorf("a crash delayed the scan by %v, want at most %v", longest, limit)
					}
				}
			})
		}
	}
}

// crashEverywhere returns the delay that each point brought, by whether the machine held the timer's lease.
func crashEverywhere(t *testing.T, calm sim.Plan, kind sim.Kind, undisturbed time.Duration) map[bool][]time.Duration {
	delays := map[bool][]time.Duration{}
	for _, host := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			stride := testsize.Slow(503, 41, 1)
			if calm.Scans[0].Tables+calm.Scans[0].Rounds > 0 { // many more requests
				stride = testsize.Slow(1601, 151, 1)
			}
			for n := 1; ; n += stride {
				p := calm
				p.Holder = n % 2 // the machine that the accident befalls, every other time
				p.Machines = slices.Clone(calm.Machines)
				p.Machines[0].Accidents = []sim.Accident{{Kind: kind, Host: host, Request: n, Applied: applied}}
				stats, violations := run(t, p, zerolog.Nop())
				if len(violations) > 0 {
					t.Fatalf("%v\n%v", p, violations)
				}
				if stats.Accidents == 0 {
					break
				}
				holder := stats.Orphaned > 0
				delays[holder] = append(delays[holder], max(0, stats.Took-undisturbed))
			}
		}
	}
	return delays
}

// TestNobodyLeft loses every machine at each moment of a scan, and all messages, too.
// Maintain, on the one machine that comes after an hour, brings the scan to its end.
func TestNobodyLeft(t *testing.T) {
	testsize.WithoutRace(t)
	for _, strategy := range strategy.Names {
		t.Run(strategy, func(t *testing.T) {
			undisturbed, _ := run(t, small(strategy), zerolog.Nop())
			var longest time.Duration
			const start = time.Second // when the operator calls
			for at := start; at < start+undisturbed.Took; at += testsize.Slow(333*time.Millisecond, 111*time.Millisecond, 37*time.Millisecond) {
				p := small(strategy)
				p.Blackout, p.Darkness, p.Cleared = at, time.Hour, true
				stats, violations := run(t, p, zerolog.Nop())
				if len(violations) > 0 {
					t.Fatalf("%v\n%v", p, violations)
				}
				longest = max(longest, stats.Took-undisturbed.Took-p.Darkness)
			}
			t.Logf("the scan ended at most %v after a machine had come", longest)
			if longest > repair {
				t.Errorf("the scan ended %v after a machine had come, want at most %v", longest, repair)
			}
		})
	}
}

// TestHandlersThatDieAllTheTime: no handler lives for longer than five seconds. So none that runs Maintain takes its second look, and now and then one
// dies between a commit and the messages of its children. No loss delays the scan by more than two runs of Maintain.
func TestHandlersThatDieAllTheTime(t *testing.T) {
	testsize.WithoutRace(t)
	resent := 0
	for seed := range uint64(testsize.Slow(1, 6, 30)) {
		p := small("adaptive")
		p.Seed = seed + 1
		for i := range 240 {
			p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("q%03d", i), Row: "r"}})
		}
		p.Faults = "latency=1500ms on=put; " + p.Faults
		undisturbed, _ := run(t, p, zerolog.Nop())
		for i := range p.Machines {
			p.Machines[i].Life = 5 * time.Second
		}
		stats, violations := run(t, p, zerolog.Nop())
		t.Logf("seed %d: %v instead of %v, %d sent again", p.Seed, stats.Took, undisturbed.Took, stats.Resent)
		if len(violations) > 0 || stats.Took > undisturbed.Took+4*time.Minute {
			t.Errorf("seed %d: %v\n%+v", p.Seed, violations, stats)
		}
		resent += stats.Resent
	}
	if resent == 0 {
		t.Error("no message was lost")
	}
}

// TestSameSeedSameRun runs seeds twice, with every fault, and compares all requests. Goroutines that wait for one thing go on
// at one instant, and a busy machine seldom changes their order. So a pair of runs may differ, the next one must not.
func TestSameSeedSameRun(t *testing.T) {
	testsize.WithoutRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(testsize.Slow(1, 4, 150)) {
		for pair := 1; ; pair++ {
			first, _ := run(t, sim.Draw(seed), zerolog.Nop())
			again, _ := run(t, sim.Draw(seed), zerolog.Nop())
			if again == first {
				break
			}
			if pair == 5 { // a busy machine now and then moves work within an instant
				t.Errorf("seed %d: first %+v, then %+v", seed, first, again)
				break
			}
		}
	}
}

// TestOutages: no scan fails because storage is away for long, the app's own or the
// source's, whose steps go to poison meanwhile. It goes on when the storage is back.
func TestOutages(t *testing.T) {
	testsize.WithoutRace(t)
	outage := testsize.Slow(10*time.Minute, 30*time.Minute, 2*time.Hour)
	for name, rules := range map[string]string{
		"all storage": "reset-before p=1 on=query,insert,update,merge,delete,batch,tables,put,get,peek,update-message,delete-message,queues",
		"the source":  "busy p=1 on=query table=Source",
		"the queues":  "busy p=1 on=put,get,peek,update-message,delete-message,queues",
	} {
		t.Run(name, func(t *testing.T) {
			p := small("prefix")
			undisturbed, _ := run(t, p, zerolog.Nop())
			p.Outages = []sim.Outage{{Rules: rules, From: 200 * time.Millisecond, For: outage}}
			stats, violations := run(t, p, zerolog.Nop())
			after := stats.Took - undisturbed.Took - outage
			t.Logf("%+v, %v longer than the outage", stats, after)
			if len(violations) > 0 || stats.Failures > 0 || after < -time.Minute || after > 30*time.Minute {
				t.Errorf("%v\n%+v, %v longer than the outage; want no failure, and 30 minutes at most", violations, stats, after)
			}
		})
	}
}

// TestShortOutages: a data account that is away costs a copy by three handlers the outage's own length and a few
// seconds. Nobody sends a step again meanwhile.
func TestShortOutages(t *testing.T) {
	testsize.WithoutRace(t)
	for name, rules := range map[string]string{
		"the source does not answer":      "reset-before p=1 on=query table=Source",
		"the source is busy":              "busy p=1 on=query table=Source",
		"the destination does not answer": "reset-before p=1 on=batch,insert,update,merge table=Target0",
		"the destination is busy":         "busy p=1 on=batch,insert,update,merge table=Target0",
	} {
		for _, outage := range []time.Duration{20 * time.Second, time.Minute}[:testsize.Of(1, 2)] {
			t.Run(fmt.Sprintf("%s for %v", name, outage), func(t *testing.T) {
				p := small("adaptive")
				p.Machines = []sim.Machine{p.Machines[0], p.Machines[0], p.Machines[0]}
				undisturbed, _ := run(t, p, zerolog.Nop())
				p.Outages = []sim.Outage{{Rules: rules, From: 200 * time.Millisecond, For: outage}}
				stats, violations := run(t, p, zerolog.Nop())
				after := stats.Took - undisturbed.Took - outage
				if len(violations) > 0 || stats.Failures+stats.Resent+stats.Poisoned > 0 || stats.Took < outage || after > 15*time.Second {
					t.Errorf("%v\n%+v, %v longer than the outage; want no failure, and 15 s at most", violations, stats, after)
				}
				t.Logf("%v longer than the outage", after)
			})
		}
	}
}

// TestTwoDeliveriesAtOnce delivers some messages twice at once. Of the 200 steps or more, two at most are done again for
// each of these: only one of two deliveries sends the children's messages.
func TestTwoDeliveriesAtOnce(t *testing.T) {
	testsize.WithoutRace(t)
	for _, strategy := range testsize.Of(strategy.Names[:1], strategy.Names) {
		t.Run(strategy, func(t *testing.T) {
			p := small(strategy)
			p.Calm = true
			for i := range 300 {
				p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("q%03d", i), Row: "r"}})
			}
			p.Faults += "; duplicate p=0.03 on=put"
			stats, violations := run(t, p, zerolog.Nop())
			t.Logf("%+v", stats)
			if len(violations) > 0 || stats.Duplicates < 1 || stats.Repeated < 1 || stats.Repeated > 2*stats.Duplicates {
				t.Errorf("%v\n%d steps were done again for %d messages that came twice", violations, stats.Repeated, stats.Duplicates)
			}
		})
	}
}

// TestSlowSteps: steps that take long are in living hands, and messages that are long in
// being sent are not lost: nothing is sent again.
func TestSlowSteps(t *testing.T) {
	testsize.WithoutRace(t)
	for by := 4; by <= 32; by += testsize.Of(14, 4) {
		for _, sending := range []int{1, 8} {
			p := small("serial")
			p.Calm = true // which fails if a message is sent again
			p.Faults = fmt.Sprintf("latency=%ds on=batch,insert,update,merge table=Target0; latency=%ds on=put; %s", by, sending, p.Faults)
			stats, violations := run(t, p, zerolog.Nop())
			if len(violations) > 0 || stats.Took < time.Minute && by > 16 {
				t.Errorf("writes take %d s, messages %d s: %v; %+v", by, sending, violations, stats)
			}
		}
	}
}

// TestCanceledInAStep cancels a scan while its first step reads and writes pages for half a minute: a second later no write begins.
func TestCanceledInAStep(t *testing.T) {
	testsize.WithoutRace(t)
	for at := 2 * time.Second; at <= 20*time.Second; at += 2700 * time.Millisecond {
		p := small("adaptive")
		p.Calm = true // which fails if a write begins later
		p.Faults = "latency=400ms on=query table=Source; latency=700ms on=batch,insert,update,merge table=Target0; " + p.Faults
		p.Scans[0].Request.SegmentsPerInvocation = 24
		for i := range 900 {
			p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("q%03d", i), Row: "r"}})
		}
		p.Scans[0].Cancel, p.Scans[0].Rest = at, time.Minute
		stats, violations := run(t, p, zerolog.Nop())
		if len(violations) > 0 || stats.Took < at+time.Minute {
			t.Errorf("canceled after %v: %v; %+v", at, violations, stats)
		}
	}
}

// TestWatchingIsCheap: to tell lost steps from others takes at most 1 % more requests in scans of 100 thousand rows,
// however slow the storage is. Serial scans have the fewest requests a minute; those that write each row by itself have
// the longest steps, and show as much with fewer rows. Polls count neither way.
func TestWatchingIsCheap(t *testing.T) {
	testsize.InFull(t)
	count := scans.Action{Type: scans.Count}
	copying := scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "Target0"}}
	for _, tt := range []struct {
		strategy   string
		action     scans.Action
		rows, size int // rows in all, rows a partition
		latency    int // milliseconds a request
	}{
		{"serial", count, 100_000, 100, 200},
		{"adaptive", copying, 4_000, 1, 200},
		{"serial", copying, 4_000, 1, 1000},
	} {
		p := small(tt.strategy)
		p.Source, p.Calm = nil, true
		for i := range tt.rows {
			p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%05d", i/tt.size), Row: fmt.Sprintf("%02d", i%tt.size)}})
		}
		p.Machines = append(p.Machines, p.Machines[0])
		p.Scans[0].Request.Action = tt.action
		p.Scans[0].Request.SegmentSize = 0 // the default
		p.Faults = fmt.Sprintf("seed=1; latency=%dms on=query,batch,insert,update,merge,delete,tables,put,get,peek,update-message,delete-message,queues", tt.latency)
		stats, violations := run(t, p, zerolog.Nop())
		work := stats.Requests - stats.Polls - stats.Watching
		share := 100 * float64(stats.Watching) / float64(work)
		t.Logf("%s %s, %d ms: %v, %d requests, %d to watch: %.2f %%", tt.strategy, tt.action.Type, tt.latency, stats.Took, work, stats.Watching, share)
		if len(violations) > 0 || share > 1 || work < 200 {
			t.Errorf("%v\n%+v; want at most 1 %% to watch", violations, stats)
		}
	}
}

// TestManyTables: a group keeps eight scans going, however short they are. At this pace, two machines export 2,000 tables in ten minutes.
func TestManyTables(t *testing.T) {
	testsize.InFull(t)
	const seeds = 4 // latencies follow from the requests' text, and one run takes 46 to 59 requests a table
	tables, all := testsize.Slow(24, 24, 90), 0
	limit := time.Duration(tables) * 10 * time.Minute / 2000
	for seed := range uint64(seeds) {
		p := small("serial")
		p.Faults = strings.Replace(p.Faults, "seed=1", fmt.Sprintf("seed=%d", seed+1), 1)
		p.Scans[0].Request.Source, p.Scans[0].Tables = scans.TableRef{Tables: "grp*"}, tables
		p.Scans[0].Request.Action.Destination = &scans.TableRef{Container: "exports", Prefix: "Group"}
		stats, violations := run(t, p, zerolog.Nop())
		t.Logf("%d tables in %v with %d requests, want %v", tables, stats.Took, stats.Requests, limit)
		if all += stats.Requests; len(violations) > 0 || stats.Took > limit {
			t.Errorf("%v\n%+v, want at most %v", violations, stats, limit)
		}
	}
	if all > 55*seeds*tables { // docs/backup.md has it
		t.Errorf("%d requests a table, want at most 55", all/seeds/tables)
	}
}
