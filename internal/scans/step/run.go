package step

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// stepTime is a step's own deadline, below host.json's functionTimeout.
const stepTime = 8 * time.Minute

// This file is the way of a message, from top to bottom: Run → process → begin → do → commit →
// follow. step.go has the kinds of steps and what each does, giveup.go what happens to errors, and end.go in package life how a scan ends.

// Steps makes the steps of scans, each for a message.
type Steps struct {
	scans      *scans.Scans
	life       *life.Life
	ledger     *ledger.Ledger
	heartbeats *heartbeats
}

// New returns what makes steps.
func New(of *scans.Scans, lives *life.Life) *Steps {
	s := &Steps{scans: of, life: lives, ledger: of.Ledger}
	s.heartbeats = newHeartbeats(s.waits, s.ledger.With(storage.RequestOptions{Once: true}).WriteHeartbeat)
	return s
}

// Run handles one delivery of a message to one of the queue functions. delivery counts from 1. It returns a line that
// reports what was done. An error's fate is [problem.FateOf]. When the scan itself cannot continue, Run records that
// with the scan, and the message is done.
func (s *Steps) Run(ctx context.Context, body []byte, delivery int) (report string, err error) {
	if scan := scans.StartOf(body); scan != "" {
		return "", s.life.StartRequested(ctx, scan)
	}
	m, err := scans.ParseMessage(body)
	if err != nil {
		return "", err
	}
	zerolog.Ctx(ctx).UpdateContext(func(c zerolog.Context) zerolog.Context {
		return c.Str("scan", string(m.Scan)).Str("step", string(m.ID))
	})
	working, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	report, left, err := s.step(ctx, working, m, delivery)
	if left == nil {
		return report, err
	}
	deleted, _, err := s.step(ctx, working, *left, delivery)
	return strings.Trim(report+"; "+deleted, "; "), err
}

// step makes a message's step in the time that working has. If it leaves a deletion to this invocation, it returns that.
func (s *Steps) step(ctx, working context.Context, m scans.Message, delivery int) (report string, left *scans.Message, err error) {
	var counter storage.Counter
	s.heartbeats.take(zerolog.Ctx(ctx), m.Scan, m.ID, &counter)
	again := true // also if it panics
	defer func() {
		if s.heartbeats.release(m.ID, again && delivery < scans.MaxDeliveries) {
			s.life.EndIfDone(ctx, m.Scan)
		}
	}()
	err = task.Do(func() (err error) {
		report, left, err = s.process(working, m, delivery, &counter)
		return err
	})
	if fatal := fatalOf(err, delivery); fatal != nil {
		again = false
		report, err = s.failScan(ctx, m, fatal)
		return report, nil, err
	}
	again = problem.FateOf(err) == problem.Retry
	return report, left, err
}

