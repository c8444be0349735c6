package engine

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

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// A group does one thing with many tables. It has a scan for each table, its member. The tables are chosen once, when the group
// starts. A member is begun by the group's row, at most membersAtOnce at a time, and then started by a message, as a scan that was
// asked for. Its end begins the next one. Whoever sees that all have ended ends the group. Maintain does what crashes have left.

const (
	membersAtOnce = 8
	maxMembers    = 5000
	anyTable      = "table" // stands for each of a group's tables where its request is checked
	namedMembers  = 10      // that a group's error names
)

func (r Request) isGroup() bool { return r.Source.Tables != "" }

// member returns the request of the scan of one of a group's tables.
func (r Request) member(table string) Request {
	of := func(t TableRef) TableRef {
		if t.Tables = ""; t.Container == "" {
			t.Table = table
		} else {
			t.Prefix = strings.Trim(t.Prefix, "/") + "/" + table
		}
		return t
	}
	r.Source, r.Verify, r.Action.Overwrite = of(r.Source), false, false
	if d := r.Action.Destination; d != nil && r.Action.Type != Keys {
		to := of(*d)
		r.Action.Destination = &to
	}
	return r
}

// checkGroup finds what is wrong with the request for a group, beside what is with that of each table.
func (r Request) checkGroup() error {
	var errs wrongs
	switch d := r.Action.Destination; {
	case r.Source.Table != "":
		errs.add("source", "names a table, and a pattern of tables; leave one out")
	case r.Action.Type == Delete:
		errs.add("source.tables", "is no source of delete; name one table")
	case r.overExisting() && r.Source.Container != "" && d.Connection == "":
		errs.add("action.destination.connection", "is missing: rows of many tables are written only where the request says; name a connection, such as %s", storage.HostConnection)
	case d != nil && d.Table != "" && r.Action.Type != Keys:
		errs.add("action.destination.table", "is the name that each table has in the source; leave it out")
	}
	if r.Action.Overwrite && !r.overExisting() {
		errs.add("action.overwrite", overwriteMisplaced)
	}
	for pattern := range strings.SplitSeq(r.Source.Tables, ",") {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			errs.add("source.tables", "%s is no pattern such as logs* or log[0-9]; commas separate several", secret.Name(pattern))
		}
	}
	return errors.Join(errs...)
}

// overExisting reports whether the request copies many tables into tables, which may exist.
func (r Request) overExisting() bool {
	return r.isGroup() && r.Action.Type == Copy && r.Action.Destination != nil && r.Action.Destination.Container == ""
}

const overwriteMisplaced = "is about a copy of many tables into tables; leave it out"

// lookAtOnce is how many tables are looked at at once before a copy of many.
const lookAtOnce = 32

// mayOverwrite refuses a copy of many tables that would write over rows, unless its request says that it may. A scan that has started is not
// checked: what it writes itself is no rows of others.
func (e *Engine) mayOverwrite(ctx context.Context, o *opened) error {
	r := o.request
	if !r.overExisting() || r.Action.Overwrite || r.Action.Mode == action.Skip || r.Action.Mode == action.Fail {
		return nil
	}
	to, err := e.account("action.destination", r.Action.Destination.Connection)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(o.tables), func(name string) bool { return e.checkTable("", to.Table(name)) != nil }) // which are left out
	there, err := to.Look(ctx, others, lookAtOnce)
	if err != nil {
		return refusal("action.destination", "the Table service refuses to read its tables; check the connection and its permissions", err)
	}
	if full := storage.WithRows(there); full != nil {
		return problem.Conflictf("action.overwrite", "must be true to write over rows: %d of %d tables have some (%s); mode skip keeps them", len(full), len(o.tables), problem.Named(full, namedMembers))
	}
	return nil
}

// takesTable reports whether a table is one of those that the request names by patterns. Case does not matter, as in tables' names.
func (r Request) takesTable(table string) bool {
	for pattern := range strings.SplitSeq(r.Source.Tables, ",") {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(table)); ok && err == nil {
			return true
		}
	}
	return false
}

// openGroup opens the request for a group, by that for one of its tables.
func (e *Engine) openGroup(r Request) (*opened, error) {
	o, err := e.open(r.member(anyTable))
	if err != nil {
		return nil, err
	}
	if d := o.destination; d != nil && o.table() != nil && d.Same(o.table()) {
		return nil, problem.Invalidf("action.destination.connection", "is the account of the source; name another")
	}
	o.request, o.source = r, nil
	if o.container == nil {
		o.plan = plan{}
		return o, nil
	}
	_, to, err := e.blobs("action.destination", *r.Action.Destination)
	o.plan = plan{container: to, prepare: o.prepare}
	return o, err
}

