package ledger

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// The lists of scans are in a partition of their own. The keys of a list begin with the list's prefix.
const (
	scansPartition = "scans"
	allPrefix      = "a|"
	openPrefix     = "o|"
	endedPrefix    = "t|"
)

func list(row string, properties ...storage.Property) storage.Op {
	return op(storage.Replace, scansPartition, row, properties...)
}

func unlist(row, etag string) storage.Op {
	gone := op(storage.Delete, scansPartition, row)
	gone.IfMatch = etag
	return gone
}

// runningRow is the write that puts a running scan into the list of all scans.
func runningRow(id ScanID, attempt int64) storage.Op {
	return list(listRow(id), storage.Int64Property("Attempt", attempt))
}

// endedRow is the write that puts an ended scan's figures into the list of all scans. The write succeeds only if
// `etag` is still the ETag of the scan's row in that list.
func endedRow(s Listed, settled bool, etag string) storage.Op {
	row := append([]storage.Property{
		storage.Int64Property("Version", version),
		storage.StringProperty("State", string(s.State)),
		storage.Int64Property("Attempt", s.Attempt),
		storage.BinaryProperty("Request", s.Request),
		storage.TimeProperty("StartedAt", s.Started),
		storage.TimeProperty("FinishedAt", s.Finished),
		storage.StringProperty("Error", s.Error),
		storage.Int64Property("Pending", s.Pending),
	}, properties(s.Totals.counts())...)
	row = slices.Concat(row, s.resumption(), properties(s.Members.counts()), Ending{Note: s.Note, LeftOut: s.LeftOut, NoTable: s.NoTable}.properties())
	if !settled {
		row = append(row, storage.Int64Property("Unsettled", 1))
	}
	listed := list(listRow(s.ID), row...)
	listed.IfMatch = etag
	return listed
}

// tidyRow is the write that puts a scan into the list of ended scans. The argument `settled` must be false if steps of
// the scan may still run, because the scan's figures may then change.
func tidyRow(id ScanID, settled bool) storage.Op {
	if settled {
		return list(endedPrefix+string(id), storage.Int64Property("Settled", 1))
	}
	return list(endedPrefix + string(id))
}

func openRow(id ScanID, attempt int64) string {
	return openPrefix + string(id) + "|" + strconv.FormatInt(attempt, 10)
}

// ListsPartition contains the lists, and the claims of requests that start scans.
const ListsPartition = scansPartition

// OpenScan is an attempt in the list of open scans.
type OpenScan struct {
	ID      ScanID
	Attempt int64
	Age     time.Duration // time since the attempt was listed, by the service's clock

	etag string
}

// Open returns the list of open scans, newest first.
func (l *Ledger) Open(ctx context.Context) ([]OpenScan, error) {
	var open []OpenScan
	for p, err := range l.pages(ctx, "list open scans", storage.Query{Range: key.WithPrefix(scansPartition, openPrefix)}) {
		if err != nil {
			return nil, err
		}
		for _, e := range p.Entities() {
			id, attempt, _ := strings.Cut(strings.TrimPrefix(e.Key.Row, openPrefix), "|")
			n, err := strconv.ParseInt(attempt, 10, 64)
			if err != nil {
				continue // somebody else's row must not hide the scans
			}
			open = append(open, OpenScan{ID: ScanID(id), Attempt: n, Age: p.Date.Sub(e.Timestamp), etag: e.ETag})
		}
	}
	return open, nil
}

