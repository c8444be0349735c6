package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// Plan determines everything that happens in a run.
type Plan struct {
	Seed   uint64
	Source []storage.Entity
	Scans  []PlannedScan
	// Faults is the emulator's spec. No rule may apply to point reads, because only the witness makes them.
	Faults string
	// Late is the probability that a request of the app is carried out only after it was reported as failed.
	Late float64
	// If Calm is true, no process dies and no request fails, so there must be nothing to repair.
	Calm bool

	Machines   []Machine
	MaxPolling time.Duration // the longest wait between two polls of an empty queue
	Overlap    bool          // runs of Maintain may overlap
	Holder     int           // the machine that is the first to hold the timer's lease
	FoldEvery  int           // how many done steps are folded together, on average; 0 means the app's own number

	// Outages change the faults for a limited time.
	Outages []Outage
	// If Blackout is not zero, all machines are lost after this time. After Darkness, a single machine starts. If Cleared is true, all messages are lost
	// together with the machines.
	Blackout time.Duration
	Darkness time.Duration
	Cleared  bool
}

// PlannedScan is a scan that the operator starts.
type PlannedScan struct {
	Request     scans.Request
	Destination []storage.Entity // the destination's rows before the scan
	// If Follows is true, the scan starts after the scans before it have ended, and may use their hints.
	Follows bool
	// If Cancel is not zero, the operator cancels the scan after this time, and retries it after Rest.
	Cancel, Rest time.Duration
	// If Lose is not zero, one of the scan's rows is deleted from the state table after this time.
	Lose time.Duration
	// Rounds is how often the operator removes the cause for a third of the failed rows and then retries them. If Twice is true, it sends two concurrent
	// requests for each retry.
	Rounds int
	Twice  bool
	// If ByStorage is true, the operator requests retries with a row in the app's own storage.
	ByStorage bool
	// Tables is the number of a group's tables, among which the plan's rows are divided. If Meddle is not zero, the operator cancels the first table's scan
	// after it has run for this time, and retries it after Rest.
	Tables int
	Meddle time.Duration

	number int // the number of a member, from 1; 0 for the plan's own scans
}

func (s PlannedScan) group() bool { return s.Tables > 0 && s.number == 0 }

// members returns the scans of a group's tables. For any other scan, it returns the scan itself.
func (s PlannedScan) members() []PlannedScan {
	if !s.group() {
		return []PlannedScan{s}
	}
	var all []PlannedScan
	for n := range s.Tables {
		m := s
		m.number, m.Destination = n+1, share(s.Destination, n, s.Tables)
		m.Request.Verify = false
		if d := s.Request.Action.Destination; d != nil {
			to := *d
			if to.Container == "" {
				to.Table = tableOf(n)
			} else {
				to.Prefix += "/" + tableOf(n)
			}
			m.Request.Action.Destination = &to
		}
		all = append(all, m)
	}
	return all
}

// rows returns the plan's rows that the scan reads.
func (s PlannedScan) rows(source []storage.Entity) []storage.Entity {
	if s.number == 0 {
		return source
	}
	return share(source, s.number-1, s.Tables)
}

// verification returns the scan that verifies a copy.
func (s PlannedScan) verification(source []storage.Entity) PlannedScan {
	v := PlannedScan{Request: s.Request, Destination: source, Tables: s.Tables}
	v.Request.Verify, v.Request.Action.Type = false, scans.Verify
	return v
}

// tableOf returns the name of a group's n-th table. A group takes all tables with such names.
func tableOf(n int) string { return fmt.Sprintf("Grp%04d", n) }

// share returns the rows of a group's n-th table.
func share(rows []storage.Entity, n, tables int) (of []storage.Entity) {
	for _, row := range rows {
		if draw(0, row.Key.Partition, row.Key.Row)%uint64(tables) == uint64(n) {
			of = append(of, row)
		}
	}
	return of
}

// Machine is an instance of the app. If it is lost, another machine replaces it.
type Machine struct {
	Skew      time.Duration // the difference of its clock
	Accidents []Accident    // the accidents of its processes and of those of its successors, in order
	Life      time.Duration // the time after which each handler crashes; 0 for never
	Restart   time.Duration // the time until a crashed handler runs again
	Replace   time.Duration // the time until a lost machine is replaced
}

// Outage adds rules to the faults for a limited time. If UntilFailed is true, it lasts at least until a scan has failed or the run has ended.
type Outage struct {
	Rules       string
	From, For   time.Duration
	UntilFailed bool
}

