// Package ledger records which steps of a scan are pending and which are done. Queue messages may arrive twice, and
// processes may die. Nevertheless, a scan counts each row once, can be resumed, and always ends.
//
// One table holds every scan. The PartitionKey of a scan's rows is the scan's id:
//
//	RowKey           row
//	s                the scan: State, Attempt, Request, StartedAt, FinishedAt, Error, First; Note, LeftOut, NoTable (see [Ending]);
//	                 in a later attempt also ResumedAt, and RanMillis, the duration of the earlier attempts
//	p|STEP           a pending step: Message (binary), After, Sends, Lost, Begun, FirstEnded, Reason (see pending.go)
//	d|TICKS|STEP     a done step, newest first: its counts and changes (see sums.go), Note (binary)
//	d|-LEVEL|RANDOM  the sums of several done rows, which this row replaces (see fold.go)
//	x|TICKS|STEP     rows that a done step could not write: Attempt, First, and the others (see data.go)
//	w|STEP           the data file that a done step of an export wrote (see data.go)
//	h                the hints that the scan was started with (see data.go)
//	g                a group's tables, and its progress (see group.go)
//	y                how much of its limits a scan has used (see limits.go)
//
// STEP is the step's id. TICKS is the 19 digits of [key.Inverted]. Other partitions contain:
//
//	PartitionKey  RowKey        row
//	scans         a|ID          each scan, with its figures once it has ended
//	scans         o|ID|ATTEMPT  an attempt that may be open
//	scans         t|ID          an ended scan that is yet to be tidied up (see retire.go)
//	scans         r|ID          a start request (see startrequests.go)
//	scans         s|NAME        a schedule (see schedules.go)
//	scans         b|NAME|ID     a backup that a schedule has made (see schedules.go)
//	beats         PROCESS       the steps that a living process holds (see heartbeat.go)
//	maintain                    when Maintain last ran, and what it saw (see heartbeat.go)
//
// Ids start with inverted ticks, so lists are newest first. In a scan's row, Version is 1, and readers refuse any other
// version.
//
// A restarted scan begins a new attempt. Each attempt is listed as open under its own key, before the scan's state
// becomes running. So if a slow process removes an earlier attempt from the list, the running attempt stays in the list.
//
// One transaction commits a step (see [Ledger.Commit]): it deletes the step's pending (p) row, and adds a done (d) row
// and the children's pending rows. Counters are sums over done rows, so no step is counted twice. Once an attempt has
// no pending row, the attempt never gets a pending row again. Each done row records how many children its step has, so
// the sums also show how many steps are pending. A first step has no parent. So the transaction that adds a first step
// also adds a done row that counts this step as a child.
//
// Somebody may delete rows by hand, and the counts do not show every such deletion. For example, if a done row with two
// children and a pending row are lost, the expected and the actual number of pending steps both fall by one. So each
// done row has a Balance: the sum of the hashes of its children's ids, minus the hash of its own id. The scan's row has a
// column First: the sum of the hashes of the first steps' ids, over all attempts. The value in this column plus all
// balances must equal the sum of the hashes of the pending steps' ids. Otherwise, the scan fails.
//
// # Done rows
//
// A status takes all its figures from done rows. Each done row has the estimated work of the step's children, minus
// the estimated work of the step itself. The sum of these differences estimates how much work is left.
//
// Done rows are folded (see fold.go), on average after one in 48 commits. A folded row has the sums of the rows that
// it replaces. Folded rows are folded again, so a million steps leave about 150 rows. A folded row also has a
// timeline, whose times come from the service's clock, and up to 512 keys at which pages ended. These keys show which
// ranges are done, and become hints for later scans.
//
// A status reads one page, so it sees all rows at the same moment. The page contains folded rows, then done rows,
// pending rows, and the scan's own row. A status does not need rows x and w, so these rows sort after the scan's own
// row. If many steps are pending, a second request reads the scan's row. Heartbeats need a third request.
//
// When a scan ends, one transaction removes it from the list of open scans. The same transaction puts the scan's
// summary into the list of all scans, unless this list already has a later attempt of the scan. A canceled or failed
// scan may still have running steps, so the summary gets the scan's final sums only after 15 minutes. Until then, a
// program that lists the scan reads the sums from the scan's own rows. A day after a scan's end, its done rows are
// folded into one row. When a scan's retention is over, the scan's own row is removed first, but only if this row has
// not changed since it was read. So a retry never finds a half-removed scan. The scan's row in the list is removed
// last.
//
// # Limits
//
// All rows of a scan's steps are in one partition, which processes 2,000 entities per second. A step costs six to
// eight entities: three for its commit, one to check whether it is pending, and two to four for folding. So a scan
// makes 200 to 300 commits per second. If partitions have ten rows, this rate is just enough for a copy to reach the
// limit of the destination's account, which is 20,000 transactions per second. Each step of such a copy writes 100
// partitions, with one transaction each, so 200 steps make 20,000 transactions. A count writes no rows, so its steps
// are short. With one query per step, a count would need more commits per second than a scan can make. So by
// default, each step of a count makes up to four queries.
//
// Requests, messages, notes and hints are opaque to the package.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// version is the format described in the package comment.
const version = 1