// tablesOf returns the tables of a group, by name: those of an account or of an export of many tables.
func (e *Engine) tablesOf(ctx context.Context, id string, r Request) (names []string, err error) {
	if of, ok := strings.CutSuffix(id, verification); ok {
		if names, err = e.copied(ctx, of, r); !errors.Is(err, ledger.ErrNotFound) {
			return names, err
		}
	}
	if r.Source.Container == "" {
		var a *storage.Account
		if a, err = e.account("source", r.Source.Connection); err == nil {
			err = a.TableNames(ctx, func(name string) error {
				if !strings.HasPrefix(name, "$") && e.hostsTable(a.Table(name)) == "" {
					names = append(names, name)
				}
				return nil
			})
		}
		err = refusal("source", "the Table service refuses to list its tables; check the connection and its permissions", err)
	} else {
		var from *place.Blobs
		if _, from, err = e.blobs("source", r.Source); err == nil {
			names, err = exportsIn(ctx, from, r.Source.Tables == "*")
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !r.takesTable(name) })
	slices.Sort(names)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, problem.NotFoundf("source.tables", "no table there matches %s", secret.Name(r.Source.Tables))
	case len(names) > maxMembers:
		return nil, problem.Invalidf("source.tables", "%d tables match; %d are the most: use patterns that match fewer", len(names), maxMembers)
	}
	return names, nil
}

// copied returns the tables that a group has copied. Who proves its export asks tables.json; if that can't be read, the proof fails at its end.
func (e *Engine) copied(ctx context.Context, group string, r Request) (names []string, err error) {
	if r.Action.Proof {
		var from *place.Blobs
		if _, from, err = e.blobs("action.destination", *r.Action.Destination); err != nil {
			return nil, err
		}
		if names, err = exportsIn(ctx, from, true); err == nil || storage.Passing(err) {
			return names, err
		}
	}
	g, err := e.ledger.Group(ctx, group)
	if err == nil {
		err = json.Unmarshal(g.Tables, &names)
	}
	return names, err
}

// exportsIn returns the names of the exports in a place. whole demands that it is a complete export of many tables.
func exportsIn(ctx context.Context, from *place.Blobs, whole bool) (names []string, err error) {
	if !whole {
		names, err = place.ExportsIn(ctx, from)
		return names, unreadable("source", err)
	}
	all, err := place.OpenTables(ctx, from)
	for _, t := range all.Tables {
		names = append(names, t.Name)
	}
	return names, unreadable("source", err)
}

// tend carries a group on. It begins members while too few are open, and has those started that nobody has started. It ends the group
// behind its last one. Several may do so at once. A member that has just ended is the only one that is looked at; 0 is for all.
func (e *Engine) tend(ctx context.Context, id string, ended int) error {
	var start []int
	for {
		s, err := e.load(ctx, id)
		if err != nil || s.state != ledger.Running {
			return err
		}
		g, err := e.ledger.Group(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return e.endLost(ctx, id)
		}
		if err != nil {
			return err
		}
		was := len(g.Open)
		g.Open = slices.DeleteFunc(g.Open, func(n int) bool {
			if err != nil || ended != 0 && n != ended {
				return false
			}
			var over, started bool
			over, started, err = e.seen(ctx, s, ledger.MemberID(id, n))
			if !over && !started {
				start = append(start, n)
			}
			return over
		})
		if err != nil {
			return err
		}
		changed := was != len(g.Open)
		for next, more := g.Next(s.members); more && len(g.Open) < membersAtOnce; next, more = g.Next(s.members) {
			g.Begun, g.Open, start, changed = g.Begun+1, append(g.Open, next), append(start, next), true
		}
		if changed {
			if mine, err := e.ledger.ChangeGroup(ctx, g); err != nil {
				return err
			} else if !mine {
				continue // a repeated try may have changed it, and must send what it has begun
			}
		}
		for _, n := range g.Open {
			if slices.Contains(start, n) {
				e.sendStart(ctx, ledger.MemberID(id, n))
			}
		}
		if len(g.Open) == 0 {
			return e.endGroup(ctx, id, s.opened)
		}
		return nil
	}
}

// groupLost is why a group fails, or is not retried, that lacks its row.
const groupLost = "the state table lacks the group's row, which names its tables; somebody has deleted it. Start a new scan"

// endLost ends a running group that lacks its row.
func (e *Engine) endLost(ctx context.Context, id string) error {
	_, err := e.end(ctx, id, ledger.Ending{State: ledger.Failed, Error: groupLost})
	if errors.Is(err, ledger.ErrNotFound) { // removed meanwhile
		return nil
	}
	return err
}

