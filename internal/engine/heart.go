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
	// beatTime is how often a process says what it has in hand, while it has a step for longer.
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
// a message's age whether it was lost. Each step is named within beatTime of being taken,
// unless it has ended by then: short steps cost nothing. Its methods may be called at once.
type heart struct {
	process string // the process's name, random
	write   func(ctx context.Context, process string, steps, scans []string) error

	mu      sync.Mutex       // guards the fields below
	hands   map[string]*hand // by step
	beating bool
}

// hand is a step in hand.
type hand struct {
	scan       string
	since      time.Time // when it was taken
	deliveries int       // under way
	until      time.Time // if it failed: when the host will have delivered it again
}

func newHeart(write func(ctx context.Context, process string, steps, scans []string) error) *heart {
	return &heart{process: strings.ToLower(rand.Text()), write: write, hands: map[string]*hand{}}
}

// take records that a delivery of a step has begun.
func (h *heart) take(log *zerolog.Logger, scan, step string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hands[step] == nil {
		h.hands[step] = &hand{scan: scan, since: time.Now()}
	}
	h.hands[step].deliveries++
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
	held := h.hands[step]
	held.deliveries--
	held.until = time.Time{}
	if again {
		held.until = time.Now().Add(redelivery)
	}
	if held.ended() {
		delete(h.hands, step)
	}
}

func (h *hand) ended() bool { return h.deliveries == 0 && !time.Now().Before(h.until) }

// held returns the steps in hand and their scans, and for how long the first of them has been. If
// there are none, the heart stops.
func (h *heart) held() (steps, scans []string, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.hands, func(_ string, held *hand) bool { return held.ended() })
	for _, held := range h.hands {
		longest = max(longest, time.Since(held.since))
	}
	h.beating = len(h.hands) > 0
	steps = slices.Sorted(maps.Keys(h.hands))
	for _, step := range steps {
		scans = append(scans, h.hands[step].scan)
	}
	return steps, scans, longest
}

// beatAfter has the heart beat in a while, and then again until there is nothing in hand.
func (h *heart) beatAfter(log *zerolog.Logger, d time.Duration) {
	time.AfterFunc(d, func() {
		var next time.Duration
		err := task.Do(func() (err error) { next, err = h.beat(); return err })
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			next = beatPause
			log.Debug().Err(err).Msg("could not say what is in hand")
		}
		h.beatAfter(log, next)
	})
}

// errStopped ends the beating: there is nothing in hand.
var errStopped = errors.New("nothing in hand")

// beat says what is in hand, if a step has been for beatTime, and returns the time until
// the next. It tries once and not with the SDK's growing pauses: after an outage, others
// must hear of us soon.
func (h *heart) beat() (next time.Duration, err error) {
	steps, scans, longest := h.held()
	switch {
	case len(steps) == 0:
		return 0, errStopped
	case longest < beatTime:
		return beatTime - longest, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatTry)
	defer cancel()
	return beatTime, h.write(storage.Once(ctx), h.process, steps, scans)
}