// String describes the plan, without its rows.
func (p Plan) String() string {
	type described Plan
	all := described(p)
	all.Source, all.Scans = nil, slices.Clone(p.Scans)
	var requests []string
	for i, s := range p.Scans {
		requests = append(requests, fmt.Sprintf("%+v, %d rows at the destination %+v", s.Request, len(s.Destination), s.Request.Action.Destination))
		all.Scans[i].Request, all.Scans[i].Destination = scans.Request{}, nil
	}
	return fmt.Sprintf("%d rows\n%s\n%+v", len(p.Source), strings.Join(requests, "\n"), all)
}

// dice draws a plan.
type dice struct{ *rand.Rand }

func (d dice) chance(p float64) bool { return d.Float64() < p }

func (d dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

// number draws a number from low to high, including both.
func (d dice) number(low, high int) int { return low + d.IntN(high-low+1) }

// Draw returns the plan of a seed.
func Draw(seed uint64) Plan {
	p := drawTables(seed)
	d, losses := dice{rand.New(rand.NewPCG(seed, 0xb10b))}, dice{rand.New(rand.NewPCG(seed, 0x1057))}
	if deletes := (dice{rand.New(rand.NewPCG(seed, 0xde1))}); deletes.chance(0.4) {
		s := deletes.scan(len(p.Scans), p.Source)
		s.Request.Source.Table, s.Request.Action, s.Destination = doomed, scans.Action{Type: scans.Delete}, nil
		if deletes.chance(0.4) {
			s.Cancel, s.Rest = deletes.between(time.Second, 20*time.Second), deletes.between(10*time.Second, 10*time.Minute)
		}
		p.Scans = append(p.Scans, s)
	}
	for i, s := range p.Scans {
		if !p.Calm && losses.chance(0.1) {
			p.Scans[i].Lose = losses.between(time.Second, 10*time.Second)
			s = p.Scans[i]
		}
		if s.Request.Action.Type != scans.Copy || d.chance(0.6) {
			continue
		}
		back := s
		back.Follows, back.Cancel = true, 0
		back.Request.Action.Destination = &scans.TableRef{Table: fmt.Sprintf("Back%d", i)}
		place := scans.TableRef{Container: exports, Prefix: fmt.Sprintf("Target%d", i)}
		back.Request.Source = place
		s.Request.Action, s.Destination = scans.Action{Type: scans.Copy, Destination: &place}, nil
		s.Request.SegmentsPerInvocation = d.number(1, 4)
		p.Scans[i] = s
		if s.Lose == 0 { // otherwise the export may remain incomplete
			p.Scans = append(p.Scans, back)
		}
	}
	maps, programs := dice{rand.New(rand.NewPCG(seed, 0x3a9))}, dice{rand.New(rand.NewPCG(seed, 0x9409))}
	for i := range p.Scans {
		if a := &p.Scans[i].Request.Action; a.Type == scans.Copy && a.Destination.Container == "" && maps.chance(0.3) {
			a.Map = [...]string{repartition, uneven}[programs.IntN(2)]
			p.Scans[i].Destination = moved(*a, p.Source, p.Scans[i].Destination)
		}
	}
	proofs := dice{rand.New(rand.NewPCG(seed, 0x960))}
	if proofs.chance(0.25) {
		p.Scans = append(p.Scans, proofs.groups(len(p.Scans), p.Source)...)
	}
	if proofs.chance(0.15) {
		s := proofs.scan(len(p.Scans), p.Source)
		s.Request.Action, s.Destination = scans.Action{Type: scans.Verify, Destination: &scans.TableRef{Table: "Damaged"}}, proofs.damaged(p.Source)
		p.Scans = append(p.Scans, s)
	}
	limits := dice{rand.New(rand.NewPCG(seed, 0x11a17))}
	for i := range p.Scans {
		if limits.chance(0.15) { // with limits, a scan takes minutes, and most of its messages are hidden
			p.Scans[i].Request.Limits = &scans.Limits{RowsPerSecond: limits.number(1, 20), RequestsPerSecond: limits.number(0, 20)}
		}
	}
	// The app stops trying to start a verification after four hours. In this case no scan fails, although such an outage lasts until a scan has failed.
	waits := slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.UntilFailed })
	for i, s := range p.Scans {
		p.Scans[i].Request.Verify = s.Request.Action.Type == scans.Copy && s.Request.Action.Map == "" && s.Lose == 0 && proofs.chance(0.3) && !waits
	}
	rows := dice{rand.New(rand.NewPCG(seed, 0xa54))}
	for i := range p.Scans {
		p.Scans[i].ByStorage = rows.chance(0.2)
	}
	if programs.chance(0.1) {
		s := programs.scan(len(p.Scans), p.Source)
		s.Request.Action, s.Destination = scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: sink}, Message: "{{.PartitionKey}}|{{.RowKey}}", Map: uneven}, nil
		p.Scans = append(p.Scans, s)
	}
	return p
}

