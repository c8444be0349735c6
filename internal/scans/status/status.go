package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// Status is the answer to GET /api/scans/{id}.
type Status struct {
	ID    ledger.ScanID `json:"id"`
	State ledger.State  `json:"state"`
	scans.Request
	StartedAt  time.Time  `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	// Seconds is how long the scan has run. The time between the end of an attempt and the next attempt does not count.
	Seconds float64 `json:"seconds"`
	Rows    struct {
		Scanned int64 `json:"scanned"`
		Written int64 `json:"written"`
		Failed  int64 `json:"failed"`
		Gone    int64 `json:"gone"` // failed rows that were no longer in the source at a retry
	} `json:"rows"`
	Steps struct {
		Pending int64 `json:"pending"`
		Done    int64 `json:"done"`
	} `json:"steps"`
	// Differences is nil unless the scan is a comparison.
	Differences *Differences `json:"differences,omitempty"`
	// Verification describes the verification of this scan. If this scan is itself a verification, Verifies is the id of
	// the verified scan.
	Verification *Verification `json:"verification,omitempty"`
	Verifies     ledger.ScanID `json:"verifies,omitempty"`
	// Members contains the number of a group's tables in each state; nil for other scans. A group's figures are
	// sums over its members.
	Members *ledger.Members `json:"members,omitempty"`
	At      time.Time       `json:"at,omitzero"` // when the figures were read, by the service's clock; absent for an ended scan in a list
	// LastStepAt is when the last step was done, by the service's clock.
	LastStepAt *time.Time `json:"lastStepAt,omitempty"`
	// Leased describes the steps that processes have held for some seconds; nil if there are none.
	Leased *Leased `json:"leased,omitempty"`
	// Progress is the share of the work that is done, from 0 to 1. It is nil unless hints cover all remaining work. For
	// a group, it is the share of members that have ended.
	Progress *float64 `json:"progress,omitempty"`
	// Phase is one of the phases of a running scan.
	Phase string `json:"phase,omitempty"`
	// Cause is why the scan waits or is throttled. If a delete ended while steps were running, Cause says that the
	// requests of these steps may still delete rows.
	Cause string `json:"cause,omitempty"`
	// Rate is how many rows per second were read or retried over the last minute; nil if no step was done for 15
	// seconds.
	Rate *float64 `json:"rate,omitempty"`
	// SecondsLeft is an estimate of the time that the scan still takes. It is set only if the true time is probably
	// between half the estimate and twice the estimate.
	SecondsLeft *float64 `json:"secondsLeft,omitempty"`
	// The counts of requests include requests of leased steps.
	Throttled    int64  `json:"throttled"` // requests that the storage throttled
	Cost         Cost   `json:"cost"`
	Queries      int64  `json:"queries"` // only of done steps
	Transactions int64  `json:"transactions"`
	Error        string `json:"error,omitempty"`
	LeftOut      bool   `json:"leftOut,omitempty"` // the table is gone, and its group is complete without it
	// Note is a remark about the scan.
	Note string `json:"note,omitempty"`

	attempt int64
}

func (s *Status) add(note string) { s.Note = strings.TrimPrefix(s.Note+"; "+note, "; ") }

// Cost is the cost of a scan's requests.
type Cost struct {
	Requests int64   `json:"requests"`
	Dollars  float64 `json:"dollars"`
}

// Leased describes steps that were begun, and are neither committed nor lost.
type Leased struct {
	Steps int64 `json:"steps"`
	// If the processes that hold the steps are dead, the steps' messages are resent before the time Until.
	Until time.Time `json:"until"`
	// Requests is the number of requests that the leased steps have made. Throttled is the number of these requests
	// that the storage throttled. The counts of requests in [Status] include these requests.
	Requests  int64      `json:"requests"`
	Throttled int64      `json:"throttled"`
	Instances []Instance `json:"instances"`
	// Waiting lists what living processes wait for. If requests to a connection of the scan fail, Waiting lists
	// the connection. If a process holds steps of the scan, and all of these steps wait for memory, Waiting lists
	// memory.
	Waiting []ledger.Wait `json:"waiting,omitempty"`
}

// Instance is a living process that holds steps.
type Instance struct {
	Name  string `json:"name"` // random, and new for each process
	Steps int64  `json:"steps"`
	waits bool
}

// AliveTime is the maximum age of a living process's last heartbeat. It allows for two failed heartbeats.
const AliveTime = 3 * ledger.HeartbeatTime

// repairTime is the longest time from a dead process's last heartbeat until Maintain resends the process's steps,
// unless the instance that runs Maintain also dies. Maintain runs every minute and takes [life.ObservationPause].
const repairTime = 90 * time.Second

// Reader reports on scans. It changes nothing.
type Reader struct {
	scans   *scans.Scans
	ledger  *ledger.Ledger
	details *scans.Cache[ledger.Snapshot]
	latest  atomic.Pointer[latestHeartbeats]
}

// New returns a reader of the scans.
func New(of *scans.Scans) *Reader {
	return &Reader{scans: of, ledger: of.Ledger, details: scans.NewCache[ledger.Snapshot](detailTime, detailTime)}
}

// Status returns a scan's status. It usually makes at most three requests. For a canceled or failed scan, Status
// makes one more request, to find out whether somebody has requested a retry.
func (rd *Reader) Status(ctx context.Context, id ledger.ScanID) (Status, error) {
	s, err := rd.status(ctx, id, func() ([]ledger.Heartbeat, error) { return rd.ledger.Heartbeats(ctx) })
	if errors.Is(err, ledger.ErrNotFound) {
		return rd.unstartedStatus(ctx, id)
	}
	if err == nil {
		err = errors.Join(rd.addVerification(ctx, &s), rd.addRetry(ctx, &s))
	}
	return s, NotFound(id, err)
}

// status returns the status of a scan. It calls the function `heartbeats` only if the scan may have running steps.
func (rd *Reader) status(ctx context.Context, id ledger.ScanID, heartbeats func() ([]ledger.Heartbeat, error)) (Status, error) {
	found, err := rd.ledger.Snapshot(ctx, id)
	if err != nil {
		return Status{}, err
	}
	running := found.Scan.State == ledger.Running
	if !running {
		rd.detailEnded(found.Scan)
	}
	r, err := scans.RequestOf(found.Scan)
	if err != nil {
		return Status{}, err
	}
	var l Leased
	// Steps of a canceled or failed scan may still be running.
	if pending, _ := found.Sums.Pending(); running || pending > 0 && found.Date.Sub(found.Scan.Finished) < ledger.SettleTime {
		all, err := heartbeats()
		if err != nil {
			return Status{}, err
		}
		rd.latest.Store(&latestHeartbeats{all, found.Date})
		l = leased(found, connectionsOf(r), all)
	}
	return rd.statusOf(found, r, l), nil
}

// connectionsOf returns the names of the settings whose storage the scan uses.
func connectionsOf(r scans.Request) []string {
	all := []string{storage.HostConnection, r.Source.Connection} // every scan uses the host's connection
	if d := r.Action.Destination; d != nil {
		all = append(all, d.Connection)
	}
	if q := r.Action.Queue; q != nil {
		all = append(all, q.Connection)
	}
	return all
}

// waits reports whether the scan waits for a connection or memory. The scan waits if all living processes wait, or if
// one of them waits and no step was done for idleTime.
func (l Leased) waits(idle time.Duration) bool {
	if len(l.Waiting) == 0 {
		return false
	}
	return idle >= idleTime || !slices.ContainsFunc(l.Instances, func(i Instance) bool { return !i.waits })
}

// leased returns the scan's pending steps that heartbeats name. It ignores heartbeats older than repairTime. The
// snapshot `s` may not contain all pending steps. In that case, a step that a heartbeat names counts as pending unless
// s.Done contains it. The argument `connections` lists the scan's connections.
func leased(s ledger.Snapshot, connections []string, heartbeats []ledger.Heartbeat) Leased {
	held := map[ledger.StepID]bool{}
	l := Leased{Instances: []Instance{}}
	waits := map[string]ledger.Wait{} // the longest wait for each connection
	for _, b := range heartbeats {
		if b.Age >= repairTime {
			continue
		}
		i := Instance{Name: b.Process}
		for _, h := range b.Steps {
			if h.Scan != s.Scan.ID {
				continue
			}
			if !s.Steps[h.Step] && (s.Whole || s.Done[h.Step]) {
				continue
			}
			held[h.Step] = true
			i.Steps++
			l.Requests += h.Requests
			l.Throttled += h.Throttled
			l.Until = later(l.Until, b.At.Add(repairTime))
		}
		if i.Steps == 0 || b.Age >= AliveTime {
			continue
		}
		for _, w := range b.Waiting {
			if w.Scan != s.Scan.ID && (w.Scan != "" || !slices.Contains(connections, w.Connection)) {
				continue
			}
			w.Scan = ""
			i.waits = true
			if was, ok := waits[w.Connection]; !ok || w.Since.Before(was.Since) {
				waits[w.Connection] = w
			}
		}
		l.Instances = append(l.Instances, i)
	}
	l.Steps = int64(len(held))
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		l.Waiting = append(l.Waiting, waits[name])
	}
	return l
}

func (rd *Reader) statusOf(found ledger.Snapshot, r scans.Request, l Leased) Status {
	pending, ahead := found.Sums.Pending()
	totals := found.Sums.Totals
	totals.Transactions, totals.Throttled = totals.Transactions+l.Requests, totals.Throttled+l.Throttled
	st := rd.summaryOf(found.Scan, r, totals, pending, found.Date)
	if st.At = found.Date; l.Steps > 0 {
		st.Leased = &l
	}
	st.Members = membersOf(found.Members)
	if last := found.Sums.Last; !last.IsZero() {
		st.LastStepAt = &last
	}
	if found.Scan.State != ledger.Running {
		if len(l.Instances) > 0 && r.Action.Type == scans.Delete {
			st.Cause = fmt.Sprintf("steps that were running when the scan ended: %d; the requests that they had sent may still delete rows", l.Steps)
		}
		return st
	}
	pages := float64(st.Rows.Scanned) / float64(st.Request.PageRows())
	if share, ok := ahead.Progress(pages); ok && pending > 0 {
		st.Progress = &share
	}
	p := ratesOf(found.Scan, found.Sums.Times.Points(), found.Sums.Times.Interval(), found.Sums.Last, found.Date)
	st.Phase, st.Cause = p.phase(st.Steps.Done, pending, l)
	if m := found.Members; m.All > 0 { // a group has no rate, because ended members have no timeline
		share := float64(m.Ended()) / float64(m.All)
		st.Progress = &share
		return st
	}
	if p.idle >= idleTime {
		return st
	}
	st.Rate = &p.rate
	if st.Progress != nil && st.Phase != waiting {
		st.SecondsLeft = p.secondsLeft(st.Rows.Scanned, pages, ahead)
	}
	return st
}

// summaryOf returns a status with only the fields that can be shown for every scan, running or ended.
func (rd *Reader) summaryOf(s ledger.Scan, r scans.Request, t ledger.Totals, pending int64, now time.Time) Status {
	st := Status{
		ID: s.ID, State: s.State, Request: r, StartedAt: s.Started, Seconds: s.Ran(now).Seconds(),
		Queries: t.Queries, Transactions: t.Transactions, Throttled: t.Throttled, Error: s.Error, LeftOut: s.LeftOut, Note: s.Note, attempt: s.Attempt,
		Cost: Cost{Requests: t.Transactions, Dollars: dollars(t.Transactions, rd.scans.Options.Price)},
	}
	if !s.Finished.IsZero() {
		st.FinishedAt = &s.Finished
	}
	// If somebody has deleted rows of the ledger, sums may be below 0.
	st.Rows.Scanned, st.Rows.Written, st.Rows.Failed, st.Rows.Gone = max(0, t.Rows), max(0, t.Written), max(0, t.Failed), max(0, t.Gone)
	st.Steps.Pending, st.Steps.Done = max(0, pending), t.Steps
	st.Verifies, _ = s.ID.Verifies()
	if r.IsGroup() && r.Action.Proof && st.Verifies == "" {
		st.add("it compares the tables that the source has now; the verification after an export compares the tables in tables.json instead")
	}
	if r.Action.Type == scans.Verify {
		st.Differences = &Differences{t.Missing, t.Extra, t.Different, s.NoTable}
	}
	return st
}

// dollars returns the cost of requests, rounded to a billionth of a dollar, because further digits are rounding errors.
func dollars(requests int64, per10000 float64) float64 {
	return math.Round(float64(requests)/10_000*per10000*1e9) / 1e9
}
