package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"tablesweep/internal/storage"
)

// cache holds what was read of scans a short while ago, by their ids. It is safe for concurrent use.
type cache[T any] struct {
	fresh time.Duration // for so long, a value is used as it is
	kept  time.Duration // for so long, it is kept for the next reading

	mu   sync.Mutex // guards byID and the values' fields
	byID map[string]*cached[T]
}

// cached is what a cache holds of one scan.
type cached[T any] struct {
	value   T
	at      time.Time     // when the reading of it began; zero if it never was read
	stale   bool          // it must be read again, however fresh it is
	reading chan struct{} // closed when the reading under way has ended; nil if there is none
	failed  error         // of the last reading
}

func newCache[T any](fresh, kept time.Duration) *cache[T] {
	return &cache[T]{fresh: fresh, kept: kept, byID: map[string]*cached[T]{}}
}

// get returns a scan's value that was fresh at the call. If there is none, it reads one, and others wait for that.
func (c *cache[T]) get(ctx context.Context, id string, read func(was T) (T, error)) (T, error) {
	return c.since(ctx, id, time.Now().Add(-c.fresh), read)
}

// since is get for a value whose reading began after a time.
func (c *cache[T]) since(ctx context.Context, id string, oldest time.Time, read func(was T) (T, error)) (T, error) {
	for {
		c.mu.Lock()
		c.forget()
		of := c.byID[id]
		if of == nil {
			of = &cached[T]{}
			c.byID[id] = of
		}
		value, reading := of.value, of.reading
		fresh := !of.stale && of.at.After(oldest)
		if !fresh && reading == nil {
			of.reading, of.stale = make(chan struct{}), false
		}
		c.mu.Unlock()
		switch {
		case fresh:
			return value, nil
		case reading == nil:
			return c.fill(of, read)
		}
		select {
		case <-reading:
			c.mu.Lock()
			err := of.failed
			c.mu.Unlock()
			if errors.Is(err, storage.ErrAway) && storage.HasPatience(ctx) { // which is over for both: a further reading would take as long again
				return value, err
			}
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}

// age returns how long ago the reading of a scan's value began, 0 if there is none.
func (c *cache[T]) age(id string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil {
		return time.Since(of.at)
	}
	return 0
}

// fill reads a value for whoever waits for it. After an error, the next one reads.
func (c *cache[T]) fill(of *cached[T], read func(was T) (T, error)) (value T, err error) {
	filled, began := false, time.Now()
	defer func() { // also if read panics
		c.mu.Lock()
		defer c.mu.Unlock()
		if filled {
			of.value, of.at = value, began
		} else {
			of.stale = true
		}
		close(of.reading)
		of.reading, of.failed = nil, err
	}()
	value, err = read(of.value) // which nobody else changes
	filled = err == nil
	return value, err
}

// forget drops values that were read too long ago. The caller holds mu.
func (c *cache[T]) forget() {
	for id, of := range c.byID {
		if of.reading == nil && time.Since(of.at) >= c.kept {
			delete(c.byID, id)
		}
	}
}

// outdate has a scan's value read again if it is outdated, even if a reading is under way.
func (c *cache[T]) outdate(id string, outdated func(T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil && outdated(of.value) {
		of.stale = true
	}
}
