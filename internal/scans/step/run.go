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

// stepTime is the time limit of a step. It is shorter than functionTimeout in host.json.
const stepTime = 8 * time.Minute

// This file follows a message from top to bottom: Run → process → begin → do → commit → follow. step.go has the kinds
// of steps, giveup.go handles errors, and life/end.go ends scans.

// Steps runs the steps of scans.
type Steps struct {
	scans      *scans.Scans
	life       *life.Life
	ledger     *ledger.Ledger
	heartbeats *heartbeats
}

// New returns Steps for these scans.
func New(of *scans.Scans, lives *life.Life) *Steps {
	s := &Steps{scans: of, life: lives, ledger: of.Ledger}
	s.heartbeats = newHeartbeats(s.waits, s.ledger.With(storage.RequestOptions{Once: true}).WriteHeartbeat)
	return s
}

// Run handles one delivery of a message to one of the queue functions. The argument `delivery` is 1 for the first
// delivery. Run returns a line that reports what was done. [problem.FateOf] decides what an error means for the
// message. If the scan cannot continue, Run records its failure, and the message is done.
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

// step runs a message's step. The argument `working` is the context of the step's work, and must end before ctx. If
// this invocation must delete the step's rows after the step, the result `left` is the message of the deletion.
func (s *Steps) step(ctx, working context.Context, m scans.Message, delivery int) (report string, left *scans.Message, err error) {
	var counter storage.Counter
	s.heartbeats.begin(zerolog.Ctx(ctx), m.Scan, m.ID, &counter)
	again := true // stays true if the step panics
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

// process runs the message's step, commits it, and sends its children's messages. The argument `counter` counts the
// step's requests. The comment of [Steps.step] explains the results.
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
	// If another delivery has certainly committed the step, this delivery sends no messages. If both deliveries sent
	// messages, each descendant would also get two messages and run twice. If it is uncertain whether
	// another delivery has committed the step, this delivery sends its messages, because a message for a child without
	// a pending row is harmless.
	if result != overtaken {
		s.follow(ctx, m, out)
	}
	if result == committed {
		s.fold(ctx, m)
	}
	return reportOf(m, out, time.Since(start), result), out.deletion, nil
}

// stepResult describes what one commit records: a step's work, and the steps that it has created.
type stepResult struct {
	done     ledger.Done
	children []scans.Message // to be sent
	deletion *scans.Message  // the deletion that this invocation does, or nil

	differences []action.Failure // found by a comparison
}

// ahead estimates the work of the step's children, minus the work of the step itself.
func (out stepResult) ahead(m scans.Message) scan.Outlook {
	ahead := scan.Outlook{}.Minus(m.Ahead())
	for _, c := range out.children {
		ahead = ahead.Plus(c.Ahead())
	}
	return ahead
}

// begin reads the step's pending row. It returns the step as this row describes it, and reports
// whether the step is pending. It also notes this delivery in the row, except for the first
// delivery of the step's first message.
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
		return p, true, scans.Fatal(life.DiedOver(m.ID)) // the step has probably killed every process that has begun it, and would also kill this one
	}
	// If several deliveries run concurrently, only one of them is recorded.
	_, err = l.Begin(ctx, m.Scan, p)
	return p, true, err
}

// unrecorded reports whether this is the step's first delivery. The ledger does not record the beginning of the first
// delivery.
func unrecorded(p ledger.Pending, delivery int) bool {
	return delivery == 1 && p.Sends == 0 && p.Begun == 0 && !p.FirstEnded
}

// committedBefore handles the message of a step that was committed before. The process that committed the step may
// have died before it ended the scan. So after a repeated delivery, committedBefore ends the scan if no step is
// pending.
func (s *Steps) committedBefore(ctx context.Context, scan ledger.ScanID, delivery int) error {
	if delivery > 1 {
		if _, err := s.life.Finish(ctx, scan); err != nil {
			return err
		}
	}
	return problem.Stalef("", "an earlier delivery of the message has committed the step")
}

type commitResult int

const (
	committed      commitResult = iota
	maybeCommitted              // the step was not pending, perhaps because this commit's first try has committed it and the answer was lost
	overtaken                   // another delivery has committed the step
)

// commit makes one transaction. It records that the step is done, and that the step's children, and the step that deletes its rows, are pending.
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
		if err := c.Prepare(); err != nil {
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

// follow sends the children's messages. If a message cannot be sent, Maintain sends it later. If there are no
// children, follow notes that the scan may have ended.
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
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the message of a new step was not sent; the function Maintain will send it")
	}
}

// fold is called after each step, and folds done steps from time to time. If a fold fails, the next fold includes the
// same rows.
func (s *Steps) fold(ctx context.Context, m scans.Message) {
	if err := s.ledger.FoldAfter(ctx, m.Scan, m.ID, s.scans.Options.FoldEvery, scans.JoinNotes); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("the ledger's rows of done steps were not combined")
	}
}

func reportOf(m scans.Message, out stepResult, took time.Duration, result commitResult) string {
	done := out.done
	report := fmt.Sprintf("scan %s, step %s: read %d rows in %d queries, wrote %d, %d failed, sent %d messages; %d requests, throttled %d times; took %v",
		m.Scan, m.ID, done.Rows, done.Queries, done.Written, done.Failed, len(out.children), done.Transactions, done.Throttled, took.Round(time.Millisecond))
	if result != committed {
		report += "; another delivery has committed the step"
	}
	return report
}

// waitsForSlot returns nil if the step can begin, and otherwise an error that makes the caller drop the step's message.
// If a message arrives long before the step's slot, the message was sent before a retry, and a newer message will
// arrive in time. If earlier steps cost more than estimated, the scan may have exceeded its limits. In that case, the
// step takes a later slot, behind all slots that are taken.
func (s *Steps) waitsForSlot(ctx context.Context, limits *scans.Limits, scan ledger.ScanID, p ledger.Pending, delivery int) error {
	now, err := s.scans.Now(ctx)
	if err != nil {
		return err
	}
	wait := problem.Stalef("", "the scan's limits do not allow the step yet; the app will send a new message for the step as soon as the limits allow the step")
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

// waits adds the failing connections to b.Waiting, sorted by name.
func (s *Steps) waits(b *ledger.Heartbeat) {
	accounts := map[string]*storage.Account{storage.HostConnection: s.scans.Options.Own}
	maps.Copy(accounts, s.scans.Options.Accounts)
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		for _, o := range accounts[name].Outages() {
			b.Waiting = append(b.Waiting, ledger.Wait{Connection: name, Cause: o.Cause, Since: o.Since.UTC()})
		}
	}
}