// MoveToEnded removes an attempt from the list of open scans, and lists the scan as ended. The attempt must have
// ended, or must never have begun. If the attempt was listed again after [Ledger.Open] returned o, it may be about to
// begin, so it stays listed as open. If a later attempt is in the list of all scans, MoveToEnded does not change that
// list.
func (l *Ledger) MoveToEnded(ctx context.Context, o OpenScan) error {
	what, ops := "close scan "+string(o.ID), []storage.Op{unlist(openRow(o.ID, o.Attempt), o.etag)}
	s, err := l.currentFigures(ctx, o.ID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	summarized := false
	if err == nil && s.State != Running {
		e, found, err := l.get(ctx, what, scansPartition, listRow(o.ID))
		if err != nil {
			return err
		}
		if found && e.Int("Attempt") <= o.Attempt {
			settled := s.Pending == 0
			ops = append(ops, endedRow(s, settled, e.ETag), tidyRow(o.ID, settled))
			summarized = e.Get("State") != ""
		}
	}
	err = l.write(ctx, what, ops...)
	if storage.NotFound(err) && !summarized && len(ops) > 1 { // somebody has deleted the row of the open attempt
		err = l.write(ctx, what, ops[1:]...)
	}
	return unlessOvertaken(err)
}

// Forget handles an attempt that has no record. It removes the attempt from the list of open scans, unless the attempt
// was listed again since o was read. A first attempt without a record failed to start, so Forget also removes the scan
// from the list of all scans. But Forget leaves a member in its group's list, because the group starts the member
// again. If an attempt after the first has no record, it began while the scan was being removed. In that case, Forget
// leaves the scan in the list of all scans, because the scan must stay listed until all its rows are gone.
func (l *Ledger) Forget(ctx context.Context, o OpenScan) error {
	what, open := "forget scan "+string(o.ID), unlist(openRow(o.ID, o.Attempt), o.etag)
	if member := o.ID.IsMember(); member || o.Attempt > 1 {
		return unlessOvertaken(l.write(ctx, what, open))
	}
	err := l.write(ctx, what, unlist(allPrefix+string(o.ID), ""), open)
	if storage.NotFound(err) { // an older version of the program has removed the row in the list of all scans
		err = l.write(ctx, what, open)
	}
	return unlessOvertaken(err)
}

func (l rows) unlistInTurn(ctx context.Context, what string, rows ...string) error {
	for _, row := range rows {
		if err := unlessOvertaken(l.write(ctx, what, unlist(row, ""))); err != nil {
			return err
		}
	}
	return nil
}

// Listed is a scan in the list of all scans.
type Listed struct {
	Scan
	// Summarized is set if the scan has ended and the list contains its figures. Otherwise, only the scan's ID is
	// known.
	Summarized bool
	Unsettled  bool // steps of the ended scan may still be running and change its figures
	Totals     Totals
	Pending    int64 // steps that were pending at the scan's end
	Members    Members
}

// ListQuery selects a part of the list of all scans, or of the list of a group's members. The members are in the order
// of their numbers.
type ListQuery struct {
	Group  ScanID    // list this group's members; if empty, all scans that are not members
	Behind ScanID    // only scans that follow this one in the list; all if empty
	Since  time.Time // only scans started at this time or later; all if zero
	Page   int       // scans per request
	Pages  int       // the maximum number of requests
}

// Recent calls fn with the selected scans, newest first, until fn returns false. It reports whether it has reached the
// list's end.
func (l *Ledger) Recent(ctx context.Context, q ListQuery, fn func(Listed) bool) (end bool, err error) {
	r := key.WithPrefix(scansPartition, allPrefix)
	if q.Group != "" {
		r = key.WithPrefix(scansPartition, memberPrefix+string(q.Group)+"|")
	}
	if q.Behind != "" {
		r.Low = &key.Bound{Key: listRow(q.Behind), Open: true}
	}
	if !q.Since.IsZero() {
		r.High = &key.Bound{Key: allPrefix + key.Inverted(q.Since) + "~", Open: true} // this key sorts after all ids with the time q.Since
	}
	if r.Empty() {
		return true, nil
	}
	pages := 0
	for p, err := range l.pages(ctx, "list scans", storage.Query{Range: r, Top: min(q.Page, storage.PageRows)}) {
		if err != nil {
			return false, err
		}
		for i, e := range p.Entities() {
			if !fn(listedOf(e)) {
				return p.Next == nil && i == len(p.Rows)-1, nil
			}
		}
		if pages++; pages == q.Pages {
			return p.Next == nil, nil
		}
	}
	return true, nil
}

func listedOf(e storage.Entity) Listed {
	id := ScanID(strings.TrimPrefix(e.Key.Row, allPrefix))
	if member, ok := strings.CutPrefix(e.Key.Row, memberPrefix); ok {
		id = ScanID(strings.Replace(member, "|", "-", 1))
	}
	s, err := scanOf(id, e)
	if err != nil {
		return Listed{Scan: Scan{ID: id}} // the scan is running, or a newer version wrote the summary
	}
	l := Listed{Scan: s, Summarized: true, Unsettled: e.Int("Unsettled") > 0, Totals: totalsOf(e), Pending: e.Int("Pending")}
	readCounts(l.Members.counts(), e)
	return l
}
