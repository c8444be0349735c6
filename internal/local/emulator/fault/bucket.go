package fault

import "time"

// bucket is a token bucket that holds at most the tokens of one second. While the number of tokens is above 0, it
// admits a request of any cost, and the number may become negative. So even a low limit admits a batch of 100
// operations, and then delays later requests.
type bucket struct {
	tokens float64
	filled time.Time
}

func (b *bucket) fill(now time.Time, rate float64) {
	if elapsed := now.Sub(b.filled).Seconds(); elapsed > 0 {
		b.tokens = min(rate, b.tokens+elapsed*rate)
		b.filled = now
	}
}

// bucketKey identifies a bucket. The rule account-rate has one bucket, and partition-rate has one bucket per partition.
type bucketKey struct {
	rule      int
	partition string
}

// admit reports whether the limit of rule i admits the request. If it does, admit takes the request's cost from the rule's
// bucket.
func (in *Injector) admit(now time.Time, i int, req Request) bool {
	k, cost := bucketKey{rule: i}, 1.0
	if in.rules[i].name == PartitionRate {
		if !req.Confined {
			return true
		}
		k.partition, cost = partitionName(req), float64(req.Entities)
	}
	b := in.bucket(now, k)
	if b.tokens <= 0 {
		return false
	}
	b.tokens -= cost
	return true
}

// Charge takes tokens from the buckets of the request's partition, for the given number of rows or messages in the
// answer. [Injector.Plan] has already taken tokens for req.Entities.
func (in *Injector) Charge(now time.Time, req Request, entities int) {
	if !req.Confined || entities <= 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, r := range in.rules {
		if r.name == PartitionRate && r.covers(req) {
			in.bucket(now, bucketKey{i, partitionName(req)}).tokens -= float64(entities)
		}
	}
}

func partitionName(req Request) string {
	return "/" + req.Table + "/" + req.Queue + "/" + req.Partition
}

// bucket returns the bucket of k, after adding the tokens for the time that has passed.
func (in *Injector) bucket(now time.Time, k bucketKey) *bucket {
	rate := in.rules[k.rule].rate
	b := in.buckets[k]
	if b == nil {
		b = &bucket{tokens: rate, filled: now}
		in.buckets[k] = b
	}
	b.fill(now, rate)
	return b
}
