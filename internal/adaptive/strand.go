package adaptive

import (
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// view is a page as the rest of its strand sees it: by partition keys, or by
// row keys if the rest lies in one partition.
type view struct {
	partition *string  // the one that the rest lies in
	keys      []string // of the page, as far as they are in that partition
	end       *string  // where the strand ends
	share     float64  // of the page that keys are
}

func (v view) first() string { return v.keys[0] }
func (v view) last() string  { return v.keys[len(v.keys)-1] }

// within reports whether what is left of the strand lies in the partition of
// the page's last row.
func (st strand) within(s scan.Step, p scan.Page) bool {
	last := p.Last().Partition
	return s.Range.Partition != nil || st.Stop != nil && st.Stop.Compare(behind(last)) <= 0
}

// behind returns the first key behind a partition.
func behind(partition string) key.Key { return key.Key{Partition: partition + "\x00"} }

// look returns the page's view.
func (st strand) look(s scan.Step, p scan.Page) view {
	v := view{share: 1}
	if !st.within(s, p) {
		for _, k := range p.Keys {
			v.keys = append(v.keys, k.Partition)
		}
		v.end = st.partitionEnd(s)
		return v
	}
	last := p.Last().Partition
	for _, k := range p.Keys {
		if k.Partition == last {
			v.keys = append(v.keys, k.Row)
		}
	}
	v.partition, v.share = &last, float64(len(v.keys))/float64(len(p.Keys))
	switch {
	case st.Stop != nil && st.Stop.Partition == last:
		v.end = &st.Stop.Row
	case st.Stop == nil && s.Range.High != nil:
		v.end = &s.Range.High.Key
	}
	return v
}

// partitionEnd returns the partition key that ends a strand of partitions.
func (st strand) partitionEnd(s scan.Step) *string {
	switch {
	case st.Stop != nil:
		return &st.Stop.Partition
	case s.Range.High != nil:
		return &s.Range.High.Key
	}
	return nil
}

// enter notices if all that is left lies in one partition. To that end it makes
// the strand stop behind a partition that goes on and on; it returns the step for
// what follows, if anything can.
func (st *strand) enter(s scan.Step, p scan.Page, first bool) []scan.Step {
	var rest []scan.Step
	if !st.within(s, p) {
		st.Run++
		if p.Keys[0].Partition != p.Last().Partition {
			st.Run = 0
		}
		switch {
		case first && st.Run > 0:
			rest = st.leave(s, p)
		case float64(st.Run) >= longRun*st.caution():
			rest = st.leave(s, p)
			st.Left, st.Spread = runLeft*float64(st.Run), runSpread
		}
	}
	if !st.Inside && st.within(s, p) {
		st.Inside, st.From, st.Pages = true, nil, 0
	}
	return rest
}

// leave makes the strand stop behind the page's last partition, and returns the
// step for what follows it, if anything can.
func (st *strand) leave(s scan.Step, p scan.Page) []scan.Step {
	last := p.Last().Partition
	rest := strand{Left: st.Left, Spread: st.Spread, From: &last, Letters: st.Letters, Hinted: st.Hinted}
	r := scan.Range{Low: &scan.Bound{Key: last, Open: true}, High: s.Range.High}
	if st.Stop != nil {
		r.High = &scan.Bound{Key: st.Stop.Partition, Open: true}
	}
	stop := behind(last)
	st.Stop = &stop
	if r.Empty() {
		return nil
	}
	return []scan.Step{rest.step(r)}
}

// measure extrapolates the density of the page, near, and that of all pages
// since From, far. It returns nil where nothing can be measured.
func (st *strand) measure(v view) (near, far *gauge) {
	r := newRuler(st.Letters, v.last())
	st.Pages++
	if st.From == nil {
		first := v.first()
		st.From = &first
	}
	if v.first() != v.last() {
		near = newGauge(r, v.first(), v.last(), v.share, v.end)
	}
	if *st.From != v.first() && *st.From != v.last() {
		far = newGauge(r, *st.From, v.last(), float64(st.Pages), v.end)
	}
	return near, far
}

// weigh brings the belief up to date.
func (st *strand) weigh(near, far *gauge, first bool) {
	const noise, farNoise, firstNoise, agree = 0.5, 0.5, 1.5, 1.5
	var observed []belief
	if near != nil {
		n := noise
		if first { // where a table starts is seldom what it is like
			n = firstNoise
		}
		observed = append(observed, observe(near.total, n))
	}
	if far != nil {
		o := observe(far.total, math.Hypot(noise, farNoise/math.Sqrt(float64(st.Pages))))
		if near != nil && math.Abs(observed[0].mu-o.mu) < agree {
			observed[0] = belief{(observed[0].mu + o.mu) / 2, o.sigma}
		} else {
			observed = append(observed, o)
		}
	}
	prior := believe(st.Left, st.Spread)
	if !first {
		prior = believe(st.Left*ahead(near, far), st.Spread)
	}
	pages, spread := prior.update(observed)
	// That the strand has survived so long is evidence too.
	st.Left, st.Spread = max(pages, float64(st.Since)), spread
}

// ahead returns the share of what was left before this page that is still left.
func ahead(near, far *gauge) float64 {
	g := far
	if g == nil {
		g = near
	}
	if g == nil {
		return 0.5
	}
	return min(g.total, 1e30) / (min(g.total, 1e30) + 1)
}

// worth returns the number of pieces that the rest is worth.
func (st strand) worth() int {
	stretched := min(maxPages, st.Left*math.Exp(optimism*st.Spread))
	return int(max(st.Left, stretched) / (worthwhile * st.caution()))
}

// caution is what the thresholds for a cut are multiplied by.
func (st strand) caution() float64 {
	if st.Hinted {
		return hintCaution
	}
	return 1
}

// reaches reports whether either gauge measures that many pages.
func reaches(near, far *gauge, pages float64) bool {
	return near != nil && near.total >= pages || far != nil && far.total >= pages
}