const (
	scanRow       = "s"
	pendingPrefix = "p|"
	donePrefix    = "d|"
	foldedPrefix  = "d|-"
	failedPrefix  = "x|"
	filePrefix    = "w|"
)

// State is the state of a scan.
type State string

// The states of a scan. Steps are done only while their scan is running.
const (
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Canceled  State = "canceled"
)

// Scan is a scan's row.
type Scan struct {
	ID       ScanID
	State    State
	Attempt  int64  // 1 at first; each restart adds 1
	Request  []byte // opaque, JSON
	Started  time.Time
	Resumed  time.Time     // when the attempt began; zero in the first attempt
	ran      time.Duration // how long earlier attempts ran
	Finished time.Time     // zero while the scan is running
	Error    string        // why the scan failed
	Members  int64         // the number of a group's members; 0 for other scans
	Note     string        // see [Ending]
	LeftOut  bool          // see [Ending]
	NoTable  int64         // see [Ending]

	first int64 // sum of the hashes of all attempts' first steps
	etag  string
}

// Ran returns how long the scan has run: until `now`, or until its end if it has ended. If the scan was restarted, the time
// between its end and its restart does not count.
func (s Scan) Ran(now time.Time) time.Duration {
	if !s.Finished.IsZero() {
		now = s.Finished
	}
	return s.ran + max(0, now.Sub(s.began()))
}

func (s Scan) began() time.Time {
	if s.Resumed.IsZero() {
		return s.Started
	}
	return s.Resumed
}

// Done describes a done step.
type Done struct {
	Totals
	// Ahead is the estimated work of the step's children, minus the work of the step itself.
	Ahead scan.Outlook
	Note  []byte // opaque; [Folds.Notes] returns it
	// FailedRows lists rows that could not be written, and Kept is their number. The list is opaque;
	// [ScanData.FailedRows] returns it.
	FailedRows []byte
	Kept       int64
	// FirstFailed describes the first failed row and the reason. The scan's error repeats this text.
	FirstFailed string
	// Attempt is the attempt in which the rows failed.
	Attempt int64
	// If the step has retried failed rows of an earlier attempt, Redone is their position in the ledger. In that case,
	// Totals and Kept contain only the changes that the retry makes to the numbers of the earlier attempt, so they may be
	// negative. The commit deletes the row in which the ledger keeps these failed rows. If that row is already gone, the
	// commit fails.
	Redone string
	File   []byte // opaque; [ScanData.Files] returns it
}

// ErrNotFound means that the ledger has no scan with the id.
var ErrNotFound = errors.New("no such scan")

// ErrLeftOut means that the scan exists, and its group has left out the scan's table.
var ErrLeftOut = errors.New("the scan's table is gone, so the group continues without this table")

// RowsLost begins each error about rows of the state table that somebody has deleted. The documents name such errors by this text.
const RowsLost = "the state table lacks "