// groups draws a group that counts rows, copies tables into another account, or exports them. A second group may copy the exports into the other
// account.
func (d dice) groups(i int, source []storage.Entity) []PlannedScan {
	s := d.scan(i, source)
	s.Request.Source, s.Tables, s.Rounds = scans.TableRef{Tables: "grp*"}, d.number(2, 9), d.number(0, 2)
	if s.Destination = share(s.Destination, 1, s.Tables); d.chance(0.3) {
		s.Cancel, s.Rest = d.between(time.Second, 20*time.Second), d.between(10*time.Second, 10*time.Minute)
	} else if d.chance(0.6) {
		s.Meddle, s.Rest = d.between(1, 300*time.Millisecond), d.between(0, time.Second)
	}
	if s.Request.Action.Type == scans.Count {
		return []PlannedScan{s}
	}
	s.Request.Action.Destination = &scans.TableRef{Connection: other}
	s.Request.Action.Overwrite = s.Request.OverExisting() // some tables of the destination already contain rows
	if d.chance(0.3) {
		return []PlannedScan{s}
	}
	back := s
	s.Request.Action, s.Destination = scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Container: exports, Prefix: target(s.Request)}}, nil
	back.Request.Name, back.Request.Source, back.Follows = s.Request.Name+"back", *s.Request.Action.Destination, true
	back.Request.Source.Tables = "*"
	if d.chance(0.5) {
		return []PlannedScan{s}
	}
	return []PlannedScan{s, back}
}

// damaged returns a copy of the rows in which some are missing, extra or different.
func (d dice) damaged(rows []storage.Entity) (damaged []storage.Entity) {
	for _, row := range rows {
		if d.chance(0.1) {
			continue
		}
		if d.chance(0.1) {
			row.Properties = []storage.Property{storage.StringProperty("Name", "another")}
		}
		if damaged = append(damaged, row); d.chance(0.1) {
			row.Key.Row += "x"
			damaged = append(damaged, row)
		}
	}
	return damaged
}

// repartition makes each row's PartitionKey from two of its properties. uneven does this as well, but fails for some rows, drops some, and makes two rows
// from others.
const (
	repartition = `.RowKey = .PartitionKey | .PartitionKey = "\(.Name) \(.Number % 10)"`
	uneven      = repartition + ` | (.Number % 10) as $n | ., if $n == 0 then error("no") elif $n == 2 then .RowKey += "+" else empty end | select($n != 1)`
)

// become returns the rows that the action's map makes from a row, and whether the map fails.
func become(a scans.Action, row storage.Entity) (rows []storage.Entity, fails bool) {
	if a.Map == "" {
		return []storage.Entity{row}, false
	}
	n := row.Int("Number") % 10
	row.Key = key.Key{Partition: fmt.Sprintf("%s %d", row.Get("Name"), n), Row: row.Key.Partition}
	if a.Map == uneven && n < 2 {
		return nil, n == 0
	}
	if rows = []storage.Entity{row}; a.Map == uneven && n == 2 {
		row.Key.Row += "+"
		rows = append(rows, row)
	}
	return rows, false
}

// moved returns the destination's rows that have keys of the source, but with the keys that the map gives to the source's rows.
func moved(a scans.Action, source, destination []storage.Entity) (all []storage.Entity) {
	for _, row := range source {
		if i := slices.IndexFunc(destination, func(d storage.Entity) bool { return d.Key == row.Key }); i >= 0 {
			became, _ := become(a, row)
			for _, one := range became {
				all = append(all, storage.Entity{Key: one.Key, Properties: destination[i].Properties})
			}
		}
	}
	return all
}

const (
	exports = "exports" // the container of all exports
	other   = "OTHER"   // the connection of another account
	sink    = "sink"    // a queue
	doomed  = "Doomed"  // a table with the source's rows, which a scan deletes
)