// process makes the message's step, commits it, and sends its children's messages. It counts the step's requests. It
// returns what it leaves to this invocation, as step does.
func (s *Steps) process(ctx context.Context, m scans.Message, delivery int, counter *storage.Counter) (report string, left *scans.Message, err error) {
	start := time.Now()
	o, err := s.scans.Load(ctx, m.Scan)
	if err == nil {
		err = o.CheckRunning()
	}
	if err != nil {
		return "", nil, err
	}
	held, err := s.takeMemory(ctx, m.ID, o.Sizes)
	if err != nil {
		return "", nil, err
	}
	defer held.release()
	counted := storage.RequestOptions{Counter: counter}
	p, pending, err := s.begin(ctx, counted, o.Request.Limits, m, delivery)
	if err != nil {
		return "", nil, err
	}
	if !pending {
		if left = kindOf(m).absent(o.RunnableScan); left == nil {
			err = s.committedBefore(ctx, m.Scan, delivery)
		}
		return "", left, err
	}
	if m, err = kindOf(m).recorded(p); err != nil {
		return "", nil, err
	}
	defer func() { s.giveUp(ctx, m.Scan, p, delivery, err) }()
	asking := counted
	asking.MayProceed = func(ctx context.Context) error { return s.scans.MayProceed(ctx, m.Scan) }
	var out stepResult
	err = held.do(ctx, func(part *memory.Part) (err error) {
		asking.Memory = part
		out, err = kindOf(m).do(ctx, stepScanOf(o.RunnableScan, asking, held), s.ledger.With(counted), delivery)
		return err
	})
	if err == nil {
		err = s.listDifferences(ctx, m.Scan, &out)
	}
	if err != nil {
		return "", nil, err
	}
	out.done.Ahead, out.done.Attempt = out.ahead(m), o.Attempt
	out.done.Transactions, out.done.Throttled = counter.Requests()+1+int64(len(out.children)), counter.Throttled()
	if o.Request.Limits != nil {
		out.done.Transactions += scans.SlotRequests
	}
	if err := s.scans.TakeSlots(ctx, o.Request.Limits, m.Scan, kindOf(m).slots(), out.done.Totals, out.children); err != nil {
		return "", nil, err
	}
	result, err := s.commit(ctx, m, out)
	if err == nil && result != committed {
		err = kindOf(m).overtaken(ctx, s.ledger, &out)
	}
	if err != nil {
		return "", nil, err
	}
	// Of two deliveries at once, only the one that committed the step sends messages: else each step below it would be
	// done twice, too. A message for a child that does not exist does no harm: no pending row is found for it.
	if result != overtaken {
		s.follow(ctx, m, out)
	}
	if result == committed {
		s.fold(ctx, m)
	}
	return reportOf(m, out, time.Since(start), result), out.deletion, nil
}

// stepResult is what a step has done, and what it leaves. One commit records both.
type stepResult struct {
	done     ledger.Done
	children []scans.Message // whose messages are sent
	deletion *scans.Message  // which is left to the same invocation; nil if there is none

	differences []action.Failure // that a comparison has found
}

// ahead estimates the work that the step leaves, less that of the step itself.
func (out stepResult) ahead(m scans.Message) scan.Outlook {
	ahead := scan.Outlook{}.Minus(m.Ahead())
	for _, c := range out.children {
		ahead = ahead.Plus(c.Ahead())
	}
	return ahead
}

// newWork reads the step's pending row. If a delivery or message before this one may have begun the
// step, it records one more beginning. It returns the step as it was before, and whether it is pending.
func (s *Steps) begin(ctx context.Context, o storage.RequestOptions, limits *scans.Limits, m scans.Message, delivery int) (p ledger.Pending, pending bool, err error) {
	if p, ok := kindOf(m).justCommitted(); ok {
		return p, true, nil
	}
	l := s.ledger.With(o)
	p, pending, err = l.Pending(ctx, m.Scan, m.ID)
	if err == nil && pending && !p.After.IsZero() {
		err = s.waitsForSlot(ctx, limits, m.Scan, p, delivery)
	}
	if err != nil || !pending || unrecorded(p, delivery) {
		return p, pending, err
	}
	if p.Deaths() >= scans.MaxDeliveries {
		return p, true, scans.Fatal(life.DiedOver(m.ID)) // it would go on ending processes
	}
	// If another delivery was faster, that one is counted and this one is not.
	_, err = l.Begin(ctx, m.Scan, p)
	return p, true, err
}

// unrecorded reports whether a delivery is the step's first one, of whose beginning the ledger has no record.
func unrecorded(p ledger.Pending, delivery int) bool {
	return delivery == 1 && p.Sends == 0 && p.Begun == 0 && !p.FirstEnded
}

// committedBefore handles the message of a step that was committed before. On a repeated delivery the process
// may have died between the commit and the scan's end: it notices that end now.
func (s *Steps) committedBefore(ctx context.Context, scan ledger.ScanID, delivery int) error {
	if delivery > 1 {
		if _, err := s.life.Finish(ctx, scan); err != nil {
			return err
		}
	}
	return problem.Stalef("", "the step was committed by an earlier delivery")
}

// commitResult is what became of a step's commit.
type commitResult int

const (
	committed      commitResult = iota
	maybeCommitted              // the step was not pending any more; a first try of the commit may have recorded it, and lost its answer
	overtaken                   // another delivery has committed the step
)

