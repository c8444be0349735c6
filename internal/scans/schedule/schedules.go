package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
)

// Any instance may advance a schedule at any time. The instance reads the schedule's row, and package calendar decides
// which occurrence is due. The instance records this occurrence in the row. If another instance has changed the row,
// this write fails, so each occurrence is decided once. If the write succeeds, and the occurrence is not skipped, the
// instance makes the start request. If the instance dies before it makes the request, the next instance that advances
// the schedule makes it. The scan's id is computed from the occurrence, so a repeated request starts no second scan.

// Schedule is a schedule in the app's settings.
type Schedule struct {
	Name       string         `json:"name"`
	Cron       string         `json:"cron"`
	Request    jsontext.Value `json:"request"`
	Keep       *calendar.Keep `json:"keep,omitempty"`
	KeepDryRun bool           `json:"keepDryRun,omitempty"` // only show which backups Keep would delete

	cron    calendar.Cron
	request scans.Request // parsed from Request; {date} is not replaced yet
}

// scheduleName matches names that need no escaping in a URL or a key.
var scheduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// ParseSchedules reads schedules from JSON. The error lists the mistakes of each schedule. The valid schedules are
// returned even if there is an error.
func ParseSchedules(text string) ([]Schedule, error) {
	var given, all []Schedule
	if err := input.JSON([]byte(text), &given); err != nil {
		return nil, fmt.Errorf(`must be a JSON array such as [{"name":"nightly","cron":"0 0 3 * * *","request":{…}}]: %w`, err)
	}
	var errs error
	ids := map[string]string{}
	var exports []Schedule
	for i, s := range given {
		err := s.parse()
		if err == nil && s.request.Exports() {
			if i := slices.IndexFunc(exports, s.overlaps); i >= 0 {
				err = fmt.Errorf("request: action.destination overlaps the destination of the schedule %s; give each schedule its own prefix", exports[i].Name)
			}
			exports = append(exports, s)
		}
		if id := calendar.ID(s.Name, time.Time{}); ids[id] != "" {
			err = errors.Join(err, fmt.Errorf("has the same name as the schedule %q, or a name that leads to the same scan ids; choose another name", ids[id]))
		} else {
			ids[id] = s.Name
		}
		if err == nil {
			all = append(all, s)
			continue
		}
		title := s.Name
		if !scheduleName.MatchString(title) { // the name may be a secret
			title = fmt.Sprint("schedule ", i+1)
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %s", title, strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return all, errs
}

// overlaps reports whether an export of either schedule would lie within an export of the other schedule.
func (s Schedule) overlaps(other Schedule) bool {
	// The prefixes of a schedule's exports differ only in their times. So it is enough to compare two exports
	// with the same time, one of each schedule.
	placeOf := func(s Schedule) (container, prefix string) {
		to := s.requestAt(time.Unix(0, 0)).Action.Destination
		return cmp.Or(to.Connection, storage.HostConnection) + "/" + to.Container, strings.Trim(to.Prefix, "/") + "/"
	}
	container, a := placeOf(s)
	same, b := placeOf(other)
	return container == same && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

func (s *Schedule) parse() (err error) {
	var errs []error
	if !scheduleName.MatchString(s.Name) {
		errs = append(errs, errors.New(`name must have 1 to 63 characters: letters, digits, "-" and "_"; the first must be a letter or a digit`))
	}
	if s.cron, err = calendar.ParseCron(s.Cron); err != nil {
		errs = append(errs, fmt.Errorf("cron: %w", err))
	} else if seconds, _, _ := strings.Cut(strings.TrimSpace(s.Cron), " "); strings.Trim(seconds, "0123456789") != "" {
		errs = append(errs, fmt.Errorf("cron: %q fires more than once a minute; its first field, the seconds, must be a number", s.Cron))
	}
	if len(s.Request) == 0 {
		errs = append(errs, errors.New("request is missing; write it like the body of POST /api/scans"))
	} else if s.request, err = scans.ParseRequest(s.Request); err != nil {
		errs = append(errs, fmt.Errorf("request: %w", err))
	} else if d := s.request.Action.Destination; s.request.Exports() && !strings.Contains(d.Prefix, calendar.Date) {
		errs = append(errs, errors.New("request: action.destination.prefix must contain "+calendar.Date+", because each export needs its own prefix"))
	} else if s.request.Exports() && s.request.IsGroup() && strings.Contains(strings.TrimSuffix(strings.Trim(d.Prefix, "/"), "/"+tableMark), tableMark) {
		errs = append(errs, errors.New("request: action.destination.prefix may contain "+tableMark+" only at its end, because the exports of all tables need one common prefix"))
	} else if s.request.NeedsOverwrite() {
		errs = append(errs, errors.New("request: action.overwrite must be true, because each copy replaces rows that the previous copy wrote; to keep existing rows, set action.mode to \"skip\""))
	}
	if s.Keep != nil {
		if err := s.Keep.Check(); err != nil {
			errs = append(errs, fmt.Errorf("keep: %w", err))
		}
		if len(errs) == 0 && !s.request.Exports() {
			errs = append(errs, errors.New("keep: is only for exports, but the request makes no export; remove \"keep\""))
		}
	} else if s.KeepDryRun {
		errs = append(errs, errors.New("keepDryRun: needs \"keep\"; set \"keep\", or remove \"keepDryRun\""))
	}
	return errors.Join(errs...)
}

// tableMark stands for the table's name in a prefix. An export of many tables adds each table's name at the end of
// its prefix, even if the prefix does not contain tableMark.
const tableMark = "{table}"

func (s Schedule) requestAt(occurrence time.Time) scans.Request {
	r := s.request
	r.Source.Prefix = calendar.Fill(r.Source.Prefix, occurrence)
	if d := r.Action.Destination; d != nil {
		filled := *d
		filled.Prefix = strings.ReplaceAll(calendar.Fill(d.Prefix, occurrence), tableMark, r.Source.Table)
		r.Action.Destination = &filled
	}
	if r.Name == "" {
		r.Name = s.Name
	}
	return r
}

// Scheduler starts the scans of the app's schedules, and records and deletes their backups.
type Scheduler struct {
	schedules []Schedule
	scans     *scans.Scans
	status    *status.Reader
	life      *life.Life
	ledger    *ledger.Ledger
	advances  *scans.Cache[struct{}] // for [Scheduler.AdvanceBeforeReading]
}

// New returns a scheduler of the app's schedules.
func New(of *scans.Scans, reader *status.Reader, lives *life.Life, schedules []Schedule) *Scheduler {
	return &Scheduler{schedules: schedules, scans: of, status: reader, life: lives, ledger: of.Ledger, advances: scans.NewCache[struct{}](readersPause, readersPause)}
}

// CheckSchedules checks whether the app has what its schedules need, for example connections.
func (sd *Scheduler) CheckSchedules() (errs error) {
	for _, s := range sd.schedules {
		if _, err := sd.scans.Open(s.requestAt(time.Unix(0, 0))); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: request: %w", s.Name, err))
		}
	}
	return errs
}

// Run is a scan that a schedule has started.
type Run struct {
	ID         ledger.ScanID `json:"id"`
	Occurrence time.Time     `json:"occurrence"`
	// State is the scan's state when AdvanceSchedules last ran.
	State ledger.State `json:"state"`
	Error string       `json:"error,omitempty"`
	Proof *Proof       `json:"proof,omitempty"` // set only for the newest success
}

// Omitted counts occurrences that started no scan.
type Omitted struct {
	Count int64     `json:"count"`
	Last  time.Time `json:"last,omitzero"`
}

func (o *Omitted) add(n int, last time.Time) {
	if n > 0 {
		o.Count, o.Last = o.Count+int64(n), last
	}
}

type scheduleRow struct {
	Since   time.Time `json:"since"`   // when the app first found the schedule in its settings
	Decided time.Time `json:"decided"` // the newest decided occurrence
	Last    *Run      `json:"last,omitempty"`
	// Request is the request for the scan that Last describes. Any instance may use it to make the start request again.
	// Once that scan has succeeded, Request is nil.
	Request   *scans.Request `json:"request,omitempty"`
	DecidedAt time.Time      `json:"asked,omitzero"` // when Last was decided
	Success   *Run           `json:"success,omitempty"`
	Missed    Omitted        `json:"missed"`  // occurrences that were still undecided when a newer one came due
	Skipped   Omitted        `json:"skipped"` // due while the last scan was running
	// If a call of [Scheduler.RunNow] started the last scan, RunBy names the claim of the call. If the scan started
	// because its occurrence was due, RunBy is "".
	RunBy string `json:"runBy,omitempty"`
	// Unproved lists the newest successes whose backups are not yet proved, at most maxUnproved.
	Unproved []ledger.ScanID `json:"unproved,omitempty"`
	// When prune has deleted all outdated backups, it sets Kept to Success.ID. While Kept equals Success.ID, prune does
	// nothing.
	Kept ledger.ScanID `json:"kept,omitempty"`

	row ledger.Record
}

func scheduleRowOf(row ledger.Record) (r scheduleRow, err error) {
	if err = json.Unmarshal(row.Data, &r); err != nil {
		err = fmt.Errorf("the row of schedule %s: %w", row.Name(), err)
	}
	r.row = row
	return r, err
}

// If another process has written the row since r was read, `ours` is false.
func (sd *Scheduler) save(ctx context.Context, r *scheduleRow) (ours bool, err error) {
	r.row.Data = scans.JSON(r)
	return sd.ledger.Save(ctx, &r.row)
}

// advanceTries is the maximum number of tries of AdvanceSchedules. If another process advances a schedule at the same
// time, AdvanceSchedules tries again.
const advanceTries = 3

// AdvanceSchedules starts the scans of due schedules, and records the ends of started scans. Timers may fail, so calls
// to the app also run AdvanceSchedules. If `prune` is true, it also deletes a limited number of blobs of outdated
// backups.
func (sd *Scheduler) AdvanceSchedules(ctx context.Context, prune bool) error {
	for try := 1; ; try++ {
		overtaken, err := sd.advanceAll(ctx, prune)
		if err != nil || !overtaken || try == advanceTries {
			return err
		}
	}
}

const readersPause = 10 * time.Second

// AdvanceBeforeReading advances all schedules, but deletes no backups. It is called before schedules or backups are
// read. If the last call in this process was less than readersPause ago, the call does nothing.
func (sd *Scheduler) AdvanceBeforeReading(ctx context.Context) error {
	_, err := sd.advances.Get(ctx, "", func(struct{}) (struct{}, error) { return struct{}{}, sd.AdvanceSchedules(ctx, false) })
	return err
}

func (sd *Scheduler) advanceAll(ctx context.Context, prune bool) (overtaken bool, err error) {
	rows, err := sd.ledger.Schedules(ctx)
	if err != nil {
		return false, err
	}
	now, err := sd.scans.Now(ctx)
	if err != nil {
		return false, err
	}
	var errs error
	known := map[string]bool{}
	for _, row := range rows {
		known[row.Name()] = true
		ours, err := sd.advance(ctx, row, now, prune)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("schedule %s: %w", row.Name(), err))
		}
		overtaken = overtaken || !ours
	}
	for _, s := range sd.schedules {
		if !known[s.Name] { // a new schedule has missed no occurrences
			_, err := sd.save(ctx, &scheduleRow{Since: now, Decided: now, row: ledger.ScheduleRecord(s.Name)})
			errs = errors.Join(errs, err)
		}
	}
	return overtaken, errs
}

