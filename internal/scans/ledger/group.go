package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A group is a scan of many tables. It has no steps. For each table, it has a member, which is a scan. The members are
// in a list with the keys "m|GROUP|NUMBER", in the partition of the lists. NUMBER has five digits, and is the end of
// the member's id. The group's own partition has one more row:
//
//	g    the members to run in this attempt (Todo; all if absent), how many of these were begun (Begun),
//	     and which of the begun members are not known to have ended (Open); the tables (see data.go)
const (
	memberPrefix = "m|"
	groupRow     = "g"
)

// listRow returns a scan's key in the list of all scans, or a member's key in the list of its group.
func listRow(id ScanID) string {
	if group, _, ok := id.InGroup(); ok {
		return memberPrefix + string(group) + "|" + string(id[len(group)+1:])
	}
	return allPrefix + string(id)
}

// Members counts a group's members by state. For other scans, it is zero.
type Members struct {
	All       int64 `json:"all"`
	Waiting   int64 `json:"waiting"` // not begun; set only in a status
	Running   int64 `json:"running"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
	LeftOut   int64 `json:"leftOut"` // members whose tables are gone; the export is complete without them
}

func (m *Members) counts() []count {
	return []count{
		{"Members", &m.All, true}, {"MembersSucceeded", &m.Succeeded, true}, {"MembersFailed", &m.Failed, true},
		{"MembersCanceled", &m.Canceled, true}, {"MembersLeftOut", &m.LeftOut, true}, {"MembersRunning", &m.Running, true},
	}
}

// Ended returns the number of ended members.
func (m Members) Ended() int64 { return m.Succeeded + m.Failed + m.Canceled + m.LeftOut }

// Add counts a member.
func (m *Members) Add(s Scan) {
	switch {
	case s.LeftOut:
		m.LeftOut++
	case s.State == Succeeded:
		m.Succeeded++
	case s.State == Failed:
		m.Failed++
	case s.State == Canceled:
		m.Canceled++
	default:
		m.Running++
	}
}

// Group is the progress of a group's attempt.
type Group struct {
	ID     ScanID
	Tables []byte        // the tables of all members; opaque
	Begun  int           // number of members that the attempt has begun
	Open   []int         // members that the attempt has begun and that are not known to have ended
	Age    time.Duration // time since the row's last change, by the service's clock

	todo []int // members of the attempt; nil means all
	etag string
}

// Next returns the number of the member that the attempt begins next, or reports false if none is left. Members are
// numbered from 1 to `size`.
func (g Group) Next(size int64) (int, bool) {
	switch {
	case g.todo == nil:
		return g.Begun + 1, g.Begun < int(size)
	case g.Begun < len(g.todo):
		return g.todo[g.Begun], true
	}
	return 0, false
}

// CreateGroup records a group. Like [Ledger.Create], it inserts rows and never replaces any.
func (l *Ledger) CreateGroup(ctx context.Context, id ScanID, now time.Time, request, tables []byte, members int) error {
	s := Scan{ID: id, Attempt: 1, Started: now, Request: request, Members: int64(members)}
	return l.create(ctx, s, op(storage.Insert, id, groupRow, append(dataProperties(tables), storage.Int64Property("Begun", 0))...))
}

// RestartGroup is [Ledger.Restart] for a group. The new attempt runs the members in `todo`.
func (l *Ledger) RestartGroup(ctx context.Context, s Scan, now time.Time, todo []int) error {
	begun := int64(0)
	if len(todo) == 0 {
		begun = s.Members
	}
	return l.restart(ctx, s, now, op(storage.Merge, s.ID, groupRow,
		storage.StringProperty("Todo", joinNumbers(todo)), storage.Int64Property("Begun", begun), storage.StringProperty("Open", "")))
}

// Group reads a group's progress.
func (l *Ledger) Group(ctx context.Context, id ScanID) (Group, error) {
	row := &key.Bound{Key: groupRow}
	for p, err := range l.pages(ctx, "read group "+string(id), storage.Query{Range: key.Range{Partition: id.partition(), Low: row, High: row}}) {
		if err != nil {
			return Group{}, err
		}
		if len(p.Rows) > 0 { // a page may be empty
			e := p.Rows[0].Entity()
			g := Group{ID: id, Tables: dataOf(e), Begun: int(e.Int("Begun")), Open: numbers(e.Get("Open")), Age: p.Date.Sub(e.Timestamp), etag: e.ETag}
			if todo := e.Get("Todo"); todo != "" {
				g.todo = numbers(todo)
			}
			return g, nil
		}
	}
	return Group{}, fmt.Errorf("group %s: %w", id, ErrNotFound)
}

// ChangeGroup records a group's progress, or reports false if another process has changed it since g was read.
func (l *Ledger) ChangeGroup(ctx context.Context, g Group) (bool, error) {
	row := op(storage.Merge, g.ID, groupRow, storage.Int64Property("Begun", int64(g.Begun)), storage.StringProperty("Open", joinNumbers(g.Open)))
	row.IfMatch = g.etag
	err := l.write(ctx, "change group "+string(g.ID), row)
	return err == nil, unlessOvertaken(err)
}

func joinNumbers(all []int) string {
	var text []string
	for _, n := range all {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ",")
}

func numbers(text string) (all []int) {
	for part := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(part); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// Member reads a member's row in its group's list, or reports false if the member has not begun.
func (l *Ledger) Member(ctx context.Context, id ScanID) (Listed, bool, error) {
	e, found, err := l.get(ctx, "read member "+string(id), scansPartition, listRow(id))
	if err != nil || !found {
		return Listed{}, false, err
	}
	return listedOf(e), true, nil
}

// RefuseMember records in the group's list that a member cannot start and has ended. If another process starts the
// member during this call, RefuseMember changes nothing.
func (l *Ledger) RefuseMember(ctx context.Context, id ScanID, request []byte, now time.Time, as Ending) error {
	e, found, err := l.get(ctx, "read member "+string(id), scansPartition, listRow(id))
	if err != nil {
		return err
	}
	s := Scan{ID: id, State: as.State, Attempt: max(1, e.Int("Attempt")), Request: request, Started: now, Finished: now, Error: as.Error, LeftOut: as.LeftOut}
	row := endedRow(Listed{Scan: s}, true, e.ETag)
	if !found {
		row.Kind = storage.Insert
	}
	err = l.write(ctx, "refuse member "+string(id), row)
	if storage.Conflict(err) {
		return nil
	}
	return unlessOvertaken(err)
}

// sum adds the figures of a group's members to the group's snapshot. If the group leaves out a member (see [Ending]),
// sum adds the numbers of the member's steps and requests, but not the member's other figures.
func (l *Ledger) sum(ctx context.Context, group *Snapshot) error {
	m := &group.Members
	m.All = group.Scan.Members
	var open []ScanID
	_, err := l.Recent(ctx, ListQuery{Group: group.Scan.ID, Page: storage.PageRows}, func(s Listed) bool {
		m.Add(s.Scan)
		if s.LeftOut {
			s.Totals, s.Pending = Totals{Steps: s.Totals.Steps, Queries: s.Totals.Queries, Transactions: s.Totals.Transactions, Throttled: s.Totals.Throttled}, 0
		}
		if s.Summarized {
			group.Sums.add(Sums{Totals: s.Totals, children: s.Totals.Steps + s.Pending, Last: s.Finished})
		} else {
			open = append(open, s.ID)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range open {
		found, err := l.snapshot(ctx, id, false)
		if err == nil {
			group.Sums.add(found.Sums)
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