// seen looks at a member of a group: whether it is over in this attempt of the group, and whether it was started. One that has ended is not
// over before it is listed so. If its rows in the lists are lost, it is over: the end of the group finds out.
func (e *Engine) seen(ctx context.Context, group *loaded, id string) (over, started bool, err error) {
	m, listed, err := e.ledger.Member(ctx, id)
	if err != nil {
		return false, false, err
	}
	if m.Summarized {
		over = !group.before(m.Scan)
		return over, over, nil
	}
	s, err := e.ledger.Scan(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, false, nil
	}
	if err != nil || group.before(s) {
		return false, false, err
	}
	if s.State != ledger.Running {
		err = e.ledger.Close(ctx, ledger.OpenScan{ID: id, Attempt: s.Attempt})
	}
	return s.State != ledger.Running && !listed, true, err
}

// before reports whether a member has ended without success before the group's attempt, which does it again.
func (s *loaded) before(m ledger.Scan) bool {
	return m.State != ledger.Running && m.State != ledger.Succeeded && !m.LeftOut && m.Finished.Before(s.resumed)
}

// startMember starts a member that was begun, or retries it. If that is refused, it counts as failed, and the group goes on.
func (e *Engine) startMember(ctx context.Context, group string, n int) error {
	s, err := e.load(ctx, group)
	if err != nil || s.state != ledger.Running {
		return err
	}
	g, err := e.ledger.Group(ctx, group)
	if errors.Is(err, ledger.ErrNotFound) {
		return e.endLost(ctx, group)
	}
	if err != nil || !slices.Contains(g.Open, n) {
		return err
	}
	var tables []string
	if err := json.Unmarshal(g.Tables, &tables); err != nil || n > len(tables) {
		return fmt.Errorf("group %s has no table %d: %w", group, n, err)
	}
	id := ledger.MemberID(group, n)
	r := s.request.member(tables[n-1])
	switch m, scanErr := e.ledger.Scan(ctx, id); {
	case errors.Is(scanErr, ledger.ErrNotFound):
		err = e.startNow(ctx, id, r)
	case scanErr != nil:
		return scanErr
	case s.before(m):
		err = e.retryMember(ctx, id)
	default:
		return e.tend(ctx, group, n) // perhaps it has ended
	}
	as := ledger.Ending{State: ledger.Failed, LeftOut: leavesOut(id, r, err)}
	switch {
	case err == nil || problem.Of(err).Kind == problem.Stale:
		return nil
	case !as.LeftOut && !refused(err, g.Age):
		return fmt.Errorf("start scan %s of table %s: %w", id, tables[n-1], err)
	}
	level := zerolog.ErrorLevel
	if as.LeftOut { // the group's note names it
		level = zerolog.InfoLevel
	}
	zerolog.Ctx(ctx).WithLevel(level).Err(err).Str("scan", id).Str("table", tables[n-1]).Msg("scan of a group refused")
	now, nowErr := e.Now(ctx)
	if nowErr != nil {
		return nowErr
	}
	as.Error = shortened(err.Error())
	if err := e.ledger.RefuseMember(ctx, id, jsonOf(r), now, as); err != nil {
		return err
	}
	return e.tend(ctx, group, n)
}