// ErrScanLost means that a scan's own row is gone, although rows of its steps exist.
var ErrScanLost = errors.New(RowsLost + "the scan's own row, because somebody has deleted the row; start a new scan")

// Ledger is the table of scans. Its own methods read and write scans and their lists. It is safe for concurrent use.
type Ledger struct {
	rows
	Steps
	Processes
	Records
	Requests
	ScanData
	Folds
}

// New returns the ledger in the table.
func New(table *storage.Table) *Ledger {
	all := rows{table}
	return &Ledger{all, Steps{all}, Processes{all}, Records{all}, Requests{all}, ScanData{all}, Folds{all}}
}

// With returns a copy of the ledger whose requests have these options.
func (l *Ledger) With(o storage.RequestOptions) *Ledger { return New(l.table.With(o)) }

// Now converts the caller's time to the service's time. If the difference between the two clocks is unknown, Now makes
// a request.
func (l *Ledger) Now(ctx context.Context, local time.Time) (time.Time, error) {
	now, known := l.table.Now(local)
	if known {
		return now, nil
	}
	if _, err := l.Maintained(ctx); err != nil { // each answer contains the service's time
		return now, err
	}
	now, _ = l.table.Now(local)
	return now, nil
}

// Create records a scan, its first step, and its hints if there are any. The argument `ahead` is the scan's estimated
// work. After an error, the scan may be recorded although its message is not sent. In that case, [Ledger.Open] lists
// the scan. Create inserts rows and never replaces any. So even if the service later applies a request a second time,
// no done step becomes pending again. If several processes create the same scan, the first record is kept.
func (l *Ledger) Create(ctx context.Context, id ScanID, now time.Time, request, hints []byte, first Pending, ahead scan.Outlook) error {
	pending := addPending(id, first)
	pending.Kind = storage.Insert
	ops := []storage.Op{beginAttempt(id, now, ahead), pending}
	if len(hints) > 0 {
		ops = append(ops, op(storage.Insert, id, scanHintsRow, dataProperties(hints)...))
	}
	return l.create(ctx, Scan{ID: id, Attempt: 1, Started: now, Request: request, first: hashOf(first.ID)}, ops...)
}

func (l *Ledger) create(ctx context.Context, s Scan, more ...storage.Op) error {
	inAll := runningRow(s.ID, 1)
	inAll.Kind = storage.Merge // another process may have started this scan, and the scan may have ended: keep the figures in its row
	if err := l.write(ctx, "list scan "+string(s.ID), inAll, list(openRow(s.ID, 1))); err != nil {
		return err
	}
	err := l.write(ctx, "record scan "+string(s.ID), append([]storage.Op{runningScan(storage.Insert, s)}, more...)...)
	if storage.Conflict(err) { // recorded by an earlier try whose answer was lost, or by another process
		switch there, err := l.Scan(ctx, s.ID); {
		case errors.Is(err, ErrNotFound):
			return fmt.Errorf("scan %s: %w", s.ID, ErrScanLost)
		case err == nil && there.LeftOut:
			return fmt.Errorf("scan %s: %w", s.ID, ErrLeftOut)
		}
		return nil
	}
	return err
}

// beginAttempt returns the operation that writes a done row. The row belongs to no step, and counts the attempt's first
// step as its child.
func beginAttempt(id ScanID, now time.Time, ahead scan.Outlook) storage.Op {
	sums := Sums{children: 1, ahead: ahead}
	return op(storage.Insert, id, donePrefix+key.Inverted(now)+"|", properties(sums.counts())...)
}

func runningScan(kind storage.OpKind, s Scan) storage.Op {
	row := append([]storage.Property{
		storage.Int64Property("Version", version),
		storage.StringProperty("State", string(Running)),
		storage.Int64Property("Attempt", s.Attempt),
		storage.BinaryProperty("Request", s.Request),
		storage.TimeProperty("StartedAt", s.Started),
		storage.Int64Property("First", s.first),
	}, s.resumption()...)
	return op(kind, s.ID, scanRow, append(row, properties([]count{{"Members", &s.Members, true}})...)...)
}

