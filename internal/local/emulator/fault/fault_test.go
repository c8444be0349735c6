package fault_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/proof"
)

func injector(t testing.TB, spec string) *fault.Injector {
	t.Helper()
	in, err := fault.NewInjector(spec)
	proof.Must(t, err)
	return in
}

func TestSpecText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " ;; ": "", "seed=18446744073709551615": "seed=18446744073709551615",
		"busy p=0.01   retry-after=1s;busy  p=1":                                               "busy p=0.01 retry-after=1s; busy p=1",
		"delay p=0.5 by=3s queue=work;; timeout-after p=1 times=1 on=batch,insert table=Rows ": "delay p=0.5 by=3s queue=work; timeout-after p=1 times=1 on=batch,insert table=Rows",
	} {
		if got := injector(t, in).String(); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestSpecErrorsNameTheWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, word string }{
		{"bussy p=1", "bussy"}, {"busy", "busy"}, {"busy p=2", "p=2"}, {"busy p=NaN", "p=NaN"}, {"busy=1", "busy=1"},
		{"busy p=1 by=2s", "by=2s"}, {"delay p=1", "delay"}, {"latency=fast", "latency=fast"}, {"latency=2s..1s", "latency=2s..1s"},
		{"latency", "latency"}, {"account-rate=0", "account-rate=0"}, {"seed=-1", "seed=-1"}, {"busy p=1 on=writes", "on=writes"},
		{"busy p=1 times=0", "times=0"}, {"short-page p=1 rows=0", "rows=0"}, {"busy p=1 rows=9", "rows=9"}, {"busy p=1 table=", "table="}, {"latency=1s p=0.5", "p=0.5"},
	} {
		if _, err := fault.NewInjector(c.spec); err == nil || !strings.Contains(err.Error(), `"`+c.word+`"`) {
			t.Errorf("%q: got error %v, which should name %q", c.spec, err, c.word)
		}
	}
}

func FuzzSpec(f *testing.F) {
	some := []fault.Request{{Kind: fault.Insert, Table: "X"}, {Kind: fault.Put, Queue: "q", Confined: true, Entities: 1}, {Kind: fault.Query, Identity: "x"}}
	f.Add("seed=7; latency=2ms..20ms; busy p=0.01 retry-after=1s on=batch table=X; account-rate=20000")
	f.Add("delay p=1 by=5s; duplicate p=0.1 queue=q times=3; deletion=40s")
	f.Fuzz(func(t *testing.T, text string) {
		in, err := fault.NewInjector(text)
		if err != nil {
			return
		}
		again, err := fault.NewInjector(in.String())
		if err != nil || !maps.Equal(fates(in, some), fates(again, some)) {
			t.Errorf("%q is printed as %q, which has another meaning, or an error: %v", text, in, err)
		}
	})
}

// fates plans every request, and counts how often each kind of fault occurs.
func fates(in *fault.Injector, requests []fault.Request) map[string]int {
	now := time.Unix(0, 0)
	failed := make(map[string]int)
	for _, r := range requests {
		if plan := in.Plan(now, r); plan.Fail != "" {
			failed[string(plan.Fail)+" "+r.Identity]++
		}
	}
	return failed
}

func TestDrawsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	var requests []fault.Request
	for i := range 500 {
		for range 4 { // the request and three retries
			requests = append(requests, fault.Request{Kind: fault.Insert, Identity: fmt.Sprint(i)})
		}
	}
	const spec = "seed=3; busy p=0.1; timeout-after p=0.1"
	want := fates(injector(t, spec), requests)
	for seed := range uint64(3) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		if diff := cmp.Diff(want, fates(injector(t, spec), requests)); diff != "" {
			t.Errorf("the faults of the requests in another order (-want +got):\n%s", diff)
		}
	}
	other := fates(injector(t, "seed=4; busy p=0.1; timeout-after p=0.1"), requests)
	if cmp.Equal(want, other) {
		t.Error("another seed causes the same faults")
	}
	busy, timeout := 0, 0
	for what, n := range want {
		if strings.HasPrefix(what, "busy") {
			busy += n
		} else {
			timeout += n
		}
	}
	if busy < 140 || busy > 260 || timeout < 120 || timeout > 240 {
		t.Errorf("of 2000 requests %d were busy and %d timed out, want about 200 and 180", busy, timeout)
	}
}

func TestLatencyIsWithinItsRange(t *testing.T) {
	t.Parallel()
	in := injector(t, "latency=2ms..20ms")
	low, high := time.Hour, time.Duration(0)
	for i := range 1000 {
		d := in.Plan(time.Time{}, fault.Request{Identity: fmt.Sprint(i)}).Latency
		low, high = min(low, d), max(high, d)
	}
	if low < 2*time.Millisecond || low > 3*time.Millisecond || high > 20*time.Millisecond || high < 19*time.Millisecond {
		t.Errorf("the latencies are from %v to %v, want the whole range", low, high)
	}
}

// admitted returns how many requests are admitted if a request arrives in every interval during the time.
func admitted(in *fault.Injector, r fault.Request, every, during time.Duration) (n int) {
	start := time.Unix(0, 0)
	for at := time.Duration(0); at < during; at += every {
		if in.Plan(start.Add(at), r).Fail == "" {
			n++
		}
	}
	return n
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec string
		request    fault.Request
		want       int // of 10,000 requests in 10 s; a bucket contains the tokens of one second
	}{
		{"account", "account-rate=100", fault.Request{}, 1100},
		{"fast enough", "account-rate=2000", fault.Request{}, 10_000},
		{"partition", "partition-rate=100", fault.Request{Confined: true, Entities: 1}, 1100},
		{"batches of ten", "partition-rate=100", fault.Request{Confined: true, Entities: 10}, 110},
		{"queue", "partition-rate=100", fault.Request{Queue: "q", Confined: true, Entities: 1}, 1100},
		{"across partitions", "partition-rate=100", fault.Request{Entities: 1}, 10_000},
		{"other table", "partition-rate=100 table=x", fault.Request{Table: "y", Confined: true, Entities: 1}, 10_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := injector(t, c.spec)
			got := admitted(in, c.request, time.Millisecond, 10*time.Second)
			if got < c.want-c.want/50 || got > c.want+c.want/50 {
				t.Errorf("admitted %d, want about %d", got, c.want)
			}
			for _, n := range in.Counts() {
				if got+n != 10_000 {
					t.Errorf("counted %d refusals, but %d requests were admitted", n, got)
				}
			}
		})
	}
}
