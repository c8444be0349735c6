package ledger

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

const (
	// finest is the shortest interval of [Times]. With it, the last minute's rate is exact to a few percent.
	finest = 5 * time.Second
	// maxPoints is the maximum number of intervals of Times.
	maxPoints = 240
)

// Times records a scan's work in intervals of equal length, by the service's clock. The length is `finest` at
// first, and doubles whenever there would be more than maxPoints intervals. The zero value contains no work.
type Times struct {
	doublings uint            // the interval is finest << doublings
	points    map[int64]Point // the key is the number of intervals since 1970
}

// Point is the work of one interval.
type Point struct {
	At        time.Time `json:"at"` // when the interval begins
	Rows      int64     `json:"rows"`
	Requests  int64     `json:"requests"`
	Throttled int64     `json:"throttled"` // requests that the storage throttled
}

// Interval returns the length of each point's interval.
func (t Times) Interval() time.Duration { return finest << t.doublings }

// Points returns the intervals that have work, in order of time.
func (t Times) Points() []Point {
	points := make([]Point, 0, len(t.points))
	for _, n := range slices.Sorted(maps.Keys(t.points)) {
		p := t.points[n]
		p.At = time.Unix(n*int64(t.Interval()/time.Second), 0).UTC()
		points = append(points, p)
	}
	return points
}

func (t *Times) add(at time.Time, done Totals) {
	n := at.Unix() / int64(t.Interval()/time.Second)
	rows := done.Rows + max(0, -done.Failed) // a retry lowers Failed by the number of rows that it has done, but does not add these rows to Rows
	t.merge(n, Point{Rows: rows, Requests: done.Transactions, Throttled: done.Throttled})
	t.fit()
}

func (t *Times) plus(other Times) {
	for t.doublings < other.doublings {
		t.double()
	}
	for n, p := range other.points {
		t.merge(n>>(t.doublings-other.doublings), p)
	}
	t.fit()
}

func (t *Times) merge(n int64, p Point) {
	if t.points == nil {
		t.points = map[int64]Point{}
	}
	was := t.points[n]
	t.points[n] = Point{Rows: was.Rows + p.Rows, Requests: was.Requests + p.Requests, Throttled: was.Throttled + p.Throttled}
}

// fit doubles the interval until there are at most maxPoints intervals.
func (t *Times) fit() {
	for {
		numbers := slices.Collect(maps.Keys(t.points))
		if len(numbers) == 0 || slices.Max(numbers)-slices.Min(numbers) < maxPoints {
			return
		}
		t.double()
	}
}

func (t *Times) double() {
	fine := t.points
	t.doublings, t.points = t.doublings+1, nil
	for n, p := range fine {
		t.merge(n>>1, p)
	}
}

const timesVersion = 1

// pack returns the stored form: a version, the doublings, and the points in order. Each point consists of its counts
// and its distance from the previous point. All numbers are varints.
func (t Times) pack() []byte {
	b := []byte{timesVersion}
	b = binary.AppendUvarint(b, uint64(t.doublings))
	before := int64(0)
	for _, n := range slices.Sorted(maps.Keys(t.points)) {
		p := t.points[n]
		for _, v := range []int64{n - before, p.Rows, p.Requests, p.Throttled} {
			b = binary.AppendVarint(b, v)
		}
		before = n
	}
	return b
}

// If the stored form is unreadable, unpackTimes returns Times without work, because Times are used only for display.
func unpackTimes(b []byte) Times {
	if len(b) == 0 || b[0] != timesVersion {
		return Times{}
	}
	doublings, size := binary.Uvarint(b[1:])
	if size <= 0 || doublings > 30 {
		return Times{}
	}
	t := Times{doublings: uint(doublings)}
	n := int64(0)
	for b = b[1+size:]; len(b) > 0; {
		var v [4]int64
		for i := range v {
			value, size := binary.Varint(b)
			if size <= 0 {
				return Times{}
			}
			v[i], b = value, b[size:]
		}
		n += v[0]
		t.merge(n, Point{Rows: v[1], Requests: v[2], Throttled: v[3]})
	}
	t.fit()
	return t
}
