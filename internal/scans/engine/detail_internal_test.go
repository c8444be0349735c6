package engine

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// TestRangesOf: pending ranges are cut out of done ones, in table order. The pages that were read show how far
// a continuing step has come. Pages with failed rows stand apart.
func TestRangesOf(t *testing.T) {
	t.Parallel()
	end := func(pk string, rows, failed int) scan.PageEnd {
		return scan.PageEnd{Last: key.Key{Partition: pk}, Rows: rows, Failed: failed}
	}
	partitions := func(low, high string) key.Range {
		var r key.Range
		if low != "" {
			r.Low = &key.Bound{Key: low}
		}
		if high != "" {
			r.High = &key.Bound{Key: high, Open: true}
		}
		return r
	}
	step := func(low, high string, goesOn bool) reach {
		m := message{Step: scan.Step{Range: partitions(low, high)}}
		if goesOn {
			m.Step.Token = &key.Token{Partition: "opaque"}
		}
		return reachOf(m)
	}
	p := "m"
	for _, tt := range []struct {
		name    string
		whole   key.Range
		ends    []scan.PageEnd
		pending []reach
		want    string
	}{
		{"before the first page", partitions("", ""), nil, []reach{step("", "", false)}, "(-) pending 0"},
		{"all done", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("a", 1, 0)}, nil, "(-) done 3"},
		{"one goes on", partitions("", ""), []scan.PageEnd{end("b", 2, 0)}, []reach{step("", "", true)}, "(-b) done 2, (b-) pending 0"},
		{"bounds", partitions("c", "x"), []scan.PageEnd{end("d", 2, 0)}, []reach{step("c", "x", true)}, "(c-d) done 2, (d-x) pending 0"},
		{"two pieces", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("n", 3, 0)}, []reach{step("m", "", true), step("", "m", true)},
			"(-b) done 2, (b-m) pending 0, (m-n) done 3, (n-) pending 0"},
		{"a piece between", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("z", 3, 0)}, []reach{step("k", "m", false)}, "(-k) done 2, (k-m) pending 0, (m-) done 3"},
		{"what was handed over", partitions("", ""), []scan.PageEnd{end("d", 9, 0)}, []reach{step("b", "c", false), step("", "", true)},
			"(-b) done 0, (b-c) pending 0, (c-d) done 9, (d-) pending 0"},
		{"failed rows", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("d", 2, 1), end("f", 2, 0)}, nil, "(-b) done 2, (b-d) failed 2, (d-) done 2"},
		{"a partition", partitions("", ""), []scan.PageEnd{{Last: key.Key{Partition: "m", Row: "5"}, Rows: 7}},
			[]reach{reachOf(message{Step: scan.Step{Range: key.Range{Partition: &p}, Token: &key.Token{}}})}, "(-m/5) done 7, (m/5-m) pending 0, (m-) done 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(rangesOf(tt.whole, tt.ends, tt.pending)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func text(ranges []KeyRange) string {
	name := func(p *Edge) string {
		switch {
		case p == nil:
			return ""
		case p.RowKey == "":
			return p.PartitionKey
		}
		return p.PartitionKey + "/" + p.RowKey
	}
	var all []string
	for _, r := range ranges {
		all = append(all, fmt.Sprintf("(%s-%s) %s %d", name(r.From), name(r.To), r.State, r.Rows))
	}
	return strings.Join(all, ", ")
}

