package status

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// listPages is the maximum number of pages that a filtered list reads.
	listPages = 5
	// listScans is the maximum number of scans that a list reads concurrently.
	listScans = 8
	// maxOpen is the maximum number of open scans that a filtered list reads in total.
	maxOpen = 100
)

var states = []ledger.State{ledger.Running, ledger.Succeeded, ledger.Failed, ledger.Canceled}

// ListQuery selects a page of the list of scans. An empty filter matches every scan.
type ListQuery struct {
	Top    int
	Cursor string // from an earlier answer; "" for the first page
	State  ledger.State
	Action string
	Table  string    // the source's or destination's name; case is ignored
	Name   string    // a part of the name; case is ignored
	Since  time.Time // the earliest start
}

// ScanList is a page of the list of scans.
type ScanList struct {
	Scans  []Status `json:"scans"`
	Cursor string   `json:"cursor,omitempty"`
}

// check refuses filters that no scan can match. Its errors are [problem.Invalid].
func (q ListQuery) check() error {
	var errs []error
	if q.State != "" && !slices.Contains(states, q.State) {
		errs = append(errs, problem.Invalidf("state", `%s is unknown; use "running", "succeeded", "failed" or "canceled"`, secret.Name(string(q.State))))
	}
	if q.Action != "" && !slices.Contains(scans.ActionTypes, q.Action) {
		errs = append(errs, problem.Invalidf("action", "%s is unknown; use one of %s", secret.Name(q.Action), strings.Join(scans.ActionTypes, ", ")))
	}
	if q.Table != "" {
		if err := storage.CheckTableName(q.Table); err != nil {
			errs = append(errs, problem.Invalidf("table", "%v", err))
		}
	}
	return errors.Join(errs...)
}

func (q ListQuery) filtered() bool {
	return q.State != "" || q.Action != "" || q.Table != "" || q.Name != ""
}

func (q ListQuery) matches(s Status) bool {
	tables := []string{s.Source.Table}
	if d := s.Action.Destination; d != nil {
		tables = append(tables, d.Table)
	}
	return (q.State == "" || s.State == q.State) && (q.Action == "" || s.Action.Type == q.Action) &&
		(q.Table == "" || s.TakesTable(q.Table) || slices.ContainsFunc(tables, func(t string) bool { return strings.EqualFold(t, q.Table) })) &&
		strings.Contains(strings.ToLower(s.Name), strings.ToLower(q.Name)) && !s.StartedAt.Before(q.Since)
}

// List returns a page of the list of scans. The scans that may be open come first, and then the others. Each of these
// two parts begins with its newest scan. The list itself costs two requests for the first page, and one for a later
// page. Each scan that is open or may have running steps costs one more request. Each copy whose verification is not on
// the page also costs one more request, or two if the verification has not started. If a scan on the page may have
// running steps, one more request reads the heartbeats of all processes. A page of a filtered list may have few or no
// scans even if more pages follow.
func (rd *Reader) List(ctx context.Context, q ListQuery) (ScanList, error) {
	if err := q.check(); err != nil {
		return ScanList{}, err
	}
	at, err := parseListCursor(q.Cursor, "")
	if err != nil {
		return ScanList{}, err
	}
	l := rd.lister(ctx, q)
	if at.open && (q.State == "" || q.State == ledger.Running) {
		if err := l.readOpen(ctx, at.previous); err != nil || l.list.Cursor != "" {
			return l.list, err
		}
		at.previous = ""
	}
	if q.State == ledger.Running { // all running scans are open
		return l.list, nil
	}
	return l.list, l.readAll(ctx, at.previous)
}

// lister makes one page of the list.
type lister struct {
	ListQuery
	reader *Reader
	list   ScanList
	open   map[ledger.ScanID]bool // listed as open
	// verified contains the verifications that were read from the list. The map's keys are the ids of the copies. In
	// the list, a verification comes after the copy that it verifies.
	verified   map[ledger.ScanID]Verification
	heartbeats func() ([]ledger.Heartbeat, error)
}

func (rd *Reader) lister(ctx context.Context, q ListQuery) *lister {
	heartbeats := sync.OnceValues(func() ([]ledger.Heartbeat, error) { return rd.ledger.Heartbeats(ctx) })
	return &lister{reader: rd, ListQuery: q, list: ScanList{Scans: []Status{}}, heartbeats: heartbeats, verified: map[ledger.ScanID]Verification{}}
}

// readOpen fills the page with scans from the list of open scans. It begins after the scan `previous`.
func (l *lister) readOpen(ctx context.Context, previous ledger.ScanID) error {
	open, err := l.reader.ledger.Open(ctx)
	if err != nil {
		return err
	}
	l.open = map[ledger.ScanID]bool{}
	var scans []ledger.Listed
	for _, o := range open {
		if o.ID.IsMember() {
			continue
		}
		if oldest := ledger.ScanID(key.Inverted(l.Since) + "~"); o.ID <= previous || l.open[o.ID] || !l.Since.IsZero() && o.ID > oldest {
			continue
		}
		l.open[o.ID] = true
		scans = append(scans, ledger.Listed{Scan: ledger.Scan{ID: o.ID}})
	}
	for read := 0; len(scans) > 0; {
		if len(l.list.Scans) == l.Top || l.filtered() && read >= maxOpen {
			l.list.Cursor = listCursor{open: true, previous: previous}.text()
			return nil
		}
		n := min(len(scans), l.Top-len(l.list.Scans))
		if err := l.add(ctx, scans[:n]); err != nil {
			return err
		}
		previous, read, scans = scans[n-1].ID, read+n, scans[n:]
	}
	if len(l.list.Scans) == l.Top {
		l.list.Cursor = listCursor{}.text()
	}
	return nil
}

