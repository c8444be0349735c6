package life

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// A group's tables are chosen once, when it starts. To begin a member, a process records the member in the group's row,
// and sends a message that starts the member's scan. When a member ends, the next one begins. When all members have
// ended, a process ends the group. If a crash interrupts this work, Maintain completes it.

const (
	openMembers  = 8
	namedMembers = 10 // a group's error names at most this number of members
)

// advanceGroup begins members until openMembers members are open. If a member's start message was sent but its scan has not
// started, advanceGroup sends the message again. After the last member's end, it ends the group. Several processes may call
// it at the same time. The argument `ended` is the number of a member that may have ended, and advanceGroup checks only
// this member. If the number is 0, advanceGroup checks all open members.
func (l *Life) advanceGroup(ctx context.Context, id ledger.ScanID, ended int) error {
	var start []int
	for {
		s, err := l.scans.Load(ctx, id)
		if err != nil || s.State != ledger.Running {
			return err
		}
		g, err := l.ledger.Group(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return l.endLost(ctx, id)
		}
		if err != nil {
			return err
		}
		was := len(g.Open)
		g.Open = slices.DeleteFunc(g.Open, func(n int) bool {
			if err != nil || ended != 0 && n != ended {
				return false
			}
			var is memberState
			if is, err = l.memberState(ctx, s, id.Member(n)); is == memberWaits {
				start = append(start, n)
			}
			return is == memberOver
		})
		if err != nil {
			return err
		}
		changed := was != len(g.Open)
		for next, more := g.Next(s.Members); more && len(g.Open) < openMembers; next, more = g.Next(s.Members) {
			g.Begun, g.Open, start, changed = g.Begun+1, append(g.Open, next), append(start, next), true
		}
		if changed {
			if mine, err := l.ledger.ChangeGroup(ctx, g); err != nil {
				return err
			} else if !mine {
				continue // another process has changed the group, or this process has, but the answer was lost; the next round sends the messages
			}
		}
		for _, n := range g.Open {
			if slices.Contains(start, n) {
				l.scans.SendStart(ctx, id.Member(n))
			}
		}
		if len(g.Open) == 0 {
			return l.endGroup(ctx, id, s.RunnableScan)
		}
		return nil
	}
}

// groupLost is the error of a group whose row is missing. A running group fails with this error, and the retry of an
// ended group returns this error.
const groupLost = ledger.RowsLost + "the group's row, which names the tables; somebody has deleted the row. Start a new scan"

func (l *Life) endLost(ctx context.Context, id ledger.ScanID) error {
	_, err := l.end(ctx, id, ledger.Ending{State: ledger.Failed, Error: groupLost})
	if errors.Is(err, ledger.ErrNotFound) { // the group was removed
		return nil
	}
	return err
}

// memberState is the state of a begun member.
type memberState int

const (
	memberWaits   memberState = iota // not yet started
	memberStarted                    // running, or not yet listed as ended
	memberOver
)

// memberState returns the state of a begun member. If the group's current attempt must still retry the member, the member
// waits. Otherwise, a member is over once the group's list shows the member as ended. If somebody has deleted the member's
// row in the list, the member is over once its scan has ended. In that case, the group fails when it ends, and its error
// reports the lost row.
func (l *Life) memberState(ctx context.Context, group *scans.Loaded, id ledger.ScanID) (memberState, error) {
	m, listed, err := l.ledger.Member(ctx, id)
	switch {
	case err != nil || m.Summarized && endedBefore(group, m.Scan):
		return memberWaits, err
	case m.Summarized:
		return memberOver, nil
	}
	s, err := l.ledger.Scan(ctx, id)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return memberWaits, nil
	case err != nil || endedBefore(group, s):
		return memberWaits, err
	case s.State == ledger.Running:
		return memberStarted, nil
	}
	is := memberStarted
	if !listed {
		is = memberOver
	}
	return is, l.ledger.MoveToEnded(ctx, ledger.OpenScan{ID: id, Attempt: s.Attempt})
}

// endedBefore reports whether a member ended without success before the group's current attempt. If so, the group's
// current attempt retries the member.
func endedBefore(group *scans.Loaded, m ledger.Scan) bool {
	return m.State != ledger.Running && m.State != ledger.Succeeded && !m.LeftOut && m.Finished.Before(group.Resumed)
}