// TestAtMost: among many small pending ranges, the largest done ones still show, and a merged range is failed if a part
// of it is.
func TestAtMost(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range testsize.Of(20, 200) {
		var ranges []KeyRange
		whole := map[string]int64{}
		for i := range 501 + r.IntN(2000) {
			k := KeyRange{From: &Edge{PartitionKey: fmt.Sprint(i)}, To: &Edge{PartitionKey: fmt.Sprint(i + 1)}, State: rangePending}
			if i%2 == 0 {
				k.State, k.Rows = RangeDone, r.Int64N(1000)
			} else if i == 251 || r.IntN(50) == 0 {
				k.State = RangeFailed
			}
			ranges = append(ranges, k)
			whole[k.State] += k.Rows
		}
		merged := atMost(maxRanges, ranges)
		got, failed := map[string]int64{}, false
		for i, k := range merged {
			got[k.State] += k.Rows
			failed = failed || k.State == RangeFailed
			if i > 0 && *k.From != *merged[i-1].To {
				t.Fatalf("range %d begins at %v, want %v", i, k.From, merged[i-1].To)
			}
		}
		all := got[RangeDone] + got[rangePending] + got[RangeFailed]
		share := float64(got[RangeDone]) / float64(whole[RangeDone])
		if !failed || *merged[0].From != *ranges[0].From || *merged[len(merged)-1].To != *ranges[len(ranges)-1].To {
			t.Errorf("failed ranges shown: %v; from %v to %v", failed, merged[0].From, merged[len(merged)-1].To)
		}
		if len(merged) > maxRanges || all != whole[RangeDone] || share < float64(maxRanges)/float64(len(ranges))*0.99 {
			t.Errorf("%d ranges of %d: %d rows of %d, %.2f of those done still shown as done", len(merged), len(ranges), all, whole[RangeDone], share)
		}
	}
}

// TestPace: the rate is that of the last minute. The time left is known only if the rate is steady.
func TestPace(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	points := func(rows ...int64) []ledger.Point {
		var all []ledger.Point
		for i, n := range rows {
			all = append(all, ledger.Point{At: began.Add(time.Duration(i) * 10 * time.Second), Rows: n, Requests: 10, Throttled: n % 10})
		}
		return all
	}
	even := slices.Repeat([]int64{100}, 30)
	for _, tt := range []struct {
		name   string
		points []ledger.Point
		after  time.Duration
		rate   float64
		phase  string
		left   float64 // with half of 1,000 rows read; 0 if it isn't told
		scan   ledger.Scan
	}{
		{name: "nothing yet", phase: Working},
		{"began at an interval's end", points(100, 100), 12 * time.Second, 200. / 4, Working, 0, ledger.Scan{Started: began.Add(8 * time.Second)}},
		{"began this very moment", points(100), 8 * time.Second, 100, Working, 0, ledger.Scan{Started: began.Add(8 * time.Second)}},
		{"began by a clock that is slow", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began.Add(-time.Hour)}},
		{"began by a clock that is fast", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began.Add(time.Hour)}},
		{"went on just now", append(points(even[:5]...), ledger.Point{At: began.Add(time.Hour), Rows: 300}), time.Hour + 9*time.Second, 100, Working, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour + 6*time.Second)}},
		{"went on without a step yet", points(even...), time.Hour + 9*time.Second, 0, Working, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour)}},
		{"went on and stands still", points(even...), time.Hour + 121*time.Second, 0, stalled, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour)}},
		{"steady", points(even...), 300 * time.Second, 10, Working, 100, ledger.Scan{Started: began}},
		{"began just now", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began}},
		{"began half a minute ago", points(100, 100, 100, 100), 40 * time.Second, 10, Working, 0, ledger.Scan{Started: began}},
		{"in the middle of an interval", points(even...), 305 * time.Second, 550. / 60, Working, 1000 * 60 / 550., ledger.Scan{Started: began}},
		{"came to rest", points(even...), 400 * time.Second, 0, Working, 0, ledger.Scan{Started: began}},
		{"stands still", points(even...), 430 * time.Second, 0, stalled, 0, ledger.Scan{Started: began}},
		{"became fast", points(append(even[:22:22], 900, 900)...), 240 * time.Second, 2200. / 60, Working, 0, ledger.Scan{Started: began}},
		{"became fast a minute ago", points(append(even[:18:18], 900, 900, 900, 900, 900, 900)...), 240 * time.Second, 90, Working, 1000 / 90., ledger.Scan{Started: began}},
		{"throttled", points(slices.Repeat([]int64{103}, 30)...), 300 * time.Second, 10.3, throttled, 1000 / 10.3, ledger.Scan{Started: began}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last time.Time
			if n := len(tt.points); n > 0 {
				last = tt.points[n-1].At.Add(10 * time.Second)
			}
			p := ratesOf(tt.scan, tt.points, 10*time.Second, last, began.Add(tt.after))
			if p.rate < tt.rate-0.01 || p.rate > tt.rate+0.01 {
				t.Errorf("rate %v, want %v", p.rate, tt.rate)
			}
			if got, _ := p.phase(1, 1, Leased{}); got != tt.phase {
				t.Errorf("phase %s, want %s", got, tt.phase)
			}
			if left := p.left(1000, 1, scan.Pages(4)); left != nil {
				t.Errorf("left %v with a fifth done, want none", *left)
			}
			left := p.left(1000, 1, scan.Pages(1/1.1))
			if (left != nil) != (tt.left > 0) || left != nil && (*left < tt.left-0.1 || *left > tt.left+0.1) {
				t.Errorf("left %v, want %v", left, tt.left)
			}
		})
	}
	silent := []ledger.Wait{{Connection: "DATA", Cause: "connection refused"}}
	for want, l := range map[string]Leased{
		"starting:": {},
		"throttled: the storage throttles 20 % of the requests": {Requests: 10, Throttled: 2},
		"waiting: DATA: connection refused":                     {Waiting: silent, Requests: 10, Throttled: 9},
	} {
		if phase, cause := (rates{}).phase(0, 1, l); strings.TrimSpace(phase+": "+cause) != want {
			t.Errorf("%+v: %s: %s, want %s", l, phase, cause, want)
		}
	}
}

