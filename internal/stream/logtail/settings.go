package logtail

import (
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/input"
)

// DefaultTable is the default name of the table of streams.
const DefaultTable = "tablesweeplog"

// Forever is the text of a retention that keeps all events.
const Forever = "forever"

// minRetention is the shortest allowed retention. It gives followers enough time to get every event.
const (
	minRetention = 2 * window
	maxRetention = 36_500 * 24 * time.Hour
)

// ParseRetention reads a duration such as 30d, 12h or 90m. For [Forever], it returns 0.
func ParseRetention(text string) (time.Duration, error) {
	if text == Forever {
		return 0, nil
	}
	d, err := input.Duration(text)
	if err != nil || d < minRetention || d > maxRetention {
		return 0, fmt.Errorf("%q is not a retention; use a time from %v to 36500d, such as 30d, 2w or 12h, or use %s", text, minRetention, Forever)
	}
	return d, nil
}

// ParseStreams reads the settings of single streams from JSON such as
// {"orders":{"shards":4,"retention":"7d"}}. The error lists all mistakes.
func ParseStreams(text string) (map[string]StreamSettings, error) {
	var given map[string]struct {
		Shards    *int    `json:"shards"`
		Retention *string `json:"retention"`
	}
	if err := input.JSON([]byte(text), &given); err != nil {
		return nil, fmt.Errorf(`must be a JSON object such as {"orders":{"shards":4,"retention":"7d"}}: %w`, err)
	}
	streams := map[string]StreamSettings{}
	var errs error
	for name, g := range given {
		wrong := func(err error) { errs = errors.Join(errs, fmt.Errorf("stream %q: %w", name, err)) }
		if _, err := escapeName(name); err != nil {
			wrong(err)
		}
		s := StreamSettings{Shards: 1}
		if g.Shards != nil {
			if s.Shards = *g.Shards; s.Shards < 1 || s.Shards > maxShards {
				wrong(fmt.Errorf("shards must be 1 to %d", maxShards))
			}
		}
		if g.Retention != nil {
			r, err := ParseRetention(*g.Retention)
			if err != nil {
				wrong(fmt.Errorf("retention %w", err))
			}
			s.Retention = &r
		}
		streams[name] = s
	}
	return streams, errs
}