// startMember starts or retries a member that the group has begun. If the start is refused, the member counts as
// failed, and the group continues.
func (l *Life) startMember(ctx context.Context, group ledger.ScanID, n int) error {
	s, err := l.scans.Load(ctx, group)
	if err != nil || s.State != ledger.Running {
		return err
	}
	g, err := l.ledger.Group(ctx, group)
	if errors.Is(err, ledger.ErrNotFound) {
		return l.endLost(ctx, group)
	}
	if err != nil || !slices.Contains(g.Open, n) {
		return err
	}
	var tables []string
	if err := json.Unmarshal(g.Tables, &tables); err != nil {
		return fmt.Errorf("the list of tables of group %s cannot be read: %w", group, err)
	}
	if n > len(tables) {
		return fmt.Errorf("group %s has no table %d: its list ends with table %d", group, n, len(tables))
	}
	id := group.Member(n)
	r := s.Request.Member(tables[n-1])
	switch m, scanErr := l.ledger.Scan(ctx, id); {
	case errors.Is(scanErr, ledger.ErrNotFound):
		err = l.startNow(ctx, id, r, nil)
	case scanErr != nil:
		return scanErr
	case endedBefore(s, m):
		err = l.retryMember(ctx, id)
	default:
		return l.advanceGroup(ctx, group, n) // the member may have ended
	}
	as := ledger.Ending{State: ledger.Failed, LeftOut: LeavesOut(id, r, err)}
	switch {
	case err == nil || problem.Of(err).Kind == problem.Stale:
		return nil
	case !as.LeftOut && !refused(err, g.Age):
		return fmt.Errorf("start scan %s of table %s: %w", id, tables[n-1], err)
	}
	level := zerolog.ErrorLevel
	if as.LeftOut { // the group continues without the table, and says so in its note
		level = zerolog.InfoLevel
	}
	zerolog.Ctx(ctx).WithLevel(level).Err(err).Str("scan", string(id)).Str("table", tables[n-1]).Msg("a scan of the group was refused")
	now, nowErr := l.scans.Now(ctx)
	if nowErr != nil {
		return nowErr
	}
	as.Error = scans.Shortened(err.Error())
	if err := l.ledger.RefuseMember(ctx, id, scans.JSON(r), now, as); err != nil {
		return err
	}
	return l.advanceGroup(ctx, group, n)
}

// endGroup ends a group whose members have all ended. It fails the group if a member has failed, if all members are left
// out, or if the group's list has lost rows. Otherwise, it completes the group's work before it ends the group.
func (l *Life) endGroup(ctx context.Context, id ledger.ScanID, o *scans.RunnableScan) error {
	s, err := l.ledger.Scan(ctx, id)
	if err != nil {
		return err
	}
	m := ledger.Members{All: s.Members}
	var names, failed, reasons []string
	var out, gone []ledger.Scan // members that are left out, and verifications whose source table is gone
	_, err = l.ledger.Recent(ctx, ledger.ListQuery{Group: id, Page: storage.PageRows}, func(of ledger.Listed) bool {
		m.Add(of.Scan)
		r, err := scans.RequestOf(of.Scan)
		name := cmp.Or(r.Source.Table, path.Base(r.Source.Prefix))
		switch {
		case err == nil && of.LeftOut:
			out = append(out, of.Scan)
		case err == nil && of.State == ledger.Succeeded:
			if names = append(names, name); of.NoTable > 0 {
				gone = append(gone, of.Scan)
			}
		case len(reasons) < namedMembers:
			failed, reasons = append(failed, name), append(reasons, name+": "+cmp.Or(of.Error, string(of.State)))
		}
		return true
	})
	if err != nil || m.Running > 0 { // a member that was retried alone still runs; when it ends, endGroup is called again
		return err
	}
	as := ledger.Ending{State: ledger.Succeeded, NoTable: int64(len(gone))}
	why := "left out, because somebody has deleted them since the scan began"
	if o.Container == nil {
		why = "left out, because this app or its host uses them for itself"
	}
	as.Note = noteOf(why, out) + noteOf("the source no longer has these tables", gone)
	if lost := m.All - m.Ended() - m.Running; lost > 0 { // each member is listed before it ends, so the list has lost rows
		as.State, as.Error = ledger.Failed, fmt.Sprintf("%s%s of the group's list of tables; somebody has deleted them. Start a new scan", ledger.RowsLost, problem.Plural(lost, "row"))
	} else if bad := m.All - m.Succeeded - m.LeftOut; bad > 0 {
		as.State, as.Error = ledger.Failed, scans.Shortened(fmt.Sprintf("%d of %d tables failed: %s. %s", bad, m.All, strings.Join(failed, ", "), strings.Join(reasons, "; ")))
	} else if len(names) == 0 {
		as.State, as.Error = ledger.Failed, "the group has no table left"
	} else if err := l.complete(ctx, id, o, names, out); storage.Passing(err) || ctx.Err() != nil {
		return err
	} else if err != nil {
		as.State, as.Error = ledger.Failed, scans.Shortened(err.Error())
	}
	if as.State == ledger.Succeeded {
		if err := l.requestVerification(ctx, s); err != nil {
			return err
		}
	}
	_, err = l.end(ctx, id, as)
	return err
}

