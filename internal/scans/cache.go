package scans

import (
	"context"
	"errors"
	"sync"
	"time"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// Cache holds a recently read value for each scan. It is safe for concurrent use.
type Cache[T any] struct {
	fresh time.Duration // how long a value is returned without being read again
	kept  time.Duration // how long a value is kept so that the next read can use it

	mu   sync.Mutex // guards byID and the values' fields
	byID map[ledger.ScanID]*cached[T]
}

type cached[T any] struct {
	value   T
	at      time.Time     // when the value's read began; zero if it was never read
	stale   bool          // the next Get reads the value again, whatever its age
	reading chan struct{} // closed when the current read has ended; nil if no read is running
	failed  error         // the last read's error
}

// NewCache returns an empty cache. The cache returns a value without another read for freshTime, and drops the value after keptTime.
func NewCache[T any](freshTime, keptTime time.Duration) *Cache[T] {
	return &Cache[T]{fresh: freshTime, kept: keptTime, byID: map[ledger.ScanID]*cached[T]{}}
}

// Get returns a scan's value. If the value in the cache is not fresh, Get calls `read`, and concurrent calls of Get wait
// for the result.
func (c *Cache[T]) Get(ctx context.Context, id ledger.ScanID, read func(was T) (T, error)) (T, error) {
	return c.getSince(ctx, id, time.Now().Add(-c.fresh), read)
}

// getSince is like Get, but a value is fresh only if its read began after `start`.
func (c *Cache[T]) getSince(ctx context.Context, id ledger.ScanID, start time.Time, read func(was T) (T, error)) (T, error) {
	for {
		c.mu.Lock()
		c.forget()
		of := c.byID[id]
		if of == nil {
			of = &cached[T]{}
			c.byID[id] = of
		}
		value, reading := of.value, of.reading
		fresh := !of.stale && of.at.After(start)
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
			if errors.Is(err, storage.ErrAway) && storage.HasPatience(ctx) { // return the error, because another read would wait just as long for the account
				return value, err
			}
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}

// Age returns how long ago the read of a scan's value began, or 0 if the cache has no value.
func (c *Cache[T]) Age(id ledger.ScanID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil {
		return time.Since(of.at)
	}
	return 0
}

// fill reads a value for all waiting calls.
func (c *Cache[T]) fill(of *cached[T], read func(was T) (T, error)) (value T, err error) {
	filled, began := false, time.Now()
	defer func() { // deferred, because read may panic
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
	value, err = read(of.value) // no other call changes of.value during the read
	filled = err == nil
	return value, err
}

// The caller of forget holds mu.
func (c *Cache[T]) forget() {
	for id, of := range c.byID {
		if of.reading == nil && time.Since(of.at) >= c.kept {
			delete(c.byID, id)
		}
	}
}

// Outdate makes the next Get read a scan's value again, even if a read is already running. If the function `outdated`
// returns false for the stored value, Outdate does nothing.
func (c *Cache[T]) Outdate(id ledger.ScanID, outdated func(T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byID[id]; of != nil && outdated(of.value) {
		of.stale = true
	}
}
