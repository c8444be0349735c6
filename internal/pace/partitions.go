package pace

// Partitions limits the requests to partitions that were throttled. Its zero value
// limits none. It remembers a partition from its throttling until it has grown
// out of it.
type Partitions struct{ limits map[string]*partition }

type partition struct {
	limit    int
	answered int // requests that ended since the limit last changed
}

// released is the limit at which a partition is as free as any other.
const released = 32

// Allow reports whether a partition may get one more request, given how many it
// has under way.
func (p *Partitions) Allow(key string, underway int) bool {
	l, ok := p.limits[key]
	return !ok || underway < l.limit
}

// Throttled halves what the partition may have under way.
func (p *Partitions) Throttled(key string, underway int) {
	l, ok := p.limits[key]
	switch {
	case !ok:
		if p.limits == nil {
			p.limits = map[string]*partition{}
		}
		l = &partition{limit: min(underway, released)}
		p.limits[key] = l
	case l.answered == 0 && l.limit < underway:
		return // an echo of requests sent before the last change
	}
	l.limit, l.answered = max(1, l.limit/2), 0
}

// Answered tells that a request to the partition ended. The limit grows by one
// when as many have as may be under way.
func (p *Partitions) Answered(key string) {
	l, ok := p.limits[key]
	if !ok {
		return
	}
	if l.answered++; l.answered >= l.limit {
		l.limit, l.answered = l.limit+1, 0
	}
	if l.limit >= released {
		delete(p.limits, key)
	}
}