// commit records a step's outcome in one transaction: the step is done, and what it leaves is pending.
func (s *Steps) commit(ctx context.Context, m scans.Message, out stepResult) (commitResult, error) {
	var left []*scans.Message
	for i := range out.children {
		left = append(left, &out.children[i])
	}
	if out.deletion != nil {
		left = append(left, out.deletion)
	}
	var pending []ledger.Pending
	for _, c := range left {
		if err := c.Seal(); err != nil {
			return overtaken, err
		}
		pending = append(pending, c.Pending())
	}
	var sent storage.Counter
	ours, err := s.ledger.With(storage.RequestOptions{Counter: &sent}).Commit(ctx, m.Scan, m.ID, s.scans.Options.Now(), out.done, pending)
	switch {
	case ours:
		return committed, err
	case sent.Requests() > 1:
		return maybeCommitted, err
	}
	return overtaken, err
}

// follow sends the children's messages. If a step leaves nothing, the scan may have ended. Maintain sends what
// follow cannot: the step is committed, and must not be repeated.
func (s *Steps) follow(ctx context.Context, m scans.Message, out stepResult) {
	if len(out.children) == 0 && out.deletion == nil {
		s.heartbeats.childless(m.ID)
		return
	}
	var g task.Group
	for _, c := range out.children {
		g.Go(func() error { return s.scans.Send(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a child's message was not sent; Maintain will send it")
	}
}

// fold folds done steps of the scan now and then. If that fails, the next fold takes their rows.
func (s *Steps) fold(ctx context.Context, m scans.Message) {
	if err := s.ledger.FoldAfter(ctx, m.Scan, m.ID, s.scans.Options.FoldEvery, scans.JoinNotes); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("done steps not folded")
	}
}

func reportOf(m scans.Message, out stepResult, took time.Duration, result commitResult) string {
	done := out.done
	report := fmt.Sprintf("scan %s, step %s: read %d rows in %d queries, wrote %d, %d failed, sent %d messages; %d requests, throttled %d times; took %v",
		m.Scan, m.ID, done.Rows, done.Queries, done.Written, done.Failed, len(out.children), done.Transactions, done.Throttled, took.Round(time.Millisecond))
	if result != committed {
		report += "; another delivery had committed it"
	}
	return report
}

// waitsForSlot returns an error that drops the message of a step that can't begin yet: of long before its slot, since it is left from
// before a retry, and another one comes at the slot; or of a scan that has used more than its limits allow, since the steps before it
// cost more than was foreseen. Then the step takes another slot, behind all others.
func (s *Steps) waitsForSlot(ctx context.Context, limits *scans.Limits, scan ledger.ScanID, p ledger.Pending, delivery int) error {
	now, err := s.scans.Now(ctx)
	if err != nil {
		return err
	}
	wait := problem.Stalef("", "the scan's limits do not allow for the step yet; another message comes when they do")
	if p.After.Sub(now) > scans.SlotEarly {
		return wait
	}
	if !unrecorded(p, delivery) {
		return nil
	}
	u, err := s.ledger.Used(ctx, scan.GroupOrSelf())
	if err != nil || u.Next.Sub(now) <= scans.SlotEarly {
		return err
	}
	again := make([]scans.Message, 1)
	if err := s.scans.TakeSlots(ctx, limits, scan, 1, ledger.Totals{}, again); err != nil {
		return err
	}
	if err := s.scans.SendAt(ctx, scan, p, again[0].After); err != nil {
		return err
	}
	return wait
}

// waits adds to a heartbeat the app's connections that give no good answer, in their order.
func (s *Steps) waits(b *ledger.Heartbeat) {
	accounts := map[string]*storage.Account{storage.HostConnection: s.scans.Options.Own}
	maps.Copy(accounts, s.scans.Options.Accounts)
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		for _, o := range accounts[name].Outages() {
			b.Waiting = append(b.Waiting, ledger.Wait{Connection: name, Cause: o.Cause, Since: o.Since.UTC()})
		}
	}
}
