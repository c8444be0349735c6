package scans

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/storage"
)

// If the storage does not answer a read, the calls that wait for this read fail with it. A call without a time limit
// for unavailable storage reads again.
func TestCacheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache[int](time.Second, time.Minute)
		began := time.Now()
		read := func(int) (int, error) {
			time.Sleep(25 * time.Second)
			if time.Since(began) > 30*time.Second {
				return 7, nil
			}
			return 0, fmt.Errorf("query: %w", storage.ErrAway)
		}
		for range 3 {
			go func() {
				_, err := c.Get(storage.WithPatience(t.Context(), 25*time.Second), "x", read)
				if took := time.Since(began); !errors.Is(err, storage.ErrAway) || took != 25*time.Second {
					t.Errorf("got error %v after %v, want unavailable storage after 25 s", err, took)
				}
			}()
		}
		synctest.Wait()
		if v, err := c.Get(context.Background(), "x", read); v != 7 || err != nil {
			t.Errorf("a call without a time limit: got %d, %v, want 7", v, err)
		}
	})
}

// TestCache: concurrent calls share one read of a value. The value is read again when it is old or outdated, and by
// the next call after an error. The cache passes the old value to the next read, until the value is too old.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewCache[string](5*time.Second, time.Minute)
		var reads atomic.Int64
		var fails bool
		was := ""
		read := func(last string) (string, error) {
			time.Sleep(time.Second)
			was = last
			reads.Add(1)
			if fails {
				return "", errors.New("failed")
			}
			return last + "x", nil
		}
		expect := func(what, want, last string, n int64) {
			t.Helper()
			got, err := c.Get(t.Context(), "a", read)
			if got != want || was != last || reads.Swap(0) != n || (err != nil) != fails {
				t.Errorf("%s: got %q, %v, and the last value was %q; want %q and %q with %d reads", what, got, err, was, want, last, n)
			}
		}
		var g errgroup.Group
		for range 10 {
			g.Go(func() error { _, err := c.Get(t.Context(), "a", read); return err })
		}
		if err := g.Wait(); err != nil || reads.Swap(0) != 1 {
			t.Errorf("ten concurrent calls: got error %v, or more than one read", err)
		}
		expect("fresh", "x", "", 0)
		time.Sleep(5 * time.Second)
		expect("old", "xx", "x", 1)
		c.Outdate("a", func(s string) bool { return s == "x" })
		expect("another value is outdated", "xx", "x", 0)
		c.Outdate("a", func(s string) bool { return s == "xx" })
		expect("outdated", "xxx", "xx", 1)
		for range 5 {
			time.Sleep(10 * time.Second)
			if _, err := c.Get(t.Context(), "b", func(string) (string, error) { return "", nil }); err != nil {
				t.Error(err)
			}
		}
		expect("after reads of another scan", "xxxx", "xxx", 1)
		time.Sleep(time.Minute)
		expect("too old", "x", "", 1)
		time.Sleep(10 * time.Second)
		fails = true
		expect("a failed read", "", "x", 1)
		fails = false
		expect("after a failure", "xx", "x", 1)

		time.Sleep(10 * time.Second)
		reading := make(chan error)
		go func() { _, err := c.Get(t.Context(), "a", read); reading <- err }()
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Get(gone, "a", read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a waiting call whose time is over: got error %v", err)
		}
		if err := <-reading; err != nil {
			t.Error(err)
		}

		reads.Store(0)
		time.Sleep(4*time.Second + time.Millisecond)
		expect("as old as the beginning of its read", "xxxx", "xxx", 1)
		time.Sleep(10 * time.Second)
		go func() { _, err := c.Get(t.Context(), "a", read); reading <- err }()
		synctest.Wait()
		c.Outdate("a", func(string) bool { return true })
		expect("outdated during its read", "xxxxxx", "xxxxx", 2)
		if err := <-reading; err != nil {
			t.Error(err)
		}
	})
}
