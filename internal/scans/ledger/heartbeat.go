package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A process that holds steps writes a heartbeat every few seconds: its row in the partition "beats". The property Steps
// lists the steps as "SCAN/STEP/THROTTLES/REQUESTS", separated by spaces. The property Waiting lists in JSON what the
// process waits for.
const (
	heartbeatsPartition = "beats"
	heartbeatVersion    = 1
	maxHeartbeatSteps   = 400  // 400 steps fit into a string of 32 K characters: a step's ids take 51 characters, and each of its two numbers takes at most 12
	maxHeartbeatWaits   = 10   // 10 waits, each with a cause of maxHeartbeatCause characters, fit into a string
	maxHeartbeatCause   = 1000 // characters
)

// Processes reads and writes the heartbeats of processes, and the rows in which Maintain records its last run and its
// last observation.
type Processes struct{ rows }

// HeartbeatTime is the interval between a process's heartbeats. A process that has held a step for HeartbeatTime
// begins to write heartbeats.
const HeartbeatTime = 5 * time.Second

// Heartbeat lists the steps that a process held, and what the process waited for, when it wrote the heartbeat.
type Heartbeat struct {
	Process string
	Steps   []Held
	Waiting []Wait        // sorted by connection
	At      time.Time     // when it was written, by the service's clock
	Age     time.Duration // the row's age, by the service's clock

	etag string
}

// Held is a step in a heartbeat.
type Held struct {
	Scan      ScanID
	Step      StepID
	Requests  int64 // requests that the step has sent
	Throttled int64 // requests that the storage throttled
}

// Wait is what a process waits for: a connection whose requests fail, or memory. A wait for memory means that all of
// the scan's running steps in this process wait for memory.
type Wait struct {
	Connection string    `json:"connection"`     // the name of the connection's setting, or "memory"
	Scan       ScanID    `json:"scan,omitempty"` // the scan whose steps wait for memory; "" for a connection
	Cause      string    `json:"cause"`          // the error of the last request, without the request's URL
	Since      time.Time `json:"since"`          // when the wait began, by the process's clock
}

// WriteHeartbeat replaces a process's heartbeat.
func (l Processes) WriteHeartbeat(ctx context.Context, b Heartbeat) error {
	var names []string
	for _, s := range b.Steps[:min(len(b.Steps), maxHeartbeatSteps)] {
		names = append(names, fmt.Sprintf("%s/%s/%d/%d", s.Scan, s.Step, s.Throttled, s.Requests))
	}
	properties := []storage.Property{storage.Int64Property("Version", heartbeatVersion), storage.StringProperty("Steps", strings.Join(names, " "))}
	waits := slices.Clone(b.Waiting[:min(len(b.Waiting), maxHeartbeatWaits)])
	for i, w := range waits {
		cause := []rune(w.Cause)
		waits[i].Cause = string(cause[:min(len(cause), maxHeartbeatCause)])
	}
	if len(waits) > 0 {
		text, _ := json.Marshal(waits) // never fails for this type
		properties = append(properties, storage.StringProperty("Waiting", string(text)))
	}
	return l.write(ctx, "write a heartbeat", op(storage.Replace, heartbeatsPartition, b.Process, properties...))
}

// Heartbeats returns the last heartbeat of each process. If a heartbeat has another format, its Steps and Waiting are empty.
func (l Processes) Heartbeats(ctx context.Context) ([]Heartbeat, error) {
	var heartbeats []Heartbeat
	for p, err := range l.pages(ctx, "read heartbeats", storage.Query{Range: key.WithPrefix(heartbeatsPartition, "")}) {
		if err != nil {
			return nil, err
		}
		for _, e := range p.Entities() {
			b := Heartbeat{Process: e.Key.Row, At: e.Timestamp, Age: p.Date.Sub(e.Timestamp), etag: e.ETag}
			if e.Int("Version") == heartbeatVersion {
				for name := range strings.FieldsSeq(e.Get("Steps")) {
					scan, rest, _ := strings.Cut(name, "/")
					step, counts, _ := strings.Cut(rest, "/")
					throttled, requests, _ := strings.Cut(counts, "/")
					h := Held{Scan: ScanID(scan), Step: StepID(step)}
					h.Throttled, _ = strconv.ParseInt(throttled, 10, 64) // the numbers are only shown, so unreadable ones count as 0
					h.Requests, _ = strconv.ParseInt(requests, 10, 64)
					b.Steps = append(b.Steps, h)
				}
				_ = json.Unmarshal([]byte(e.Get("Waiting")), &b.Waiting) // the list is only shown, so a list that cannot be decoded is ignored
			}
			heartbeats = append(heartbeats, b)
		}
	}
	return heartbeats, nil
}

