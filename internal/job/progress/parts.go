package progress

import (
	"sync"
	"time"

	"tablesweep/internal/job/sweep"
)

// Parts shows the concurrent work on several tables as the progress of one command.
type Parts struct {
	meter *Meter
	began time.Time

	mu    sync.Mutex // guards the fields below
	under map[*Meter]sweep.Progress
	sum   sweep.Progress // the sum over the sweeps that have ended
	done  Tables
}

// Tables counts the tables of a command.
type Tables struct {
	Done     int `json:"done"` // including failed tables
	UnderWay int `json:"underWay"`
	All      int `json:"all"`
}

// Parts returns the Parts of a command with the given number of tables, some of which are already done.
func (m *Meter) Parts(all, done int) *Parts {
	return &Parts{meter: m, began: time.Now(), under: map[*Meter]sweep.Progress{}, done: Tables{Done: done, All: all}}
}

// Begin returns the meter of a table. The meter's messages begin with the table's name.
func (p *Parts) Begin(table string) *Meter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done.UnderWay++
	return &Meter{style: None, parts: p, table: table}
}

// End ends the work on a table. The argument `done` is false if this work must be repeated.
func (p *Parts) End(m *Meter, done bool) {
	p.endSweep(m)
	p.mu.Lock()
	p.done.UnderWay--
	if done {
		p.done.Done++
	}
	p.mu.Unlock()
	p.show(nil, sweep.Progress{})
}

func (p *Parts) endSweep(m *Meter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.under[m]
	p.sum.Totals.Add(one.Totals)
	p.sum.Run.Add(one.Run)
	p.sum.Bytes += one.Bytes
	delete(p.under, m)
}

// show displays the progress of all tables together. If m is not nil, show first stores `one` as the progress of m's
// table.
func (p *Parts) show(m *Meter, one sweep.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m != nil {
		p.under[m] = one
	}
	sum := p.sum
	for _, one := range p.under {
		sum.Totals.Add(one.Totals)
		sum.Run.Add(one.Run)
		sum.Bytes += one.Bytes
		sum.Ranges += one.Ranges
		sum.Reading += one.Reading
		sum.Working += one.Working
		sum.Limit += one.Limit
		sum.Stopping = sum.Stopping || one.Stopping
	}
	sum.Elapsed = time.Since(p.began)
	tables := p.done
	p.meter.mu.Lock()
	p.meter.tables = &tables
	p.meter.mu.Unlock()
	p.meter.Show(sum)
}
