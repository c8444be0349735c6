package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/storage"
)

// Calls that wait for a reading that storage does not answer end with it, unless they have no patience of their own.
func TestCacheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache[int](time.Second, time.Minute)
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
				_, err := c.get(storage.WithPatience(t.Context(), 25*time.Second), "x", read)
				if took := time.Since(began); !errors.Is(err, storage.ErrAway) || took != 25*time.Second {
					t.Errorf("%v after %v", err, took)
				}
			}()
		}
		synctest.Wait()
		if v, err := c.get(context.Background(), "x", read); v != 7 || err != nil {
			t.Error(v, err)
		}
	})
}
