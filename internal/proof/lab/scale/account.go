package scale

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/table"
	"tablesweep/internal/storage"
)

// account is a storage account with its limits and latencies.
type account struct {
	transport  *emulator.Transport
	connection storage.Connection

	mu      sync.Mutex // guards the fields below
	random  *rand.Rand
	traffic Traffic
}

func newAccount(name string, o Options, tables map[string]table.Rows) *account {
	a := &account{random: rand.New(rand.NewPCG(seed, uint64(len(name))))}
	e := must(emulator.New(emulator.Options{
		Account: name, Tables: tables, OnRequest: a.observe, OnFault: a.refuse,
		Faults: fmt.Sprintf("account-rate=%v; partition-rate=%v", o.AccountLimit, partitionLimit),
	}))
	a.transport = e.Transport()
	a.connection = must(storage.ParseConnection(e.ConnectionString()))
	return a
}

// observe delays a request's answer by its latency.
func (a *account) observe(e emulator.Event) {
	if e.Applied {
		time.Sleep(a.takes(e))
	}
}

// refuse counts a request that a limit refuses, and delays the refusal.
func (a *account) refuse(_ fault.Request, limit fault.Name) {
	a.mu.Lock()
	if limit == fault.PartitionRate {
		a.traffic.RefusedByPartition++
	} else {
		a.traffic.RefusedByAccount++
	}
	a.mu.Unlock()
	time.Sleep(refusalLatency)
}

// takes returns the duration of a request, which is the latency of its kind times a random factor.
func (a *account) takes(e emulator.Event) time.Duration {
	var d time.Duration
	switch e.Kind {
	case fault.Query:
		d = queryLatency + time.Duration(e.Found)*queryRowLatency
	case fault.Point:
		d = pointLatency
	case fault.Insert, fault.Update, fault.Merge, fault.Delete, fault.Batch, fault.Tables:
		d = writeLatency + time.Duration(max(e.Entities-1, 0))*writeRowLatency
	default:
		d = queueLatency
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.traffic.Requests++
	factor := 0.6 + 0.8*a.random.Float64()
	if a.random.IntN(100) == 0 {
		factor *= 5
	}
	return time.Duration(float64(d) * factor)
}