// setting returns a schedule, or nil if the app's settings no longer contain it.
func (sd *Scheduler) setting(name string) *Schedule {
	i := slices.IndexFunc(sd.schedules, func(s Schedule) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &sd.schedules[i]
}

// advance starts a schedule's due occurrence, and records the end of the schedule's last scan. If another process has
// written the schedule's row meanwhile, the result `ours` is false.
func (sd *Scheduler) advance(ctx context.Context, row ledger.Record, now time.Time, prune bool) (ours bool, err error) {
	r, err := scheduleRowOf(row)
	if err != nil {
		return true, err
	}
	ended, err := sd.recordEnd(ctx, &r, now)
	if err != nil {
		return true, err
	}
	proofs, err := sd.recordProofs(ctx, &r)
	if err != nil {
		return true, err
	}
	s, changed := sd.setting(row.Name()), ended || proofs
	if r.Decided.After(now.Add(wrongClock)) { // the clock was wrong when Decided was recorded
		changed, r.Decided = true, now
	}
	var d calendar.Decision
	if s != nil {
		d = s.cron.Decide(r.Decided, r.runs(), now)
	}
	if !d.Occurrence.IsZero() {
		changed, r.Decided = true, d.Occurrence
		r.Missed.add(d.Missed, d.Occurrence)
		if d.Start {
			r.begin(s, d.Occurrence, now, "")
		} else {
			r.Skipped.add(1, d.Occurrence)
		}
	}
	if changed {
		if ours, err := sd.save(ctx, &r); err != nil || !ours {
			return err != nil, err
		}
	}
	if !d.Occurrence.IsZero() {
		err = sd.requestStart(ctx, d, &r)
	}
	if prune {
		err = errors.Join(err, sd.prune(ctx, s, &r))
	}
	return true, err
}

// requestStart makes the start request for a due occurrence. If d.Start is false, the occurrence is skipped, and
// requestStart only logs this.
func (sd *Scheduler) requestStart(ctx context.Context, d calendar.Decision, r *scheduleRow) error {
	l := zerolog.Ctx(ctx).With().Str("schedule", r.row.Name()).Time("occurrence", d.Occurrence).Int("missed", d.Missed).Str("scan", string(r.Last.ID)).Logger()
	if !d.Start {
		l.Warn().Msg("an occurrence was skipped, because the scan of the previous occurrence is still running")
		return nil
	}
	l.Info().Msg("a scheduled scan starts")
	return sd.life.RequestStart(ctx, r.Last.ID, *r.Request)
}

// RunNow adds an occurrence for the current minute to a schedule, starts a scan for this occurrence, and returns the
// scan's id. If the request is repeated before the schedule starts another scan, RunNow returns the id of the scan that
// the first try started. If the schedule already has an occurrence in the current minute, RunNow fails, because both
// occurrences would have the same {date}. The call does not change the next occurrence of the schedule's cron
// expression.
func (sd *Scheduler) RunNow(ctx context.Context, name string, sent claim.Sent) (ledger.ScanID, error) {
	s := sd.setting(name)
	if s == nil {
		return "", problem.NotFoundf("name", "the app's settings have no such schedule")
	}
	by := sent.ID(name).Row("").Key.Row
	for range advanceTries {
		rows, err := sd.ledger.Schedules(ctx)
		if err != nil {
			return "", err
		}
		now, err := sd.scans.Now(ctx)
		if err != nil {
			return "", err
		}
		r := scheduleRow{Since: now, Decided: now, row: ledger.ScheduleRecord(name)}
		if i := slices.IndexFunc(rows, func(row ledger.Record) bool { return row.Name() == name }); i >= 0 {
			if r, err = scheduleRowOf(rows[i]); err != nil {
				return "", err
			}
		}
		if by != "" && r.RunBy == by {
			return r.Last.ID, nil
		}
		if _, err := sd.recordEnd(ctx, &r, now); err != nil {
			return "", err
		}
		minute := now.UTC().Truncate(time.Minute)
		if err := r.mayBegin(s, minute); err != nil {
			return "", err
		}
		r.begin(s, minute, now, by)
		ours, err := sd.save(ctx, &r)
		if err != nil {
			return "", err
		}
		if !ours {
			continue
		}
		l := zerolog.Ctx(ctx).With().Str("schedule", name).Str("scan", string(r.Last.ID)).Logger()
		l.Info().Msg("a schedule's scan was started on request")
		if err := sd.life.RequestStart(ctx, r.Last.ID, *r.Request); err != nil {
			l.Warn().Err(err).Msg("the scan of a schedule was not started; the next check of the schedule will start it")
		}
		return r.Last.ID, nil
	}
	return "", problem.Conflictf("name", "other processes are changing the schedule at the same time; try again")
}

// mayBegin returns an error if the schedule already has an occurrence in the given minute, or if the schedule's last
// scan is still running.
func (r *scheduleRow) mayBegin(s *Schedule, minute time.Time) error {
	switch {
	case r.runs():
		return problem.Conflictf("name", "the schedule's last scan, %s, is still running", r.Last.ID)
	case r.Last != nil && !r.Last.Occurrence.Before(minute), s.cron.Next(minute.Add(-time.Second)).Before(minute.Add(time.Minute)):
		return problem.Conflictf("name", "the schedule already has an occurrence at %s, and a second occurrence in that minute would have the same %s; try again in the next minute", minute.Format("15:04 UTC"), calendar.Date)
	}
	return nil
}

// begin sets the row's last run to a new run for the given occurrence. The caller saves the row, and then makes the
// start request.
func (r *scheduleRow) begin(s *Schedule, occurrence, now time.Time, by string) {
	request := s.requestAt(occurrence)
	r.Last, r.Request, r.DecidedAt, r.RunBy = &Run{ID: ledger.ScanID(calendar.ID(s.Name, occurrence)), Occurrence: occurrence, State: ledger.Running}, &request, now, by
}

// A recorded time that is more than wrongClock in the future comes from a wrong clock.
const wrongClock = 24 * time.Hour

func (r *scheduleRow) runs() bool { return r.Last != nil && r.Last.State == ledger.Running }

// traceTime is how long the scheduler repeats the start request of a missing scan. After this time, the scan counts as
// failed, because somebody may have deleted its rows.
const traceTime = 24 * time.Hour

// recordEnd records the state of the scan that a schedule started last. It reads the state of a failed scan again,
// because a retry may change it. A success is recorded only after its backup has been recorded.
func (sd *Scheduler) recordEnd(ctx context.Context, r *scheduleRow, now time.Time) (changed bool, err error) {
	if r.Last == nil || r.Request == nil {
		return false, nil
	}
	run := *r.Last
	s, found, err := sd.outcomeOf(ctx, run.ID)
	switch {
	case err != nil:
	case found:
		run.State, run.Error = s.State, s.Error
	case run.State != ledger.Running: // the ended scan, or its refused start request, is no longer stored
		r.Request = nil
		return true, nil
	case now.Sub(r.DecidedAt) < traceTime:
		err = sd.life.RequestStart(ctx, run.ID, *r.Request)
	default:
		run.State, run.Error = ledger.Failed, "the scan no longer exists: its rows were deleted, or the app was not running when the scan was due"
	}
	if err != nil {
		return false, err
	}
	if run == *r.Last {
		return false, nil
	}
	if r.Last = &run; run.State == ledger.Succeeded {
		success := run
		if r.Request.Exports() {
			success.Proof, err = sd.recordBackup(ctx, r, s)
		}
		if success.Proof != nil {
			r.Unproved = append([]ledger.ScanID{run.ID}, r.Unproved[:min(len(r.Unproved), maxUnproved-1)]...)
		}
		r.Success, r.Request = &success, nil
	}
	return true, err
}

// maxUnproved is the maximum number of backups whose verifications are checked each minute.
const maxUnproved = 3

// outcomeOf returns the status of a requested scan. If the scan has not started, the status contains only the state and
// perhaps the reason of a refusal. If neither the scan nor its start request exists, `found` is false.
func (sd *Scheduler) outcomeOf(ctx context.Context, id ledger.ScanID) (s status.Status, found bool, err error) {
	s, err = sd.status.Status(ctx, id)
	if problem.Of(err).Kind != problem.NotFound {
		return s, err == nil, err
	}
	request, found, err := sd.ledger.StartRequest(ctx, id)
	if s.State = ledger.Running; request.Refused != "" {
		s.State, s.Error = ledger.Failed, "it was not started: "+request.Refused
	}
	return s, found, err
}
