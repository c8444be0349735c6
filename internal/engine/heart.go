package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// beatTime is how often a process says what it has in hand, while there is something.
	beatTime = 5 * time.Second
	// beatPause is the time until a beat that failed is tried again, and beatTry what a
	// try may take. Within lookTime there are several.
	beatPause = time.Second
	beatTry   = 3 * time.Second
	// redelivery is how long after a failure the host has delivered a message again:
	// host.json's visibilityTimeout, and its longest wait between two polls.
	redelivery = 30 * time.Second
)

// heart tells others which steps a process has in hand, so that they needn't guess from
// a message's age whether it was lost. Its methods may be called at once.
type heart struct {
	process string // the process's name, random
	write   func(ctx context.Context, process string, steps []string) error

	mu      sync.Mutex           // guards the fields below
	hands   map[string]int       // deliveries under way, by step
	failed  map[string]time.Time // steps that the host will deliver again, and until when
	beating bool
}

func newHeart(write func(context.Context, string, []string) error) *heart {
	return &heart{process: strings.ToLower(rand.Text()), write: write, hands: map[string]int{}, failed: map[string]time.Time{}}
}

// take records that a delivery of a step has begun.
func (h *heart) take(log *zerolog.Logger, step string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hands[step]++
	if !h.beating {
		h.beating = true
		h.beatAfter(log, beatTime)
	}
}

// release records that a delivery of a step has ended. If the host delivers it again, the
// step stays in hand until it has: meanwhile its message is hidden, and not lost.
func (h *heart) release(step string, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hands[step]--; h.hands[step] == 0 {
		delete(h.hands, step)
	}
	delete(h.failed, step)
	if again {
		h.failed[step] = time.Now().Add(redelivery)
	}
}

// held returns the steps in hand. If there are none, the heart stops.
func (h *heart) held() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.failed, func(_ string, until time.Time) bool { return time.Now().After(until) })
	steps := slices.Concat(slices.Collect(maps.Keys(h.hands)), slices.Collect(maps.Keys(h.failed)))
	slices.Sort(steps)
	h.beating = len(steps) > 0
	return slices.Compact(steps)
}

// beatAfter has the heart beat in a while, and then again until there is nothing in hand.
func (h *heart) beatAfter(log *zerolog.Logger, d time.Duration) {
	time.AfterFunc(d, func() {
		err := task.Do(h.beat)
		if errors.Is(err, errStopped) {
			return
		}
		next := beatTime
		if err != nil {
			next = beatPause
			log.Debug().Err(err).Msg("could not say what is in hand")
		}
		h.beatAfter(log, next)
	})
}

// errStopped ends the beating: there is nothing in hand.
var errStopped = errors.New("nothing in hand")

// beat says what is in hand. It tries once and not with the SDK's growing pauses: after
// an outage, others must hear of us soon.
func (h *heart) beat() error {
	steps := h.held()
	if len(steps) == 0 {
		return errStopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatTry)
	defer cancel()
	return h.write(storage.Once(ctx), h.process, steps)
}