// resumption returns the properties that a scan's row has only from the second attempt on.
func (s Scan) resumption() []storage.Property {
	if s.Resumed.IsZero() {
		return nil
	}
	return []storage.Property{storage.TimeProperty("ResumedAt", s.Resumed), storage.Int64Property("RanMillis", s.ran.Milliseconds())}
}

func addPending(id ScanID, p Pending) storage.Op {
	return op(storage.Replace, id, pendingPrefix+string(p.ID), pendingProperties(p)...)
}

// pendingProperties returns the properties of a pending step whose message has not been resent.
func pendingProperties(p Pending) []storage.Property {
	properties := []storage.Property{storage.BinaryProperty("Message", p.Message), storage.Int64Property("Sends", 0)}
	if !p.After.IsZero() {
		properties = append(properties, storage.TimeProperty("After", p.After))
	}
	return properties
}

// Scan reads a scan's row. If there is none, the error is [ErrNotFound].
func (l *Ledger) Scan(ctx context.Context, id ScanID) (Scan, error) {
	e, found, err := l.get(ctx, "read scan "+string(id), string(id), scanRow)
	if err != nil {
		return Scan{}, err
	}
	if !found {
		return Scan{}, fmt.Errorf("scan %s: %w", id, ErrNotFound)
	}
	return scanOf(id, e)
}

func scanOf(id ScanID, e storage.Entity) (Scan, error) {
	if v := e.Int("Version"); v != version {
		return Scan{}, fmt.Errorf("scan %s has version %d of the ledger's format, but this program knows only version %d; use the version of the program that made the scan", id, v, version)
	}
	return Scan{
		ID: id, State: State(e.Get("State")), Attempt: e.Int("Attempt"), Request: e.Bytes("Request"), Error: e.Get("Error"),
		Started: e.Time("StartedAt"), Finished: e.Time("FinishedAt"), Resumed: e.Time("ResumedAt"), ran: time.Duration(e.Int("RanMillis")) * time.Millisecond, etag: e.ETag,
		Members: e.Int("Members"), first: e.Int("First"), Note: e.Get("Note"), LeftOut: e.Int("LeftOut") > 0, NoTable: e.Int("NoTable"),
	}, nil
}

// Commit records in one transaction that a step is done and its children are pending. It reports false if the step was
// committed before, perhaps by this call's first try, whose answer was lost. It also reports false if another step has
// retried the same failed rows. The transaction has at most 100 rows: one for each child, and a few others.
func (l *Ledger) Commit(ctx context.Context, id ScanID, stepID StepID, now time.Time, done Done, children []Pending) (bool, error) {
	done.Steps = 1
	sums := Sums{Totals: done.Totals, Kept: done.Kept, children: int64(len(children)), ahead: done.Ahead, balance: -hashOf(stepID)}
	for _, c := range children {
		sums.balance += hashOf(c.ID)
	}
	at := key.Inverted(now) + "|" + string(stepID)
	step := properties(sums.counts())
	if len(done.Note) > 0 {
		step = append(step, storage.BinaryProperty("Note", done.Note))
	}
	ops := []storage.Op{
		op(storage.Delete, id, pendingPrefix+string(stepID)),
		op(storage.Replace, id, donePrefix+at, step...),
	}
	if done.Redone != "" {
		ops = append(ops, op(storage.Delete, id, failedPrefix+done.Redone))
	}
	if len(done.FailedRows) > 0 {
		failed := append(dataProperties(done.FailedRows), storage.StringProperty("First", done.FirstFailed), storage.Int64Property("Attempt", done.Attempt))
		ops = append(ops, op(storage.Replace, id, failedPrefix+at, failed...))
	}
	if len(done.File) > 0 {
		ops = append(ops, op(storage.Replace, id, filePrefix+string(stepID), dataProperties(done.File)...))
	}
	for _, c := range children {
		ops = append(ops, addPending(id, c))
	}
	err := l.write(ctx, fmt.Sprintf("commit step %s of scan %s", stepID, id), ops...)
	if storage.HasCode(err, "ResourceNotFound", "EntityNotFound") {
		return false, nil
	}
	return err == nil, err
}