// TestFailedRowsAreBounded: a step keeps a thousand failed rows, fewer if they are long.
func TestFailedRowsAreBounded(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	failed := make([]action.Failure, 3000)
	for i := range failed {
		failed[i] = action.Failure{Key: key.Key{Partition: fmt.Sprint(i)}, Reason: "<img onerror>"}
	}
	packed, kept := packFailed(failed, keptRows{})
	told, err := parseFailed(packed)
	if rows := told.Rows; err != nil || kept != maxFailedRows || int64(len(rows)) != kept || rows[7] != (FailedRow{"7", "", "<img onerror>"}) {
		t.Errorf("%d rows kept, of which %d are read", kept, len(rows))
	}
	failed = failed[:300]
	random, long := rand.NewChaCha8([32]byte{}), make([]byte, maxReason/2)
	for i := range failed {
		_, _ = random.Read(long) // never fails
		failed[i].Reason = hex.EncodeToString(long)
	}
	if packed, kept = packFailed(failed, keptRows{}); kept == 0 || kept >= int64(len(failed)) || len(packed) > ledger.MaxFailed {
		t.Errorf("%d rows kept in %d bytes", kept, len(packed))
	}
}

// TestCodeOf: a group is named by the service's code, wherever it stands in the reason.
func TestCodeOf(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"PropertyValueTooLarge: The property value exceeds 64KB.":   "PropertyValueTooLarge",
		"500, 5 times in a row: InternalError: The server failed.":  "InternalError",
		"the destination has a row with this key and other content": "the destination has a row with this key and other content",
		"Message too long": "Message too long",
	} {
		if got := codeOf(reason); got != want {
			t.Errorf("code %q of %q, want %q", got, reason, want)
		}
	}
}

// told is what a status tells of the time left, in seconds since the scan's beginning.
type told struct{ at, left float64 }

