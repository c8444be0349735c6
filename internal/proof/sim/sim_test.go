//go:debug randseednop=0
package sim_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/proof/sim"
	"tablesweep/internal/proof/testsize"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "repeat the run of this one seed, and print its events")
	firstSeed = flag.Uint64("first", 1, "the first seed of many")
	seeds     = flag.Uint64("seeds", uint64(testsize.Slow(4, 40, 2000)), "how many seeds")
	stride    = flag.Uint64("stride", 0, "the distance between two seeds; 0 divides the seeds among several processes")
)

// run runs a plan. It fixes the random choices that the seed does not determine: the SDK's back-off and all numbers from crypto/rand.
func run(t *testing.T, p sim.Plan, log zerolog.Logger) (stats sim.Stats, violations []string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rand.Seed(int64(p.Seed)) //lint:ignore SA1019 retries draw from the global source
	cryptotest.SetGlobalRandom(t, p.Seed)
	synctest.Test(t, func(*testing.T) { stats, violations = sim.Run(p, log) })
	return stats, violations
}

// TestSeeds runs many seeds. After a failure, -seed repeats the failed seed.
func TestSeeds(t *testing.T) {
	switch {
	case *oneSeed != 0:
		log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
		if !testing.Verbose() {
			log = zerolog.Nop()
		}
		p := sim.Draw(*oneSeed)
		t.Logf("%v", p)
		stats, violations := run(t, p, log)
		report(t, p, violations)
		t.Logf("%+v", stats)
	case *stride != 0:
		var requests, failures, redone, lost, exports int
		var took time.Duration
		for i := uint64(0); i < *seeds; i += *stride {
			p := sim.Draw(*firstSeed + i)
			fmt.Println("running seed", p.Seed)
			stats, violations := run(t, p, zerolog.Nop())
			report(t, p, violations)
			requests, failures, redone = requests+stats.Requests, failures+stats.Failures, redone+stats.Redone
			lost, exports, took = lost+stats.Lost, exports+stats.Exports, took+stats.Took
			if t.Failed() {
				break
			}
		}
		fmt.Printf("%d requests in %v of virtual time, %d failures of scans, %d retries of failed rows, %d lost rows, %d exports\n",
			requests, took.Round(time.Second), failures, redone, lost, exports)
	default:
		share(t)
	}
}

// report fails the test with the violations, and prints the command that repeats the run.
func report(t *testing.T, p sim.Plan, violations []string) {
	t.Helper()
	if len(violations) > 0 {
		t.Errorf("%v\n%s\nrepeat it with: go test ./internal/proof/sim -run 'TestSeeds$' -v -seed=%d", p, strings.Join(violations, "\n"), p.Seed)
	}
}

// share divides the seeds among as many processes as there are processors. In each process, only one goroutine runs at a time, because otherwise a run is not
// repeated exactly.
func share(t *testing.T) {
	var workers sync.WaitGroup
	n := min(uint64(runtime.NumCPU()), *seeds)
	for i := range n {
		workers.Go(func() {
			out, err := runWorker(t, fmt.Sprint("-first=", *firstSeed+i), fmt.Sprint("-seeds=", *seeds-i), fmt.Sprint("-stride=", n))
			if t.Log(out); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
}

// runWorker runs TestSeeds in a separate process, and returns the last seed and the output.
func runWorker(t *testing.T, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestSeeds$", "-test.timeout=0"}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var last string // the output of a panic does not contain the seed
	var printed []string
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "running seed "):
			last = line
		case len(printed) < 200 && line != "PASS":
			printed = append(printed, line)
		}
	}
	return last + "\n" + strings.Join(printed, "\n"), cmd.Wait()
}
