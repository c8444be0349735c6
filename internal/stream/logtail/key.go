package logtail

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/key"
)

// maxSequence is the maximum number of keys that a Clock makes within one tick.
const maxSequence = 1 << 16

// inverted is the number of digits of the inverted time at the start of a key.
const inverted = 19

// keyForm is the form of a Clock's keys.
var keyForm = regexp.MustCompile(`^[0-9]{19}-[0-9a-f]{4}-[a-z2-7]{12}$`)

// Clock makes the row keys of one writer. Each key sorts before all earlier keys of the same Clock, even if the time does not
// change or goes back. Keys of different Clocks differ. A Clock is safe for concurrent use. Create it with [NewClock].
type Clock struct {
	writer string

	mu       sync.Mutex // guards the fields below
	last     time.Time  // time of the latest key, rounded down to a tick
	sequence int        // number of the latest key within its tick
}

// NewClock returns a clock for one writer, such as a process.
func NewClock() *Clock { return &Clock{writer: strings.ToLower(rand.Text()[:12])} }

// NextKey returns a key with the later of two times: the argument `now`, and the time of the latest key.
func (c *Clock) NextKey(now time.Time) string {
	return c.nextKeys(now, 1)[0]
}

// nextKeys returns n consecutive keys.
func (c *Clock) nextKeys(now time.Time, n int) []string {
	now = now.Truncate(key.Tick)
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = c.newKey(now)
	}
	return keys
}

// keysFrom returns the n keys that a call of nextKeys has returned. The argument `first` is the first of these keys.
func keysFrom(first string, n int) ([]string, error) {
	t, err := KeyTime(first)
	if err != nil {
		return nil, err
	}
	left, err := strconv.ParseInt(first[20:24], 16, 32)
	c := Clock{writer: first[25:], last: t, sequence: maxSequence - 1 - int(left)}
	return append([]string{first}, c.nextKeys(t, n-1)...), err
}

// The caller of newKey must hold mu.
func (c *Clock) newKey(now time.Time) string {
	switch {
	case now.After(c.last):
		c.last, c.sequence = now, 0
	case c.sequence == maxSequence-1:
		c.last, c.sequence = c.last.Add(key.Tick), 0
	default:
		c.sequence++
	}
	return fmt.Sprintf("%s-%04x-%s", key.Inverted(c.last), maxSequence-1-c.sequence, c.writer)
}

// KeyTime returns the time in a Clock's key.
func KeyTime(id string) (time.Time, error) {
	if !keyForm.MatchString(id) {
		return time.Time{}, fmt.Errorf("%.60q is not the id of an event", id)
	}
	return key.InvertedTime(id[:inverted])
}

// Since returns the bound for [Span.Newer] that includes only rows after the time t.
func Since(t time.Time) string { return key.Inverted(t) }
