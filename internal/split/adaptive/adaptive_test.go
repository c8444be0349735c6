package adaptive_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// page returns a full page of the given partition keys, with a token.
func page(from, to int, format string) scan.Page {
	p := scan.Page{Next: &key.Token{Partition: "opaque"}}
	for i := from; i < to; i++ {
		p.Keys = append(p.Keys, key.Key{Partition: fmt.Sprintf(format, i)})
	}
	return p
}

func advance(t *testing.T, s adaptive.Strategy, step scan.Step, p scan.Page) []scan.Step {
	t.Helper()
	o, err := s.Advance(step, p)
	proof.Must(t, err)
	return o.Children
}

// A strand that is cut continues its query with the token. The other pieces are new queries. There is no gap between the pieces.
func TestFirstCut(t *testing.T) {
	t.Parallel()
	var s adaptive.Strategy
	start := s.Start(key.Bounds{Before: "9"})
	p := page(100_000, 101_000, "%d")
	children := advance(t, s, start, p)
	if len(children) != scan.MaxChildren {
		t.Fatalf("got %d children, want %d", len(children), scan.MaxChildren)
	}
	if diff := cmp.Diff(start.Range, children[0].Range); diff != "" {
		t.Errorf("the first piece has another range (-start +child):\n%s", diff)
	}
	if diff := cmp.Diff(p.Next, children[0].Token); diff != "" {
		t.Errorf("the first piece has another token (-page +child):\n%s", diff)
	}
	for i, c := range children[1:] {
		if c.Token != nil {
			t.Errorf("piece %d has a token", i+1)
		}
		if i > 0 && c.Range.Low.Key != children[i].Range.High.Key {
			t.Errorf("piece %d starts at %q, the one before ends at %q", i+1, c.Range.Low.Key, children[i].Range.High.Key)
		}
	}
	if diff := cmp.Diff(start.Range.High, children[len(children)-1].Range.High); diff != "" {
		t.Errorf("the last piece ends elsewhere (-start +child):\n%s", diff)
	}
}

// A pending step of another version continues, although its state lacks fields or has unknown fields.
func TestStateOfAnotherVersion(t *testing.T) {
	t.Parallel()
	var s adaptive.Strategy
	step := scan.Step{
		Range: key.Range{Low: &key.Bound{Key: "k1"}},
		Token: &key.Token{Partition: "opaque"},
		Page:  2,
		State: []byte(`{"stop":{"Partition":"k300500"},"left":12.5,"unknown":0.9,"since":2,"abc":{"l":"0123","w":[120,90,80,70]}}`),
	}
	p := page(300_000, 301_000, "k%d")
	o, err := s.Advance(step, p)
	proof.Must(t, err)
	if o.Yield != 500 || len(o.Children) != 0 {
		t.Errorf("a step that stops within its page yields %d rows and has %d children, want 500 rows and no children", o.Yield, len(o.Children))
	}
	p = page(200_000, 201_000, "k%d")
	o, err = s.Advance(step, p)
	proof.Must(t, err)
	if o.Yield != 1000 || len(o.Children) == 0 || o.Children[0].Token == nil {
		t.Errorf("a step that stops after its page yields %d rows and has children %+v", o.Yield, o.Children)
	}
}

func TestAdvanceRefusesForeignSteps(t *testing.T) {
	t.Parallel()
	p := page(0, 10, "%d")
	hints := scan.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "6"}}}
	hinted := adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})
	other := scan.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "7"}}}
	for _, tt := range []struct {
		name string
		s    adaptive.Strategy
		step scan.Step
	}{
		{"no state", adaptive.Strategy{}, scan.Step{}},
		{"bad alphabet", adaptive.Strategy{}, scan.Step{State: []byte(`{"abc":{"l":"ab","w":[1]}}`)}},
		{"hints are gone", adaptive.Strategy{}, hinted},
		{"hints were replaced", adaptive.Strategy{Hints: &other}, hinted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if o, err := tt.s.Advance(tt.step, p); err == nil {
				t.Errorf("got %+v, want an error", o)
			}
		})
	}
}