func drawTables(seed uint64) Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x7ab1e))}
	p := Plan{Seed: seed, Source: d.rows(), Calm: d.chance(0.2), MaxPolling: time.Duration(d.number(2, 30)) * time.Second}
	for i := range d.number(1, 4)/3 + 1 {
		s := d.scan(i, p.Source)
		s.Follows = d.chance(0.5)
		p.Scans = append(p.Scans, s)
	}
	for range d.number(1, 4) {
		p.Machines = append(p.Machines, Machine{
			Skew:    d.between(-10*time.Minute, 10*time.Minute),
			Restart: d.between(time.Second, 5*time.Second), Replace: d.between(2*time.Second, 2*time.Minute),
		})
	}
	again := dice{rand.New(rand.NewPCG(seed, 0xa6a1))}
	for i := range p.Scans {
		p.Scans[i].Rounds, p.Scans[i].Twice = again.number(0, 2), again.chance(0.5)
		if s := &p.Scans[i]; s.Request.Action.Type == scans.Copy && again.chance(0.4) {
			if s.Destination == nil {
				s.Destination = again.taken(p.Source)
			}
			s.Request.Action.Mode = action.Fail
		}
	}
	p.FoldEvery = dice{rand.New(rand.NewPCG(seed, 0xf01d))}.number(2, 6)
	if p.Calm {
		p.Faults = d.faults(true)
		for i := range p.Scans {
			if again.chance(0.5) { // writes take so long that some steps have much work left when the scan is canceled
				p.Scans[i].Cancel, p.Scans[i].Rest = again.between(100*time.Millisecond, 20*time.Second), again.between(10*time.Second, time.Minute)
				p.Faults = "latency=300ms..900ms on=batch,insert,update,merge,delete; " + p.Faults
			}
		}
		return p
	}
	p.Faults, p.Overlap, p.Holder = d.faults(false), d.chance(0.3), d.IntN(len(p.Machines))
	if d.chance(0.5) {
		p.Late = 0.03 * d.Float64()
	}
	for range d.number(0, 6) {
		m := &p.Machines[d.IntN(len(p.Machines))]
		m.Accidents = append(m.Accidents, d.accident())
	}
	for i := range p.Scans {
		if d.chance(0.2) {
			p.Scans[i].Cancel, p.Scans[i].Rest = d.between(time.Second, 30*time.Second), d.between(0, 20*time.Minute)
		}
	}
	if d.chance(0.07) {
		p.Outages = append(p.Outages, Outage{Rules: "busy p=1 retry-after=2s on=batch,insert,update,merge table=Target0", From: d.between(0, 10*time.Second), For: 10 * time.Minute})
	}
	if d.chance(0.07) {
		p.Outages = append(p.Outages, Outage{Rules: "busy p=1 on=query table=Source", From: d.between(2*time.Second, 10*time.Second), UntilFailed: true})
	}
	if d.chance(0.15) {
		p.Blackout, p.Darkness, p.Cleared = d.between(time.Second, 20*time.Second), d.between(time.Second, 15*time.Minute), d.chance(0.5)
	}
	return p
}

func (d dice) accident() Accident {
	a := Accident{Kind: Crash, Host: d.chance(0.2), Request: d.number(5, 60), Applied: d.chance(0.5)}
	switch {
	case d.chance(0.4):
		a.Kind = Loss
	case d.chance(0.3):
		a.Kind = Silence
	}
	if a.Host {
		a.Request = d.number(1, 8)
		if a.Kind == Crash {
			a.Kind = Loss
		}
	}
	return a
}

// scan draws a scan. Each scan has a separate destination.
func (d dice) scan(i int, source []storage.Entity) PlannedScan {
	s := PlannedScan{Request: scans.Request{
		Name: fmt.Sprint(i), Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count},
		Strategy: strategy.Names[d.IntN(len(strategy.Names))], SegmentSize: d.number(2, 20),
	}}
	if n := len(source); n > 100 {
		s.Request.SegmentSize = max(s.Request.SegmentSize, n/12)
	}
	if d.chance(0.3) {
		s.Request.SegmentsPerInvocation = d.number(1, 5)
	}
	if d.chance(0.2) {
		return s
	}
	s.Request.Action = scans.Action{
		Type: scans.Copy, Mode: action.Modes[d.IntN(len(action.Modes))],
		Destination: &scans.TableRef{Table: fmt.Sprintf("Target%d", i)},
	}
	if d.chance(0.3) {
		s.Destination = d.taken(source)
	}
	return s
}

