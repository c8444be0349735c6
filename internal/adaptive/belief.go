package adaptive

import "math"

// maxPages is the most that is ever believed, 20 million rows. What is beyond
// comes to light as the scan goes on.
const maxPages = 20_000

// belief is a guess at the number of pages left, log-normal: mu is the
// logarithm of its middle, sigma the standard deviation of the logarithm.
type belief struct{ mu, sigma float64 }

// believe returns the belief with the given middle, in pages.
func believe(pages, sigma float64) belief {
	return belief{math.Log(min(max(pages, 1e-3), 1e30)), sigma}
}

// observe returns what a measured number of pages says. The noise is that of
// the density; how far the density holds is the less certain the further the
// extrapolation goes.
func observe(pages, noise float64) belief {
	const doubt = 0.5 // of the logarithm of what is extrapolated
	o := believe(pages, 0)
	o.sigma = math.Hypot(noise, doubt*o.mu)
	return o
}

// update weighs the belief against observations. Those are rivals rather than a
// sample: each is combined with the belief on its own, and the result is the
// mean of all, in pages, weighted by how well each agrees with the belief. It is
// the arithmetic mean on purpose, for to cut too little costs more than a
// wasted query.
func (b belief) update(observed []belief) (pages, sigma float64) {
	if len(observed) == 0 {
		return math.Exp(b.mu), b.sigma
	}
	type rival struct{ mu, variance, weight float64 }
	rivals := make([]rival, len(observed))
	v, best := b.sigma*b.sigma, math.Inf(-1)
	for i, o := range observed {
		w, off := o.sigma*o.sigma, o.mu-b.mu
		fit := -off*off/(2*(v+w)) - math.Log(v+w)/2
		rivals[i] = rival{(v*o.mu + w*b.mu) / (v + w), v * w / (v + w), fit}
		best = max(best, fit)
	}
	total := 0.0
	for i := range rivals {
		rivals[i].weight = math.Exp(rivals[i].weight - best)
		total += rivals[i].weight
	}
	mean := 0.0
	for i, r := range rivals {
		rivals[i].weight /= total
		pages += rivals[i].weight * math.Exp(r.mu)
		mean += rivals[i].weight * r.mu
	}
	variance := 0.0
	for _, r := range rivals {
		variance += r.weight * (r.variance + (r.mu-mean)*(r.mu-mean))
	}
	return min(pages, maxPages), math.Sqrt(variance)
}