// complete completes a group whose members have all succeeded or are left out. For an export of many tables, it
// completes the export. For the verification of such an export, it reads the export's manifest, as a restore does.
func (l *Life) complete(ctx context.Context, id ledger.ScanID, o *scans.RunnableScan, names []string, out []ledger.Scan) error {
	switch r := o.Request; {
	case o.Container != nil:
		err := l.exports.withdraw(ctx, out)
		if err == nil {
			err = place.SealTables(ctx, o.Container, place.ExportID(id), names)
		}
		if err == nil || storage.Passing(err) {
			return err
		}
		return errors.New(incomplete(err))
	case r.Action.Proof:
		_, from, err := l.scans.Blobs("action.destination", *r.Action.Destination)
		if err == nil {
			_, err = place.OpenTables(ctx, from)
		}
		return err
	}
	return nil
}

// cancelMembers cancels the open members of a canceled group. Their steps have already stopped, because a member counts
// as running only while its group is running. If cancelMembers fails, Maintain cancels the members.
func (l *Life) cancelMembers(ctx context.Context, id ledger.ScanID) {
	g, err := l.ledger.Group(ctx, id)
	for _, n := range g.Open {
		_, endErr := l.end(ctx, id.Member(n), ledger.Ending{State: ledger.Canceled})
		err = cmp.Or(err, endErr)
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(id)).Msg("some scans of the group were not canceled; the function Maintain will cancel them")
	}
}

// retryGroup begins the next attempt of a group. The attempt runs all members that have not succeeded.
func (l *Life) retryGroup(ctx context.Context, s ledger.Scan) error {
	succeeded, latest := map[int]bool{}, s.Finished
	_, err := l.ledger.Recent(ctx, ledger.ListQuery{Group: s.ID, Page: storage.PageRows}, func(m ledger.Listed) bool {
		_, n, _ := m.ID.InGroup()
		succeeded[n] = m.State == ledger.Succeeded || m.LeftOut
		if m.Finished.After(latest) {
			latest = m.Finished
		}
		return true
	})
	if err != nil {
		return err
	}
	var todo []int
	for n := range int(s.Members) {
		if !succeeded[n+1] {
			todo = append(todo, n+1)
		}
	}
	now, err := l.scans.Now(ctx)
	if wait := latest.Sub(now); err == nil && wait >= 0 { // the new attempt must begin after the last member's end; clocks may differ by a second
		task.Sleep(ctx, min(wait, time.Second)+time.Millisecond)
		now, err = l.scans.Now(ctx)
	}
	if err == nil {
		err = l.ledger.RestartGroup(ctx, s, now, todo)
	}
	if err != nil {
		return status.NotFound(s.ID, err)
	}
	if err := l.advanceGroup(ctx, s.ID, 0); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", string(s.ID)).Msg("some scans of the group were not started; the function Maintain will start them")
	}
	return nil
}

// retryMember retries a member, including its failed rows.
func (l *Life) retryMember(ctx context.Context, id ledger.ScanID) error {
	found, err := l.ledger.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	return l.retry(ctx, id, found.Sums.Failed > 0, 0)
}