// play makes the scan of a table in virtual time, with so many workers at a second, each of which takes the same time for a
// step. It returns what a status tells of the time left, every 5 seconds, how long the scan took, and hints for the next.
func play(t *testing.T, rows keysets.Table, strategy adaptive.Strategy, step float64, workers func(second float64) int) (all []told, took float64, hints scan.Hints) {
	t.Helper()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	type job struct {
		step scan.Step
		end  float64
	}
	first := strategy.Start(key.Bounds{})
	queue, busy := []scan.Step{first}, []job{}
	ahead, read := adaptive.Ahead(first), int64(0)
	var points []ledger.Point
	var ends []scan.PageEnd
	for now := 0.0; len(queue)+len(busy) > 0; now++ {
		for len(busy) > 0 && busy[0].end <= now {
			j := busy[0]
			busy = busy[1:]
			p := rows.Query(j.step)
			o, err := strategy.Advance(j.step, p)
			proof.Must(t, err)
			if o.Yield > 0 {
				ends = append(ends, scan.PageEnd{Last: p.Keys[o.Yield-1], Rows: o.Yield})
			}
			read, took = read+int64(o.Yield), j.end
			if slot := at(took).Truncate(5 * time.Second); len(points) == 0 || points[len(points)-1].At.Before(slot) {
				points = append(points, ledger.Point{At: slot})
			}
			points[len(points)-1].Rows += int64(o.Yield)
			ahead = ahead.Minus(adaptive.Ahead(j.step))
			for _, c := range o.Children {
				ahead = ahead.Plus(adaptive.Ahead(c))
				queue = append(queue, c)
			}
			if len(queue) > 0 && len(busy) < workers(j.end) { // the worker goes on at once
				busy, queue = append(busy, job{queue[0], j.end + step}), queue[1:]
			}
		}
		for len(queue) > 0 && len(busy) < workers(now) {
			busy, queue = append(busy, job{queue[0], now + step}), queue[1:]
		}
		if math.Mod(now, 5) > 0 || len(queue)+len(busy) == 0 {
			continue
		}
		p := ratesOf(ledger.Scan{Started: began}, points, 5*time.Second, at(took), at(now))
		if left := p.left(read, float64(read)/float64(rows.Page), ahead); left != nil {
			all = append(all, told{now, *left})
		}
	}
	return all, took, scan.NewHints(key.Bounds{}, scan.Thin(ends, len(ends)), rows.Page)
}

// TestTimeLeft plays scans of real tables, while instances are added and when there are enough of them. 49 of 50 times that
// are told are right within 2 times, or the few seconds that a step and a rate take, and all within 3 times. They are told for half of the
// scans' second halves. The first scan of a table knows nothing of what is left, so none is told.
func TestTimeLeft(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	const work = 2400 // seconds of one worker
	times, wrong, late, all := 0, 0, 0, 0
	sets := keysets.Real("")
	for _, set := range sets[:testsize.Of(2, len(sets))] {
		rows, err := set.Table(math.MaxInt)
		proof.Must(t, err)
		step := work / float64(rows.Pages())
		even := func(float64) int { return 8 }
		first, _, hints := play(t, rows, adaptive.Strategy{}, step, even)
		if len(first) > 0 {
			t.Errorf("%s: the first scan tells of %v", set.Name, first[0])
		}
		for name, workers := range map[string]func(second float64) int{
			"even":       even,
			"doubling":   func(second float64) int { return 1 << min(5, int(second/15)) },
			"one by one": func(second float64) int { return 1 + int(second/20) },
		} {
			told, took, _ := play(t, rows, adaptive.Strategy{Hints: &hints}, step, workers)
			times, all = times+len(told), all+int(took/2/5)
			for _, x := range told {
				left := took - x.at
				if x.at > took/2 {
					late++
				}
				if factor := max(x.left/left, left/x.left); factor > 2 && math.Abs(x.left-left) > step+15 {
					if wrong++; factor > 3 {
						t.Errorf("%s, %s: after %.0f of %.0f s, %.0f s are told", set.Name, name, x.at, took, x.left)
					}
				}
			}
		}
	}
	t.Logf("%d times told, %d wrong, for %d of %d moments of second halves", times, wrong, late, all)
	if times == 0 || wrong > times/50 || late < all/2 {
		t.Errorf("%d of %d times are wrong, and %d of %d moments of second halves have one", wrong, times, late, all)
	}
}
