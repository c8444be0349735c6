package scale

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/fault"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/storage"
)

// account is a storage account with its limits and latencies.
type account struct {
	name       string
	latency    Latency
	storage    *emulator.Emulator
	transport  *emulator.Transport
	connection storage.Connection
	counted    bool // requests by partition and queue, too: there are few

	mu        sync.Mutex // guards the fields below
	random    *rand.Rand
	requests  int64
	refused   int64
	found     int64            // rows that queries returned
	byTarget  map[string]int64 // requests, by partition or queue
	throttled map[string]int64 // refused requests, by the limit
}

func newAccount(name string, o Options, tables map[string]table.Rows) (*account, error) {
	a := &account{
		name: name, latency: o.Latency, counted: tables == nil, byTarget: map[string]int64{}, throttled: map[string]int64{},
		random: rand.New(rand.NewPCG(seed, uint64(len(name)))),
	}
	var err error
	a.storage, err = emulator.New(emulator.Options{
		Account: name, Tables: tables, OnRequest: a.observe, OnFault: a.refuse,
		Faults: fmt.Sprintf("account-rate=%v; partition-rate=%v", o.Limits.Account, o.Limits.Partition),
	})
	if err != nil {
		return nil, err
	}
	a.transport = a.storage.Transport()
	a.connection, err = storage.ParseConnection(a.storage.ConnectionString())
	return a, err
}

// observe counts a request, and delays its answer by its latency.
func (a *account) observe(e emulator.Event) {
	if !e.Applied {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests++
		if a.counted {
			a.byTarget[target(e.Request)]++
		}
		return
	}
	time.Sleep(a.takes(e))
}

// refuse counts a request that a limit refuses, and delays the refusal.
func (a *account) refuse(r fault.Request, limit fault.Name) {
	a.mu.Lock()
	a.refused++
	what := "the account's requests"
	if limit == fault.PartitionRate {
		what = "a partition"
		if a.counted {
			what = target(r)
		}
	}
	a.throttled[what]++
	a.mu.Unlock()
	time.Sleep(a.latency.Refusal)
}

// target names the partition or queue of a request to the app's own account.
func target(r fault.Request) string {
	switch {
	case r.Queue != "":
		return "queue " + r.Queue
	case r.Kind == fault.Tables:
		return "tables"
	case r.Partition == "scans" || r.Partition == "beats":
		return "partition " + r.Partition
	case r.Confined:
		return "partition of the scan"
	}
	return "several partitions"
}

// takes returns how long a request takes: its kind's latency, times a random factor.
func (a *account) takes(e emulator.Event) time.Duration {
	l := a.latency
	var d time.Duration
	switch e.Kind {
	case fault.Query:
		d = l.Query + time.Duration(e.Found)*l.QueryRow
	case fault.Point:
		d = l.Point
	case fault.Insert, fault.Update, fault.Merge, fault.Delete, fault.Batch, fault.Tables:
		d = l.Write + time.Duration(max(e.Entities-1, 0))*l.WriteRow
	default:
		d = l.Queue
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Kind == fault.Query {
		a.found += int64(e.Found)
	}
	factor := 0.6 + 0.8*a.random.Float64()
	if a.random.IntN(100) == 0 {
		factor *= 5
	}
	return time.Duration(float64(d) * factor)
}

// reset forgets the requests so far.
func (a *account) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.refused, a.found = 0, 0, 0
	clear(a.byTarget)
	clear(a.throttled)
	a.storage.ResetCounts()
}

// totals returns how many requests came, how many were refused, and how many rows queries
// have returned.
func (a *account) totals() (requests, refused, found int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests, a.refused, a.found
}