func TestNewHints(t *testing.T) {
	t.Parallel()
	var ends []scan.PageEnd
	for i := range 40 { // pages of 10 rows, except each fourth page, which has 5 rows
		rows := 10
		if i%4 == 3 {
			rows = 5
		}
		ends = append(ends, scan.PageEnd{Last: key.Key{Partition: fmt.Sprintf("%02d", i)}, Rows: rows})
	}
	slices.Reverse(ends)
	b := key.Bounds{Prefix: "0"}
	got := scan.NewHints(b, ends, 10)
	want := scan.Hints{Bounds: b, Keys: []key.Key{{Partition: "05"}, {Partition: "12"}, {Partition: "19"}, {Partition: "25"}, {Partition: "32"}}, Pages: []float64{4.5, 30.5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints differ (-want +got):\n%s", diff)
	}
	// A partition of many pages is divided evenly. Its first hint only marks its beginning.
	ends = []scan.PageEnd{{Last: key.Key{Partition: "a"}, Rows: 10}}
	for i := range 20 {
		ends = append(ends, scan.PageEnd{Last: key.Key{Partition: "b", Row: fmt.Sprintf("%02d", i)}, Rows: 10})
	}
	ends = append(ends, scan.PageEnd{Last: key.Key{Partition: "c"}, Rows: 10})
	divided := scan.Hints{Keys: []key.Key{{Partition: "b", Row: "00"}, {Partition: "b", Row: "06"}, {Partition: "b", Row: "13"}}, Pages: []float64{1, 7, 7, 6, 1}}
	if diff := cmp.Diff(divided, scan.NewHints(key.Bounds{}, ends, 10)); diff != "" {
		t.Errorf("hints of a long partition differ (-want +got):\n%s", diff)
	}
	// The strategy does not use hints that were made for other bounds.
	plain := adaptive.Strategy{}.Start(key.Bounds{})
	if diff := cmp.Diff(plain, adaptive.Strategy{Hints: &got}.Start(key.Bounds{})); diff != "" {
		t.Errorf("start differs (-without +with hints):\n%s", diff)
	}
}

// TestProgress checks that the share done is known as long as hints cover all remaining steps.
func TestProgress(t *testing.T) {
	t.Parallel()
	var plain adaptive.Strategy
	unknown := scan.Outlook{Unknown: 1}
	start := plain.Start(key.Bounds{})
	for _, s := range append(advance(t, plain, start, page(100_000, 101_000, "%d")), start, scan.Prefix{FirstSegments: 2}.Start(key.Bounds{}), scan.Serial{}.Start(key.Bounds{})) {
		if got := adaptive.Ahead(s); got != unknown {
			t.Errorf("without hints, the outlook is %+v, want %+v", got, unknown)
		}
	}
	hints := scan.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "6"}}}
	if got, want := adaptive.Ahead(adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})), scan.Pages(18); got != want {
		t.Errorf("with three hinted pieces, the outlook is %+v, want %+v", got, want)
	}
	hints.Pages = []float64{1, 7, 10}
	hinted := adaptive.Ahead(adaptive.Strategy{Hints: &hints}.Start(key.Bounds{}))
	if want := scan.Pages(18); hinted != want {
		t.Errorf("with hinted pieces of 1, 7 and 10 pages, the outlook is %+v, want %+v", hinted, want)
	}
	for _, tt := range []struct {
		read  float64
		o     scan.Outlook
		share float64
		ok    bool
	}{
		{0, hinted, 0, true},
		{6, hinted, 6 / (6 + 1.1*18), true}, // allows for the growth of tables
		{22, scan.Outlook{}, 1, true},
		{6, hinted.Plus(unknown), 0, false},
		{6, hinted.Minus(unknown), 0, false},
		{0, scan.Outlook{}, 0, false},
	} {
		if share, ok := tt.o.Progress(tt.read); ok != tt.ok || math.Abs(share-tt.share) > 1e-9 {
			t.Errorf("%v pages read, outlook %+v: got the progress %v, %v, want %v, %v", tt.read, tt.o, share, ok, tt.share, tt.ok)
		}
	}
}

// TestOutgrownHint checks the outlook of a strand with a hint: the pages of the hint minus the pages read. Once the strand has read more pages than
// the hint, the outlook is unknown.
func TestOutgrownHint(t *testing.T) {
	t.Parallel()
	s := adaptive.Strategy{Hints: &scan.Hints{Keys: []key.Key{{Partition: "3"}}, Pages: []float64{2.5, 4}}}
	step := s.Start(key.Bounds{})
	for i, want := range []scan.Outlook{scan.Pages(6.5), scan.Pages(1.5), scan.Pages(0.75), scan.Pages(0.75)} {
		if got := adaptive.Ahead(step); got != want {
			t.Errorf("after %d pages, the outlook is %+v, want %+v", i, got, want)
		}
		step = advance(t, s, step, page(1000*i, 1000*i+1000, "1%06d"))[0]
	}
	if got := adaptive.Ahead(step); got.Unknown != 1 {
		t.Errorf("after four pages, the outlook is %+v, want an unknown outlook", got)
	}
}
