package status

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/scan"
)

// TestRangesOf: the ranges are in table order, and pending ranges are not shown as done. The pages that were read show
// how far a continuing step has read. Pages with failed rows are ranges of their own.
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
	step := func(low, high string, continues bool) pendingRange {
		m := scans.Message{Step: scan.Step{Range: partitions(low, high)}}
		if continues {
			m.Step.Token = &key.Token{Partition: "opaque"}
		}
		return rangeToRead(m)
	}
	p := "m"
	for _, tt := range []struct {
		name    string
		whole   key.Range
		ends    []scan.PageEnd
		pending []pendingRange
		want    string
	}{
		{"before the first page", partitions("", ""), nil, []pendingRange{step("", "", false)}, "(-) pending 0"},
		{"all done", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("a", 1, 0)}, nil, "(-) done 3"},
		{"a step continues", partitions("", ""), []scan.PageEnd{end("b", 2, 0)}, []pendingRange{step("", "", true)}, "(-b) done 2, (b-) pending 0"},
		{"bounds", partitions("c", "x"), []scan.PageEnd{end("d", 2, 0)}, []pendingRange{step("c", "x", true)}, "(c-d) done 2, (d-x) pending 0"},
		{"two pending steps", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("n", 3, 0)}, []pendingRange{step("m", "", true), step("", "m", true)},
			"(-b) done 2, (b-m) pending 0, (m-n) done 3, (n-) pending 0"},
		{"a pending step in the middle", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("z", 3, 0)}, []pendingRange{step("k", "m", false)}, "(-k) done 2, (k-m) pending 0, (m-) done 3"},
		{"handed-over rows", partitions("", ""), []scan.PageEnd{end("d", 9, 0)}, []pendingRange{step("b", "c", false), step("", "", true)},
			"(-b) done 0, (b-c) pending 0, (c-d) done 9, (d-) pending 0"},
		{"failed rows", partitions("", ""), []scan.PageEnd{end("b", 2, 0), end("d", 2, 1), end("f", 2, 0)}, nil, "(-b) done 2, (b-d) failed 2, (d-) done 2"},
		{"a partition", partitions("", ""), []scan.PageEnd{{Last: key.Key{Partition: "m", Row: "5"}, Rows: 7}},
			[]pendingRange{rangeToRead(scans.Message{Step: scan.Step{Range: key.Range{Partition: &p}, Token: &key.Token{}}})}, "(-m/5) done 7, (m/5-m) pending 0, (m-) done 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(rangesOf(tt.whole, tt.ends, tt.pending)); got != tt.want {
				t.Errorf("got ranges %s\nwant %s", got, tt.want)
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

// TestAtMost: among many small pending ranges, the largest done ranges are still shown. A merged range is failed if a
// part of it is failed.
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
			t.Errorf("failed ranges are shown: %v; the ranges are from %v to %v", failed, merged[0].From, merged[len(merged)-1].To)
		}
		if len(merged) > maxRanges || all != whole[RangeDone] || share < float64(maxRanges)/float64(len(ranges))*0.99 {
			t.Errorf("%d ranges were merged from %d: they have %d rows of %d, and %.2f of the done rows are still shown as done", len(merged), len(ranges), all, whole[RangeDone], share)
		}
	}
}

// TestCodeOf: a group has the service's code as its name, wherever the code is in the reason.
func TestCodeOf(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"PropertyValueTooLarge: The property value exceeds 64KB.":   "PropertyValueTooLarge",
		"500, 5 times in a row: InternalError: The server failed.":  "InternalError",
		"the destination has a row with this key and other content": "the destination has a row with this key and other content",
		"Message too long": "Message too long",
	} {
		if got := codeOf(reason); got != want {
			t.Errorf("got code %q of reason %q, want %q", got, reason, want)
		}
	}
}
