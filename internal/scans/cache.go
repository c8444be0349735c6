package scans

import (
	"context"
	"errors"
	"sync"
	"time"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// Cache holds what was read of scans a short while ago, by their ids. It is safe for concurrent use.
type Cache[T any] struct {
	fresh time.Duration // for so long, a value is used as it is
	kept  time.Duration // for so long, it is kept for the next reading

	mu   sync.Mutex // guards byID and the values' fields
	byID map[ledger.ScanID]*cached[T]
}

// cached is what a cache holds of one scan.
type cached[T any] struct {
	value   T
	at      time.Time     // when the reading of it began; zero if it never was read
	stale   bool          // it must be read again, however fresh it is
	reading chan struct{} // closed when the reading under way has ended; nil if there is none
	failed  error         // of the last reading
}

// NewCache returns an empty cache whose values are fresh for a time, and kept for another.
func NewCache[T any](fresh, kept time.Duration) *Cache[T] {
	return &Cache[T]{fresh: fresh, kept: kept, byID: map[ledger.ScanID]*cached[T]{}}
}

// Get returns a scan's value that was fresh at the call. If there is none, it reads one, and others wait for that.
func (c *Cache[T]) Get(ctx context.Context, id ledger.ScanID, read func(was T) (T, error)) (T, error) {
	return c.since(ctx, id, time.Now().Add(-c.fresh), read)
}

// since is get for a value whose reading began after a time.
func (c *Cache[T]) since(ctx context.Context, id ledger.ScanID, oldest time.Time, read func(was T) (T, error)) (T, error) {
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

// Age returns how long ago the reading of a scan's value began, 0 if there is none.
func (c *Cache[T]) Age(id ledger.ScanID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil {
		return time.Since(of.at)
	}
	return 0
}

// fill reads a value for whoever waits for it. After an error, the next one reads.
func (c *Cache[T]) fill(of *cached[T], read func(was T) (T, error)) (value T, err error) {
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
func (c *Cache[T]) forget() {
	for id, of := range c.byID {
		if of.reading == nil && time.Since(of.at) >= c.kept {
			delete(c.byID, id)
		}
	}
}

// Outdate has a scan's value read again if it is outdated, even if a reading is under way.
func (c *Cache[T]) Outdate(id ledger.ScanID, outdated func(T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil && outdated(of.value) {
		of.stale = true
	}
}