// readAll fills the page with scans from the list of all scans. It begins after the scan `previous`.
func (l *lister) readAll(ctx context.Context, previous ledger.ScanID) error {
	first := l.open != nil
	q := ledger.ListQuery{Behind: previous, Since: l.Since, Page: l.Top, Pages: listPages}
	if l.filtered() {
		q.Page = storage.PageRows
	}
	var found []ledger.Listed
	last := previous
	end, err := l.reader.ledger.Recent(ctx, q, func(s ledger.Listed) bool {
		last = s.ID
		if copied, is := s.ID.Verifies(); is {
			l.verified[copied] = Verification{s.ID, cmp.Or(s.State, ledger.Running), s.Error}
		}
		switch {
		case s.Summarized:
			if st, err := l.reader.summarized(s); err == nil && l.matches(st) {
				found = append(found, s)
			}
		case first && !l.open[s.ID]: // the scan began after the open scans were read
			found = append(found, s)
		}
		return len(l.list.Scans)+len(found) < l.Top
	})
	if err != nil {
		return err
	}
	if err := l.add(ctx, found); err != nil {
		return err
	}
	if !end {
		l.list.Cursor = listCursor{previous: last}.text()
	}
	return nil
}

func (l *lister) add(ctx context.Context, scans []ledger.Listed) error {
	all := make([]Status, len(scans))
	g, ctx := task.WithContext(ctx)
	g.SetLimit(listScans)
	for i := range scans {
		g.Go(func() error {
			var err error
			if all[i], err = l.listed(ctx, scans[i]); errors.Is(err, ledger.ErrNotFound) {
				return nil // the scan is being created, or its start failed
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, s := range all {
		if s.ID != "" && l.matches(s) {
			l.list.Scans = append(l.list.Scans, s)
		}
	}
	return nil
}

// listed returns the status of a scan in the list. It reads the scan if the list has no final figures. If the list's
// page ends between a copy and its verification, listed also reads the verification.
func (l *lister) listed(ctx context.Context, s ledger.Listed) (st Status, err error) {
	if s.Summarized && !s.Unsettled {
		st, err = l.reader.summarized(s)
	} else {
		st, err = l.reader.status(ctx, s.ID, l.heartbeats)
	}
	if v, seen := l.verified[s.ID]; seen {
		st.Verification = &v
	} else if err == nil {
		err = l.reader.addVerification(ctx, &st)
	}
	return st, err
}

func (rd *Reader) summarized(s ledger.Listed) (Status, error) {
	r, err := scans.RequestOf(s.Scan)
	st := rd.summaryOf(s.Scan, r, s.Totals, s.Pending, s.Finished)
	st.Members = membersOf(s.Members)
	return st, err
}

// listCursor is the position at which a page begins: after the scan `previous`, in the list of open scans or in the
// list of all scans.
type listCursor struct {
	open     bool
	previous ledger.ScanID
}

func (c listCursor) text() string {
	list := "a"
	if c.open {
		list = "o"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(list + string(c.previous)))
}

// parseListCursor reads the cursor of a list of a group's members, or of all scans if group is "".
func parseListCursor(cursor string, group ledger.ScanID) (listCursor, error) {
	if cursor == "" {
		return listCursor{open: true}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	after, open := strings.CutPrefix(string(text), "o")
	after, all := strings.CutPrefix(after, "a")
	previous := ledger.ScanID(after)
	in, _, _ := previous.InGroup()
	if err != nil || open == all || previous != "" && (!previous.Valid() || in != group) {
		return listCursor{}, foreignCursor()
	}
	return listCursor{open, previous}, nil
}

func foreignCursor() error {
	return problem.Invalidf("cursor", "is not a cursor that this call returned; leave it out to start from the beginning")
}

// Members returns a page of those members of a group that have begun or were refused, in the order of their tables'
// names. If `state` is not "", it returns only members in this state. Such a page may have few or no members even if
// more pages follow.
func (rd *Reader) Members(ctx context.Context, id ledger.ScanID, top int, cursor string, state ledger.State) (ScanList, error) {
	q := ListQuery{Top: top, State: state}
	at, err := parseListCursor(cursor, id)
	if err := cmp.Or(err, q.check()); err != nil {
		return ScanList{}, err
	}
	s, err := rd.ledger.Scan(ctx, id)
	switch {
	case err != nil:
		return ScanList{}, NotFound(id, err)
	case s.Members == 0:
		return ScanList{}, problem.NotFoundf("id", "the scan is not a group, so it has no members")
	}
	l := rd.lister(ctx, q)
	var found []ledger.Listed
	last := at.previous
	end, err := rd.ledger.Recent(ctx, ledger.ListQuery{Group: id, Behind: at.previous, Page: storage.PageRows, Pages: listPages}, func(m ledger.Listed) bool {
		last = m.ID
		if state == "" || m.State == state || !m.Summarized {
			found = append(found, m)
		}
		return len(found) < top
	})
	if err == nil {
		err = l.add(ctx, found)
	}
	if err == nil && !end {
		l.list.Cursor = listCursor{previous: last}.text()
	}
	return l.list, err
}

func membersOf(m ledger.Members) *ledger.Members {
	if m.All == 0 {
		return nil
	}
	m.Waiting = max(0, m.All-m.Ended()-m.Running)
	return &m
}