// ForgetHeartbeat removes a heartbeat, unless its process has written a newer one.
func (l Processes) ForgetHeartbeat(ctx context.Context, b Heartbeat) error {
	gone := op(storage.Delete, heartbeatsPartition, b.Process)
	gone.IfMatch = b.etag
	return unlessOvertaken(l.write(ctx, "delete the heartbeat of process "+b.Process, gone))
}

// The partition "maintain" has two rows. The row "last" describes Maintain's last run: Poison is the number of messages
// in the poison queues, and Error is the run's error. The row "look" contains the last observation of steps that may be
// lost: an [Observation] as JSON in data properties (see data.go), and its version in the property Version.
const (
	maintainPartition     = "maintain"
	maintainRow           = "last"
	poisonName            = "Poison"
	observationRow        = "look"
	observationVersion    = 1
	maxMaintainError      = 1000 // characters
	maxObservedSteps      = 8000 // a step takes about 60 bytes, and so does a heartbeat; all of them must fit into a row of 1 MiB
	maxObservedHeartbeats = 2000
)

// Observation contains what one run of Maintain saw: the pending steps that may be lost, and the heartbeats. A later run
// of Maintain, perhaps in another process, compares the observation with what that run sees.
type Observation struct {
	At         time.Time            `json:"-"`     // when the observation ended, by the service's clock; zero means no observation
	Steps      map[StepID]time.Time `json:"steps"` // when each step's row was last written
	Heartbeats map[string]time.Time `json:"beats"` // when each process wrote its last heartbeat
}

// WriteObservation replaces the previous observation. It omits steps that do not fit into the row. If the heartbeats do
// not fit, it writes nothing.
func (l Processes) WriteObservation(ctx context.Context, seen Observation) error {
	kept := Observation{Steps: map[StepID]time.Time{}, Heartbeats: seen.Heartbeats}
	for step, at := range seen.Steps {
		if len(kept.Steps) < maxObservedSteps && len(kept.Heartbeats) <= maxObservedHeartbeats {
			kept.Steps[step] = at
		}
	}
	if len(kept.Steps) == 0 {
		return nil
	}
	data, _ := json.Marshal(kept) // never fails for this type
	row := append([]storage.Property{storage.Int64Property("Version", observationVersion)}, dataProperties(data)...)
	return l.write(ctx, "record an observation of pending steps", op(storage.Replace, maintainPartition, observationRow, row...))
}

// LastObservation reads the observation that was written last.
func (l Processes) LastObservation(ctx context.Context) (Observation, error) {
	var seen Observation
	e, found, err := l.get(ctx, "read the last observation of pending steps", maintainPartition, observationRow)
	if err != nil || !found || e.Int("Version") != observationVersion || json.Unmarshal(dataOf(e), &seen) != nil {
		return Observation{}, err
	}
	seen.At = e.Timestamp
	return seen, nil
}

// Maintained describes Maintain's last run.
type Maintained struct {
	At     time.Time // when the run ended, by the service's clock; zero if Maintain has never run
	Now    time.Time // when this record was read, by the service's clock
	Poison int64     // messages in poison queues, including hidden ones
	Error  string    // "" if there was none
}

// Age returns how long ago the run ended.
func (m Maintained) Age() time.Duration { return m.Now.Sub(m.At) }

// WriteMaintained records that Maintain has run.
func (l Processes) WriteMaintained(ctx context.Context, poison int, failure error) error {
	properties := []storage.Property{storage.Int64Property(poisonName, int64(poison))}
	if failure != nil {
		text := []rune(failure.Error())
		properties = append(properties, storage.StringProperty("Error", string(text[:min(len(text), maxMaintainError)])))
	}
	return l.write(ctx, "record that Maintain has run", op(storage.Replace, maintainPartition, maintainRow, properties...))
}

// Maintained reads the row of Maintain's last run, in one request.
func (l Processes) Maintained(ctx context.Context) (Maintained, error) {
	p, err := l.query(ctx, "read when Maintain last ran", storage.Query{Range: key.WithPrefix(maintainPartition, maintainRow), Top: 1})
	m := Maintained{Now: p.Date}
	for _, e := range p.Entities() {
		m.At, m.Poison, m.Error = e.Timestamp, e.Int(poisonName), e.Get("Error")
	}
	return m, err
}
