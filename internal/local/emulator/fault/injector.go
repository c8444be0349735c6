package fault

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is a request, as the rules see it.
type Request struct {
	Kind      Kind
	Table     string
	Queue     string
	Partition string // the only partition that the request affects; "" for a queue, or if Confined is false
	Confined  bool   // the request affects only one partition or one queue
	Entities  int    // the number of entities in a batch; 0 for a query, and 1 for any other request
	Identity  string // identifies the request; its retries have the same Identity
}

// Plan describes the faults of one request, which fails in at most one way. The fields Short and Empty apply only to
// pages, Copies and Delay only to puts, and Deletion only to deletions. The caller calls [Injector.Fired] when Short,
// Empty, Copies, Delay or Deletion takes effect.
type Plan struct {
	Latency    time.Duration
	Fail       Name          // "", Busy, or the rule that causes a timeout, a reset or a damaged answer
	Cause      Name          // the rule that made the request fail; if this rule is a rate limit, Fail is Busy
	RetryAfter time.Duration // the time in the header Retry-After, if Fail is Busy; 0 for no header

	Short     bool
	ShortRows int    // the page's length, or 0 for a random one
	ShortDraw uint64 // determines the random length
	Empty     bool
	Copies    int           // how many copies of a queue message to store
	Delay     time.Duration // the additional delay of the message's delivery
	Deletion  time.Duration // how long the name of a deleted table, queue or container stays blocked
}

// Injector applies a spec, and counts the faults that took effect. Its methods may be called concurrently.
type Injector struct {
	spec  string
	seed  uint64
	rules []rule
	draws bool // a rule may depend on chance, or on how often a request has occurred

	mu      sync.Mutex // guards the fields below
	fired   map[string]int
	seen    map[uint64]int // how many requests have had each identity, by the identity's hash
	buckets map[bucketKey]*bucket
}

// NewInjector returns an injector for the spec. The error names the invalid word.
func NewInjector(spec string) (*Injector, error) {
	in := &Injector{fired: make(map[string]int), seen: make(map[uint64]int), buckets: make(map[bucketKey]*bucket)}
	if err := in.parse(spec); err != nil {
		return nil, err
	}
	in.draws = slices.ContainsFunc(in.rules, func(r rule) bool { return r.name.shape() != rate || r.times > 0 })
	return in, nil
}

// String returns the spec, with single spaces.
func (in *Injector) String() string { return in.spec }

// Fired counts a fault that took effect.
func (in *Injector) Fired(name Name) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.fired[string(name)]++
}

// Counts returns how often each fault took effect, by its name, such as "busy".
func (in *Injector) Counts() map[string]int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.fired)
}

// Plan decides which faults a request gets. Plan counts failures and latencies itself. When another kind of fault
// takes effect, the caller calls [Injector.Fired], which counts the fault.
func (in *Injector) Plan(now time.Time, req Request) Plan {
	plan := Plan{Copies: 1}
	if len(in.rules) == 0 {
		return plan
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	var identity uint64
	var occurrence int
	if in.draws { // at least one rule needs the request's identity and the number of earlier requests with this identity
		identity = hash(req.Identity)
		occurrence = in.seen[identity]
		in.seen[identity]++
	}
	for i, r := range in.rules {
		if !r.covers(req) || r.times > 0 && occurrence >= r.times {
			continue
		}
		draw := mix(in.seed, uint64(i), identity, uint64(occurrence))
		if r.name.shape() == rate && in.admit(now, i, req) {
			continue
		}
		if float64(draw>>11)/(1<<53) < r.p {
			in.apply(&plan, r, mix(draw))
		}
	}
	return plan
}

// apply adds a rule's effect to the plan. The first rule that makes the request fail decides how it fails.
func (in *Injector) apply(plan *Plan, r rule, draw uint64) {
	switch r.name {
	case Latency:
		plan.Latency += r.min + time.Duration(draw%uint64(r.max-r.min+1))
		in.fired[string(Latency)]++
	case ShortPage:
		plan.Short, plan.ShortRows, plan.ShortDraw = true, r.rows, draw
	case EmptyPage:
		plan.Empty = true
	case Duplicate:
		plan.Copies = 2
	case Delay:
		plan.Delay = r.by
	case Deletion:
		plan.Deletion = r.by
	default:
		if plan.Fail != "" {
			return
		}
		in.fired[string(r.name)]++
		plan.Fail, plan.Cause, plan.RetryAfter = r.name, r.name, r.retryAfter
		if r.name.shape() == rate {
			plan.Fail = Busy
		}
	}
}

func (r rule) covers(req Request) bool {
	return (len(r.on) == 0 || slices.Contains(r.on, req.Kind)) &&
		(r.table == "" || strings.EqualFold(r.table, req.Table)) &&
		(r.queue == "" || r.queue == req.Queue)
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// mix hashes numbers with the steps of splitmix64 (Steele, Lea and Flood, 2014).
func mix(numbers ...uint64) uint64 {
	var h uint64
	for _, n := range numbers {
		h += n + 0x9E3779B97F4A7C15
		h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
		h = (h ^ h>>27) * 0x94D049BB133111EB
		h ^= h >> 31
	}
	return h
}
