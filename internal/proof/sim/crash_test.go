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

// small returns a plan without failures: a copy of a dozen rows by two machines.
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
	for i := range 12 { // one partition of six rows, and six partitions of one row
		p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", max(0, i-5)), Row: fmt.Sprintf("%02d", i)}})
	}
	return p
}

// repair is the longest delay of a scan by a crash. Maintain runs every minute, checks twice whether a step is lost, and its messages wait for a poll. If the
// machine with the timer's lease is lost, another machine gets the lease a minute later.
const (
	repair         = 90 * time.Second
	repairOfHolder = 150 * time.Second
)

// strategies limits the strategies in the exhaustive test. The seeds use all strategies.
var strategies = flag.Int("strategies", 1, "how many of the strategies TestEveryCrashPoint tries")

// TestEveryCrashPoint makes one request to storage of one machine fail, for each request in turn, either before or after it is applied. Each row of
// DESIGN.md's crash table is among these points.
func TestEveryCrashPoint(t *testing.T) {
	testsize.WithoutRace(t)
	deletion := small("serial")
	deletion.Scans[0].Request.Source.Table, deletion.Scans[0].Request.Action = "Doomed", scans.Action{Type: scans.Delete}
	deletion.Scans[0].Request.SegmentsPerInvocation = 2
	group := small("serial") // with its verification, which is a group
	group.Scans[0].Request.Source, group.Scans[0].Tables = scans.TableRef{Tables: "grp*"}, 3
	group.Scans[0].Request.Action.Destination = &scans.TableRef{Container: "exports", Prefix: "Group"}
	group.Scans[0].Request.Verify = true
	retry := small("serial") // a retry after a cancellation, and a retry of failed rows
	retry.FoldEvery = 2
	retry.Scans[0].Cancel, retry.Scans[0].Rest, retry.Scans[0].Rounds = time.Second, time.Second, 2
	retry.Scans[0].Request.Action.Mode = action.Fail
	for _, row := range retry.Source[:7] { // these rows prevent writes
		retry.Scans[0].Destination = append(retry.Scans[0].Destination, storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty("Name", "another")}})
	}
	row := retry // the operator writes a request for each retry
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
					t.Logf("%d points; holder of the timer's lease: %v; the scan is delayed by %v (median), at most by %v", len(delays), holder, delays[len(delays)/2], longest)
					if longest > limit {
						t.Errorf("a crash delayed the scan by %v, want at most %v", longest, limit)
					}
				}
			})
		}
	}
}

// crashEverywhere returns the delays of the scan by all points. The key of the map is true if the machine held the timer's lease.
func crashEverywhere(t *testing.T, calm sim.Plan, kind sim.Kind, undisturbed time.Duration) map[bool][]time.Duration {
	delays := map[bool][]time.Duration{}
	for _, host := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			stride := testsize.Slow(503, 41, 1)
			if calm.Scans[0].Tables+calm.Scans[0].Rounds > 0 { // such a scan makes many more requests
				stride = testsize.Slow(1601, 151, 1)
			}
			for n := 1; ; n += stride {
				p := calm
				p.Holder = n % 2 // every second time, this is the machine with the accident
				p.Machines = slices.Clone(calm.Machines)
				p.Machines[0].Accidents = []sim.Accident{{Kind: kind, Host: host, Request: n, Applied: applied}}
				stats, violations := run(t, p, zerolog.Nop())
				if len(violations) > 0 {
					t.Fatalf("the plan %v\nhas the violations %v", p, violations)
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

// TestAllMachinesAreLost loses every machine and all messages, at each moment of a scan. After an hour, one machine starts. Its Maintain must complete the
// scan.
func TestAllMachinesAreLost(t *testing.T) {
	testsize.WithoutRace(t)
	for _, strategy := range strategy.Names {
		t.Run(strategy, func(t *testing.T) {
			undisturbed, _ := run(t, small(strategy), zerolog.Nop())
			var longest time.Duration
			const start = time.Second // the time at which the operator starts the scan
			for at := start; at < start+undisturbed.Took; at += testsize.Slow(333*time.Millisecond, 111*time.Millisecond, 37*time.Millisecond) {
				p := small(strategy)
				p.Blackout, p.Darkness, p.Cleared = at, time.Hour, true
				stats, violations := run(t, p, zerolog.Nop())
				if len(violations) > 0 {
					t.Fatalf("the plan %v\nhas the violations %v", p, violations)
				}
				longest = max(longest, stats.Took-undisturbed.Took-p.Darkness)
			}
			t.Logf("the scan ended at most %v after the machine had started", longest)
			if longest > repair {
				t.Errorf("the scan ended %v after the machine had started, want at most %v", longest, repair)
			}
		})
	}
}

// TestHandlersThatDieAfterSeconds: no handler lives longer than five seconds. So no process that runs Maintain reaches its second check for lost steps, and
// some processes die between a commit and the messages of its new steps. Each loss may delay the scan by at most two runs of Maintain.
func TestHandlersThatDieAfterSeconds(t *testing.T) {
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
		t.Logf("seed %d: the scan took %v instead of %v, and %d messages were sent again", p.Seed, stats.Took, undisturbed.Took, stats.Resent)
		if len(violations) > 0 || stats.Took > undisturbed.Took+4*time.Minute {
			t.Errorf("seed %d: violations %v\n%+v", p.Seed, violations, stats)
		}
		resent += stats.Resent
	}
	if resent == 0 {
		t.Error("no message was lost")
	}
}

// TestSameSeedRepeatsTheRun runs seeds twice, with every fault, and compares all requests. Goroutines that wait for the same event continue at the same instant,
// and a busy machine sometimes changes their order. So a pair of runs may differ, but then the next pair must be equal.
func TestSameSeedRepeatsTheRun(t *testing.T) {
	testsize.WithoutRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(testsize.Slow(1, 4, 150)) {
		for pair := 1; ; pair++ {
			first, _ := run(t, sim.Draw(seed), zerolog.Nop())
			again, _ := run(t, sim.Draw(seed), zerolog.Nop())
			if again == first {
				break
			}
			if pair == 5 { // a busy machine sometimes moves work within an instant
				t.Errorf("seed %d: first %+v, then %+v", seed, first, again)
				break
			}
		}
	}
}

// TestOutages: no scan fails because the app's own storage or the source is away for long, although messages of steps go to the poison queue meanwhile. The
// scan continues when the storage answers again.
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
			t.Logf("the figures are %+v; the scan took %v longer than the outage", stats, after)
			if len(violations) > 0 || stats.Failures > 0 || after < -time.Minute || after > 30*time.Minute {
				t.Errorf("%v\n%+v, %v longer than the outage; want no failure, and at most 30 minutes", violations, stats, after)
			}
		})
	}
}