// faults draws a spec. Requests always take time, so they never happen at the same instant.
func (d dice) faults(calm bool) string {
	kinds := slices.DeleteFunc(fault.Kinds(), func(k fault.Kind) bool { return k == fault.Point })
	on := " on=" + fmt.Sprint(kinds[0])
	for _, k := range kinds[1:] {
		on += "," + string(k)
	}
	rules := []string{fmt.Sprintf("seed=%d", d.Uint32()), fmt.Sprintf("latency=1ms..%dms", d.number(5, 50)) + on}
	add := func(p float64, format string, args ...any) {
		if d.chance(p) {
			rules = append(rules, fmt.Sprintf(format, args...)+on)
		}
	}
	add(0.5, "short-page p=%.2f", 0.4*d.Float64())
	add(0.5, "empty-page p=%.2f", 0.3*d.Float64())
	add(0.5, "duplicate p=%.2f", 0.3*d.Float64())
	if !calm {
		add(0.4, "busy p=%.3f", 0.1*d.Float64())
		add(0.2, "busy p=%.3f retry-after=%ds", 0.1*d.Float64(), d.number(1, 5))
		for _, name := range []fault.Name{fault.TimeoutBefore, fault.TimeoutAfter, fault.ResetBefore, fault.ResetAfter, fault.HTML, fault.Empty, fault.Braces, fault.Half} {
			add(0.4, "%s p=%.3f", name, 0.06*d.Float64())
		}
		add(0.4, "delay p=%.2f by=%ds", 0.2*d.Float64(), d.number(1, 60))
		add(0.1, "account-rate=%d", d.number(30, 200))
		add(0.1, "partition-rate=%d", d.number(50, 500))
	}
	return strings.Join(rules, "; ")
}

// rows draws a table with no or few rows, one big partition, many small partitions, both, or partitions of various sizes.
func (d dice) rows() []storage.Entity {
	sizes := []int{}
	switch d.IntN(8) {
	case 0:
		sizes = slices.Repeat([]int{1}, d.number(0, 4))
	case 1:
		sizes = append(slices.Repeat([]int{1}, d.number(0, 5)), d.number(20, 150))
	case 2:
		sizes = slices.Repeat([]int{1}, d.number(20, 150))
	case 3:
		sizes = append(slices.Repeat([]int{1}, d.number(20, 150)), d.number(20, 150))
	default:
		for left := d.number(5, 60); left > 0; left -= sizes[len(sizes)-1] {
			sizes = append(sizes, min(left, d.number(1, d.number(1, 20))))
		}
	}
	d.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	name := d.names()
	var rows []storage.Entity
	for i, size := range sizes {
		pk := name(i)
		for r := range size {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: pk, Row: fmt.Sprintf("%04d", r)}, Properties: []storage.Property{
				storage.StringProperty("Name", fmt.Sprint("row ", r)), storage.Int64Property("Number", d.Int64()),
			}})
		}
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	return rows
}

// names draws a function that returns names of partitions. The partitions' numbers make the names distinct.
func (d dice) names() func(i int) string {
	switch d.IntN(4) {
	case 0: // close together
		return func(i int) string { return fmt.Sprintf("customer-%05d", i) }
	case 1: // far apart, with characters that need escaping
		return func(i int) string { return fmt.Sprintf("%c'%% +é%d", 'A'+d.IntN(26), i) }
	case 2: // beyond the basic multilingual plane, where the orders of UTF-8 and UTF-16 differ
		return func(i int) string {
			return fmt.Sprintf("%s%d", []string{"😀", "\ue000", "\uffee", "z"}[d.IntN(4)], i)
		}
	}
	return func(i int) string { return fmt.Sprintf("%08x-%d", d.Uint32(), i) }
}

// taken draws rows of the destination that have keys of the source. Their content is the same, different, or too large for a merge.
func (d dice) taken(source []storage.Entity) []storage.Entity {
	var rows []storage.Entity
	for _, row := range source {
		if !d.chance(0.1) {
			continue
		}
		switch d.IntN(3) {
		case 0:
			row.Properties = []storage.Property{storage.StringProperty("Name", "another")}
		case 1:
			row.Properties = nil
			for i := range maxProperties {
				row.Properties = append(row.Properties, storage.Int64Property(fmt.Sprint("P", i), 1))
			}
		}
		rows = append(rows, row)
	}
	return rows
}
