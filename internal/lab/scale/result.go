package scale

import (
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
)

// Result is the result of a run. Times are virtual seconds, except Simulated.
type Result struct {
	Options    Options
	Simulated  float64 // seconds that the simulation took
	Took       float64 // from the request that starts the scan to its end
	Limit      float64 // the shortest time that the destination's or the source's limit allows
	SerialScan float64 // the time of a program that reads one page after the other, while others write
	Serial     float64 // the time of a program that reads and writes one request after the other

	Instances   int     // at most
	Active      float64 // seconds in which instances executed, summed over all
	Executions  int64
	GBSeconds   float64
	Processor   float64 // seconds of a core
	Connections int     // at once, of an instance

	Accounts []AccountResult
	Again    int64            // rows that were written more than once
	Warnings map[string]int64 // of the app's log
	Dollars  Dollars
	Status   engine.Status
	Samples  []Sample
}

// AccountResult counts an account's requests.
type AccountResult struct {
	Name      string
	Requests  int64
	Refused   int64
	Counts    emulator.Counts
	Targets   map[string]int64 `json:",omitempty"` // requests, by partition or queue
	Throttled map[string]int64 // refused requests, by the limit
}

// Dollars are the costs of a run, by the prices of [facts].
type Dollars struct{ Functions, Tables, Queues float64 }

// Sample is a run's progress. Requests and refusals are those of the app's own account, the
// source and the destination.
type Sample struct {
	Seconds   float64
	Rows      int64 // rows that arrived; in a count, rows that were read
	Instances int
	Requests  [3]int64
	Refused   [3]int64
}

func (c *cloud) result(s engine.Status) Result {
	o := c.options
	r := Result{Options: o, Status: s, Samples: c.samples, Again: c.sink.again, Warnings: c.warnings}
	end := time.Now()
	if s.FinishedAt != nil {
		end = *s.FinishedAt
	}
	r.Took = end.Sub(c.start).Seconds()
	r.Limit, r.SerialScan, r.Serial = c.limit(), max(c.limit(), c.serial(false)), c.serial(o.copies())
	for _, a := range []*account{c.own, c.source, c.destination} {
		r.Accounts = append(r.Accounts, AccountResult{
			Name: a.name, Requests: a.requests, Refused: a.refused, Counts: a.storage.Counts(), Targets: a.byTarget, Throttled: a.throttled,
		})
		c := a.storage.Counts()
		r.Dollars.Tables += float64(c.TableTransactions()) * tablePrice
		r.Dollars.Queues += float64(c.QueueTransactions()) * queuePrice
	}
	for _, g := range c.groups {
		for _, in := range g.instances {
			r.Active += in.active.Seconds()
			r.Executions += in.executed
			r.Processor += in.processor.used.Seconds()
			r.Connections = max(r.Connections, in.most)
		}
		r.Instances += len(g.instances)
	}
	r.GBSeconds = r.Active * memory / 1024
	r.Dollars.Functions = r.GBSeconds*gbSecond + float64(r.Executions)/1e6*million
	return r
}

// transactions returns the least number of transactions that write the table.
func (c *cloud) transactions() int64 {
	whole, left := c.rows.count/c.rows.perPartition, c.rows.count%c.rows.perPartition
	return whole*((c.rows.perPartition+99)/100) + (left+99)/100
}

// pages returns the number of full pages that the run reads.
func (c *cloud) pages() int64 { return (c.options.read() + 999) / 1000 }

// limit returns the shortest time that an account's limit on requests allows, in seconds: the
// destination's for a copy, the source's for a count.
func (c *cloud) limit() float64 {
	if c.options.copies() {
		return float64(c.transactions()) / c.options.Limits.Account
	}
	return float64(c.pages()) / c.options.Limits.Account
}

// serial returns how long a program takes that makes one request after the other at the
// mean latencies of the model, in seconds. It reads all pages, and if writes is set, it writes all rows.
func (c *cloud) serial(writes bool) float64 {
	const meanFactor = 1.04 // of takes
	l := c.options.Latency
	d := float64(c.pages())*l.Query.Seconds() + float64(c.options.read())*l.QueryRow.Seconds()
	if writes {
		d += float64(c.transactions())*l.Write.Seconds() + float64(c.rows.count-c.transactions())*l.WriteRow.Seconds()
	}
	return d * meanFactor
}