// endGroup ends a group whose members have all ended. An export gets the manifest of many tables first, and a proof reads that as a restore does. It has
// failed if a table has.
func (e *Engine) endGroup(ctx context.Context, id string, o *opened) error {
	s, err := e.ledger.Scan(ctx, id)
	if err != nil {
		return err
	}
	m := ledger.Members{All: s.Members}
	var names, failed, reasons []string
	var out, gone []ledger.Scan // that are left out, and that prove without their table
	_, err = e.ledger.Recent(ctx, ledger.ListQuery{Group: id, Page: storage.PageRows}, func(of ledger.Listed) bool {
		m.Add(of.Scan)
		r, err := requestOf(of.Scan)
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
	if err != nil || m.Running > 0 { // one that was retried by itself runs: its end comes here again
		return err
	}
	as := ledger.Ending{State: ledger.Succeeded, NoTable: int64(len(gone))}
	why := "left out, as somebody has deleted them since the scan began"
	if o.container == nil {
		why = "left out, as this app or its host keeps them for itself"
	}
	as.Note = noteOf(why, out) + noteOf("the source does not have these tables any more", gone)
	if lost := m.All - m.Ended() - m.Running; lost > 0 { // each was listed before it was over
		as.State, as.Error = ledger.Failed, fmt.Sprintf("the state table lacks the rows of %d tables in the group's list; somebody has deleted them. Start a new scan", lost)
	} else if bad := m.All - m.Succeeded - m.LeftOut; bad > 0 {
		as.State, as.Error = ledger.Failed, shortened(fmt.Sprintf("%d of %d tables failed: %s. %s", bad, m.All, strings.Join(failed, ", "), strings.Join(reasons, "; ")))
	} else if len(names) == 0 {
		as.State, as.Error = ledger.Failed, "no table is left"
	} else if err := e.completes(ctx, id, o, names, out); storage.Passing(err) || ctx.Err() != nil {
		return err
	} else if err != nil {
		as.State, as.Error = ledger.Failed, shortened(err.Error())
	}
	if as.State == ledger.Succeeded {
		if err := e.askForVerification(ctx, s); err != nil {
			return err
		}
	}
	_, err = e.end(ctx, id, as)
	return err
}

// completes does what is left of a group whose members have succeeded, but for those that are left out: it seals an export of these tables, or begins a
// restore of one that was proved.
func (e *Engine) completes(ctx context.Context, id string, o *opened, names []string, out []ledger.Scan) error {
	switch r := o.request; {
	case o.container != nil:
		err := e.withdraw(ctx, out)
		if err == nil {
			err = place.SealTables(ctx, o.container, id, names)
		}
		if err == nil || storage.Passing(err) {
			return err
		}
		return errors.New(incomplete(err))
	case r.Action.Proof:
		_, from, err := e.blobs("action.destination", *r.Action.Destination)
		if err == nil {
			_, err = place.OpenTables(ctx, from)
		}
		return err
	}
	return nil
}

// cancelMembers cancels the open members of a group that was canceled. What it can't, Maintain does; their steps have ended.
func (e *Engine) cancelMembers(ctx context.Context, id string) {
	g, err := e.ledger.Group(ctx, id)
	for _, n := range g.Open {
		_, endErr := e.end(ctx, ledger.MemberID(id, n), ledger.Ending{State: ledger.Canceled})
		err = cmp.Or(err, endErr)
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", id).Msg("not all scans of a group canceled; Maintain will cancel them")
	}
}

// retryGroup begins the next attempt of a group, in which all members are done that have not succeeded.
func (e *Engine) retryGroup(ctx context.Context, s ledger.Scan) error {
	if _, err := e.ledger.Group(ctx, s.ID); errors.Is(err, ledger.ErrNotFound) {
		return problem.Conflictf("id", "%s", groupLost)
	} else if err != nil {
		return err
	}
	succeeded, latest := map[int]bool{}, s.Finished
	_, err := e.ledger.Recent(ctx, ledger.ListQuery{Group: s.ID, Page: storage.PageRows}, func(m ledger.Listed) bool {
		_, n, _ := ledger.MemberOf(m.ID)
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
	now, err := e.Now(ctx)
	if wait := latest.Sub(now); err == nil && wait >= 0 { // an end tells by its time to which attempt it belongs; clocks differ by a second
		task.Sleep(ctx, min(wait, time.Second)+time.Millisecond)
		now, err = e.Now(ctx)
	}
	if err == nil {
		err = e.ledger.RestartGroup(ctx, s, now, todo)
	}
	if err != nil {
		return notFound(s.ID, err)
	}
	if err := e.tend(ctx, s.ID, 0); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("scan", s.ID).Msg("scans of a group not started; Maintain will start them")
	}
	return nil
}

// retryMember retries a member, with its failed rows.
func (e *Engine) retryMember(ctx context.Context, id string) error {
	found, err := e.ledger.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	return e.retry(ctx, id, found.Sums.Failed > 0)
}

// membersOf returns what a status says of a group's tables; nil for other scans.
func membersOf(m ledger.Members) *ledger.Members {
	if m.All == 0 {
		return nil
	}
	m.Waiting = max(0, m.All-m.Ended()-m.Running)
	return &m
}

// Members returns a page of the scans of a group's tables that were begun, by name. state, if not empty, takes those in it; the page
// may then have few or none, and a cursor.
func (e *Engine) Members(ctx context.Context, id string, top int, cursor string, state ledger.State) (ScanList, error) {
	q := ListQuery{Top: top, State: state}
	at, err := parseListCursor(cursor)
	if err := cmp.Or(err, q.check()); err != nil {
		return ScanList{}, err
	}
	s, err := e.ledger.Scan(ctx, id)
	switch {
	case err != nil:
		return ScanList{}, notFound(id, err)
	case s.Members == 0:
		return ScanList{}, problem.NotFoundf("id", "the scan is no group: it is of one table")
	}
	l := e.lister(ctx, q)
	var found []ledger.Listed
	last := at.behind
	end, err := e.ledger.Recent(ctx, ledger.ListQuery{Group: id, Behind: at.behind, Page: storage.PageRows, Pages: listPages}, func(m ledger.Listed) bool {
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
		l.list.Cursor = listCursor{behind: last}.text()
	}
	return l.list, err
}
