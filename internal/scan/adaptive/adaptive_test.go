package adaptive_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
)

// page is a full one of the given partition keys, with more behind it.
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

// A cut strand repeats its query with the token, and the other pieces are new
// queries that join without a gap.
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

// A step that another version has left pending goes on, although it lacks fields, or has others.
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
		t.Errorf("up to its stop it yields %d rows and has %d children, want 500 and none", o.Yield, len(o.Children))
	}
	p = page(200_000, 201_000, "k%d")
	if o, err = s.Advance(step, p); err != nil {
		t.Fatal(err)
	}
	if o.Yield != 1000 || len(o.Children) == 0 || o.Children[0].Token == nil {
		t.Errorf("ahead of it it yields %d rows and has children %+v", o.Yield, o.Children)
	}
}

func TestAdvanceRefusesForeignSteps(t *testing.T) {
	t.Parallel()
	p := page(0, 10, "%d")
	hints := adaptive.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "6"}}}
	hinted := adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})
	other := adaptive.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "7"}}}
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
	var ends []adaptive.PageEnd
	for i := range 40 { // pages of 10 rows, the last of each four a half one
		rows := 10
		if i%4 == 3 {
			rows = 5
		}
		ends = append(ends, adaptive.PageEnd{Last: key.Key{Partition: fmt.Sprintf("%02d", i)}, Rows: rows})
	}
	slices.Reverse(ends)
	b := key.Bounds{Prefix: "0"}
	got := adaptive.NewHints(b, ends, 10)
	want := adaptive.Hints{Bounds: b, Keys: []key.Key{{Partition: "05"}, {Partition: "12"}, {Partition: "19"}, {Partition: "25"}, {Partition: "32"}}, Pages: []float64{4.5, 30.5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints differ (-want +got):\n%s", diff)
	}
	// A partition of many pages is cut evenly. Its first hint says where it begins, and no more.
	ends = []adaptive.PageEnd{{Last: key.Key{Partition: "a"}, Rows: 10}}
	for i := range 20 {
		ends = append(ends, adaptive.PageEnd{Last: key.Key{Partition: "b", Row: fmt.Sprintf("%02d", i)}, Rows: 10})
	}
	ends = append(ends, adaptive.PageEnd{Last: key.Key{Partition: "c"}, Rows: 10})
	divided := adaptive.Hints{Keys: []key.Key{{Partition: "b", Row: "00"}, {Partition: "b", Row: "06"}, {Partition: "b", Row: "13"}}, Pages: []float64{1, 7, 7, 6, 1}}
	if diff := cmp.Diff(divided, adaptive.NewHints(key.Bounds{}, ends, 10)); diff != "" {
		t.Errorf("hints of a long partition differ (-want +got):\n%s", diff)
	}
	// Other bounds than the hints': they are of no use.
	plain := adaptive.Strategy{}.Start(key.Bounds{})
	if diff := cmp.Diff(plain, adaptive.Strategy{Hints: &got}.Start(key.Bounds{})); diff != "" {
		t.Errorf("start differs (-without +with hints):\n%s", diff)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var s adaptive.Strategy
	start := s.Start(key.Bounds{Before: "9"})
	if pages, ok := adaptive.Left(start); ok {
		t.Errorf("before the first page %v pages are left", pages)
	}
	left, steps := 0.0, 0.0
	var ahead adaptive.Outlook
	for _, c := range advance(t, s, start, page(100_000, 101_000, "%d")) {
		pages, ok := adaptive.Left(c)
		if !ok {
			t.Errorf("nothing is known of %+v", c)
		}
		left += pages
		steps += 1.5 // that each counts for besides
		ahead = ahead.Plus(adaptive.Ahead(c))
	}
	if left <= 0 || left > 2000 { // 800 in truth, which one page can't tell
		t.Errorf("%v pages are left, want up to 2000", left)
	}
	enough := left + steps
	if got, ok := ahead.Progress(enough); math.Abs(got-0.5) > 1e-9 || ok != (enough >= 40) {
		t.Errorf("progress %v, %v with half of it done, want 0.5, told from 40 pages on", got, ok)
	}
	for _, tt := range []struct {
		read float64
		o    adaptive.Outlook
		ok   bool
	}{
		{40 + enough, ahead, true},
		{39, adaptive.Outlook{}.Plus(ahead), false},
		{60, adaptive.Outlook{Millipages: 200_000, Guessed: 50}, false}, // too small a share
		{100, adaptive.Outlook{Millipages: 200_000, Guessed: 50}, true},
		{100, adaptive.Outlook{Millipages: 60_000, Guessed: 50}, false}, // all steps believe to be at their end
		{600, adaptive.Outlook{Millipages: 60_000, Guessed: 50}, true},
		{40 + enough, ahead.Plus(adaptive.Ahead(start)), false},
		{1, adaptive.Pages(9), true},
		{0, adaptive.Outlook{}, false},
	} {
		if share, ok := tt.o.Progress(tt.read); ok != tt.ok {
			t.Errorf("%v pages of %+v: progress %v, %v, want it told: %v", tt.read, tt.o, share, ok, tt.ok)
		}
	}
	for _, foreign := range []scan.Strategy{scan.Prefix{FirstSegments: 2}, scan.Serial{}} {
		if pages, ok := adaptive.Left(foreign.Start(key.Bounds{})); ok {
			t.Errorf("a step of %T is believed to have %v pages left", foreign, pages)
		}
	}
	hints := adaptive.Hints{Keys: []key.Key{{Partition: "3"}, {Partition: "6"}}}
	if pages, ok := adaptive.Left(adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})); !ok || pages != 18 {
		t.Errorf("three hinted pieces have %v pages left, %v, want 18", pages, ok)
	}
	hints.Pages = []float64{1, 7, 10}
	if pages, ok := adaptive.Left(adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})); !ok || pages != 18 {
		t.Errorf("hinted pieces of 1, 7 and 10 pages have %v pages left, %v, want 18", pages, ok)
	}
	if share, ok := adaptive.Ahead(adaptive.Strategy{Hints: &hints}.Start(key.Bounds{})).Progress(6); !ok || share != 0.25 {
		t.Errorf("six pages with hinted pieces ahead are a progress of %v, %v, want 0.25", share, ok)
	}
}

// TestOutgrownHint: what a strand with a hint has left is what that told of, less what it has read. Once it has read more,
// it is a guess.
func TestOutgrownHint(t *testing.T) {
	t.Parallel()
	s := adaptive.Strategy{Hints: &adaptive.Hints{Keys: []key.Key{{Partition: "3"}}, Pages: []float64{2.5, 4}}}
	step := s.Start(key.Bounds{})
	for i, want := range []adaptive.Outlook{adaptive.Pages(6.5), adaptive.Pages(1.5), adaptive.Pages(0.75), adaptive.Pages(0.75)} {
		if got := adaptive.Ahead(step); got != want {
			t.Errorf("after %d pages %+v is ahead, want %+v", i, got, want)
		}
		step = advance(t, s, step, page(1000*i, 1000*i+1000, "1%06d"))[0]
	}
	if got := adaptive.Ahead(step); got.Guessed != 1 {
		t.Errorf("after four pages %+v is ahead, want a guess", got)
	}
}
