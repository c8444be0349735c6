package sim_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/key"
	"tablesweep/internal/sim"
	"tablesweep/internal/storage"
)

// small is a plan in which nothing goes wrong: a copy of a dozen rows by two machines.
func small(strategy string) sim.Plan {
	p := sim.Plan{
		Seed: 1, MaxPolling: 5 * time.Second, // as in host.json
		Faults:   "seed=1; latency=2ms..20ms on=query,batch,tables,put,get,update-message,delete-message,queues",
		Machines: slices.Repeat([]sim.Machine{{Restart: 2 * time.Second, Replace: 30 * time.Second}}, 2),
		Scans: []sim.Scan{{Request: engine.Request{
			Source:   engine.TableRef{Table: "Source"},
			Action:   engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target0"}},
			Strategy: strategy, SegmentSize: 3,
		}}},
	}
	for i := range 12 { // a partition of six rows, and six of one
		p.Source = append(p.Source, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%02d", max(0, i-5)), Row: fmt.Sprintf("%02d", i)}})
	}
	return p
}

// repair is the longest that a crash may delay a scan. A dead machine's messages
// come back after their lease of 10 minutes. Messages that were never sent are
// missed when they are 12 minutes old, or earlier if their queue is empty then;
// Maintain looks every minute. Then the host's longest wait between two polls, and
// what the repeated work takes.
const repair = 12*time.Minute + time.Minute + 10*time.Second

// strategies makes the exhaustive test take some of them only; the seeds take all.
var strategies = flag.Int("strategies", 1, "how many of the strategies TestEveryCrashPoint tries")

// TestEveryCrashPoint has one thing go wrong with each storage request of one of the
// machines in turn, before the request is applied or after. Each row of DESIGN.md's
// crash table is among these points.
func TestEveryCrashPoint(t *testing.T) {
	for _, strategy := range engine.Strategies[:*strategies] {
		undisturbed, violations := run(t, small(strategy), zerolog.Nop())
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		for _, kind := range []sim.Kind{sim.Loss, sim.Crash, sim.Silence} {
			t.Run(strategy+" "+string(kind), func(t *testing.T) {
				delays := crashEverywhere(t, small(strategy), kind, undisturbed.Took)
				slices.Sort(delays)
				t.Logf("%d points; the scan is delayed by %v at the median, %v at most", len(delays), delays[len(delays)/2], delays[len(delays)-1])
				if longest := delays[len(delays)-1]; longest > repair {
					t.Errorf("a crash delayed the scan by %v, want at most %v", longest, repair)
				}
			})
		}
	}
}

// crashEverywhere returns the delay that each point brought.
func crashEverywhere(t *testing.T, calm sim.Plan, kind sim.Kind, undisturbed time.Duration) (delays []time.Duration) {
	for _, host := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			for n := 1; ; n += crashStep {
				p := calm
				p.Machines = slices.Clone(calm.Machines)
				p.Machines[0].Accidents = []sim.Accident{{Kind: kind, Host: host, Request: n, Applied: applied}}
				stats, violations := run(t, p, zerolog.Nop())
				if len(violations) > 0 {
					t.Fatalf("%v\n%v", p, violations)
				}
				if stats.Accidents == 0 {
					break
				}
				delays = append(delays, max(0, stats.Took-undisturbed))
			}
		}
	}
	return delays
}

// TestNobodyLeft loses every machine at each moment of a scan, and all messages, too.
// Maintain, on the one machine that comes after an hour, brings the scan to its end.
func TestNobodyLeft(t *testing.T) {
	for _, strategy := range engine.Strategies {
		t.Run(strategy, func(t *testing.T) {
			undisturbed, _ := run(t, small(strategy), zerolog.Nop())
			var longest time.Duration
			const start = time.Second // when the operator calls
			for at := start; at < start+undisturbed.Took; at += 37 * time.Millisecond {
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

// TestSameSeedSameRun runs seeds twice, with every fault, and compares all requests.
func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(sameSeeds) {
		first, _ := run(t, sim.Draw(seed), zerolog.Nop())
		if again, _ := run(t, sim.Draw(seed), zerolog.Nop()); again != first {
			t.Errorf("seed %d: first %+v, then %+v", seed, first, again)
		}
	}
}