// TestShortOutages: an outage of a data account delays a copy by three handlers by the outage's own length and a few seconds. No step is sent again
// meanwhile.
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
					t.Errorf("%v\n%+v, %v longer than the outage; want no failure, and at most 15 s", violations, stats, after)
				}
				t.Logf("the scan took %v longer than the outage", after)
			})
		}
	}
}

// TestConcurrentDeliveries delivers some messages of a scan of at least 200 steps twice at the same time. For each of these messages, at most two steps may
// be repeated, because only one of two deliveries sends the messages of the new steps.
func TestConcurrentDeliveries(t *testing.T) {
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
				t.Errorf("%v\n%d steps were repeated for %d messages that were delivered twice", violations, stats.Repeated, stats.Duplicates)
			}
		})
	}
}

// TestSlowSteps: no message is sent again, because heartbeats name the steps that take long, and messages whose sending takes long are not lost.
func TestSlowSteps(t *testing.T) {
	testsize.WithoutRace(t)
	for by := 4; by <= 32; by += testsize.Of(14, 4) {
		for _, sending := range []int{1, 8} {
			p := small("serial")
			p.Calm = true // with Calm, a message that is sent again is a violation
			p.Faults = fmt.Sprintf("latency=%ds on=batch,insert,update,merge table=Target0; latency=%ds on=put; %s", by, sending, p.Faults)
			stats, violations := run(t, p, zerolog.Nop())
			if len(violations) > 0 || stats.Took < time.Minute && by > 16 {
				t.Errorf("with writes of %d s and messages of %d s: %v; %+v", by, sending, violations, stats)
			}
		}
	}
}

// TestCanceledInAStep cancels a scan while its first step reads and writes pages for half a minute. From a second later, no write may begin.
func TestCanceledInAStep(t *testing.T) {
	testsize.WithoutRace(t)
	for at := 2 * time.Second; at <= 20*time.Second; at += 2700 * time.Millisecond {
		p := small("adaptive")
		p.Calm = true // with Calm, a write that begins later is a violation
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

// TestFindingLostStepsIsCheap: finding lost steps takes at most 1% more requests in scans of 100 thousand rows, however slow the storage is. Serial scans have the
// fewest requests a minute. Scans that write each row separately have the longest steps, and need fewer rows for the same result. Polls are not counted.
func TestFindingLostStepsIsCheap(t *testing.T) {
	testsize.InFull(t)
	count := scans.Action{Type: scans.Count}
	copying := scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "Target0"}}
	for _, tt := range []struct {
		strategy   string
		action     scans.Action
		rows, size int // rows in all, and rows in each partition
		latency    int // milliseconds for each request
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
		t.Logf("%s %s, %d ms: %v, %d requests, %d to find lost steps: %.2f%%", tt.strategy, tt.action.Type, tt.latency, stats.Took, work, stats.Watching, share)
		if len(violations) > 0 || share > 1 || work < 200 {
			t.Errorf("%v\n%+v; want at most 1%% to find lost steps", violations, stats)
		}
	}
}

// TestManyTables: a group always has eight running members, however short they are. At this rate, two machines export 2,000 tables in ten minutes.
func TestManyTables(t *testing.T) {
	testsize.InFull(t)
	const seeds = 4 // latencies depend on the requests' text, and a run takes 46 to 59 requests a table
	tables, all := testsize.Slow(24, 24, 90), 0
	limit := time.Duration(tables) * 10 * time.Minute / 2000
	for seed := range uint64(seeds) {
		p := small("serial")
		p.Faults = strings.Replace(p.Faults, "seed=1", fmt.Sprintf("seed=%d", seed+1), 1)
		p.Scans[0].Request.Source, p.Scans[0].Tables = scans.TableRef{Tables: "grp*"}, tables
		p.Scans[0].Request.Action.Destination = &scans.TableRef{Container: "exports", Prefix: "Group"}
		stats, violations := run(t, p, zerolog.Nop())
		t.Logf("exported %d tables in %v with %d requests, want at most %v", tables, stats.Took, stats.Requests, limit)
		if all += stats.Requests; len(violations) > 0 || stats.Took > limit {
			t.Errorf("%v\n%+v, want at most %v", violations, stats, limit)
		}
	}
	if all > 55*seeds*tables { // docs/backup.md contains this figure
		t.Errorf("%d requests a table, want at most 55", all/seeds/tables)
	}
}
