package schedule

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// Backups are the exports that schedules have made. A row says where each is, so no container is listed to find them. Which are kept is
// decided after each success, over all successes; the newest one is never deleted, nor the newest that is proved. A deletion that has
// begun is carried out, whatever the settings say by then: nobody can read that backup any more.

// removeBlobs bounds the deletions each time a schedule is advanced.
const removeBlobs = 2000

// Backup is an export that a schedule has made.
type Backup struct {
	ID         ledger.ScanID  `json:"id"` // of its scan
	Occurrence time.Time      `json:"occurrence"`
	FinishedAt *time.Time     `json:"finishedAt,omitempty"`
	Place      scans.TableRef `json:"place"`
	Table      string         `json:"table,omitempty"`
	Tables     int64          `json:"tables,omitempty"` // of an export of many; 0 for one of a single table
	Rows       int64          `json:"rows"`
	Note       string         `json:"note,omitempty"` // of its scan: which tables are left out
	// Proof tells whether it was read back; nil if the schedule does not have its backups verified.
	Proof *Proof `json:"proof,omitempty"`
	// Deleting tells how far its deletion has come; nil if it is kept.
	Deleting *place.Removal `json:"deleting,omitempty"`
	Error    string         `json:"error,omitempty"` // why it can't be deleted

	row ledger.Record
}

// Proof is what became of the scan that reads a backup back.
type Proof struct {
	ID    ledger.ScanID `json:"id"` // of that scan
	State ProofState    `json:"state"`
	Error string        `json:"error,omitempty"`
	Note  string        `json:"note,omitempty"` // which tables the source does not have any more
}

// ProofState is the state of a [Proof].
type ProofState string

// The states of a proof.
const (
	ProofRuns   ProofState = "running" // or is about to
	Proved      ProofState = "proved"  // the backup is whole, and has what the source has
	Differs     ProofState = "differs" // the backup is whole, and the source has changed since
	ProofFailed ProofState = "failed"
)

// readBack reports whether a backup has been read back.
func (p *Proof) readBack() bool { return p != nil && (p.State == Proved || p.State == Differs) }

// recordBackup records the export of a scan that has succeeded. It returns the proof that is to come.
func (sd *Scheduler) recordBackup(ctx context.Context, r *scheduleRow, s status.Status) (*Proof, error) {
	b := Backup{
		ID: s.ID, Occurrence: r.Last.Occurrence, FinishedAt: s.FinishedAt, Place: *s.Action.Destination, Table: s.Source.Table, Rows: s.Rows.Written, Note: s.Note,
	}
	if s.Members != nil {
		b.Tables = s.Members.Succeeded
	}
	if s.Verify {
		b.Proof = &Proof{ID: s.ID.Verification(), State: ProofRuns}
	}
	b.row = ledger.BackupRecord(r.row.Name(), s.ID)
	_, err := sd.saveBackup(ctx, &b)
	return b.Proof, err
}

func (sd *Scheduler) saveBackup(ctx context.Context, b *Backup) (ours bool, err error) {
	b.row.Data = scans.JSON(b)
	return sd.ledger.Save(ctx, &b.row)
}

// backups returns the backups of a schedule, the newest first.
func (sd *Scheduler) backups(ctx context.Context, name string) ([]Backup, error) {
	rows, err := sd.ledger.Backups(ctx, name)
	all := make([]Backup, len(rows))
	for i, row := range rows {
		if err == nil {
			err = json.Unmarshal(row.Data, &all[i])
		}
		all[i].row = row
	}
	return all, err
}

// outdated returns which of a schedule's backups are not kept any more, and are not being deleted yet.
func (s *Schedule) outdated(all []Backup) (outdated []int) {
	if s == nil || s.Keep == nil {
		return nil
	}
	var times []time.Time
	var whole []int // those that are not being deleted: the others are no backups any more
	proved := -1    // the newest that is, if they are to be
	for i, b := range all {
		if b.Deleting == nil {
			times, whole = append(times, b.Occurrence), append(whole, i)
			if proved < 0 && s.request.Verify && b.Proof.readBack() {
				proved = i
			}
		}
	}
	for _, i := range s.Keep.Outdated(times) {
		if whole[i] != proved {
			outdated = append(outdated, whole[i])
		}
	}
	return outdated
}

// prune does a share of deleting the backups that are not kept any more, if that is to be done after the last success. It first marks them.
// Then it deletes those that are marked, by whatever settings. Who is overtaken at a mark has decided on rows that have changed since, and
// deletes nothing.
func (sd *Scheduler) prune(ctx context.Context, s *Schedule, r *scheduleRow) error {
	if r.Success == nil || r.Kept == r.Success.ID {
		return nil
	}
	all, err := sd.backups(ctx, r.row.Name())
	if err != nil {
		return err
	}
	var outdated []int
	if s != nil && !s.KeepDryRun {
		outdated = s.outdated(all)
	}
	outdated = slices.DeleteFunc(outdated, func(i int) bool { return all[i].ID == r.Success.ID }) // an older one may be of a clock that was ahead
	for _, i := range outdated {
		all[i].Deleting = &place.Removal{}
		if ours, err := sd.saveBackup(ctx, &all[i]); err != nil || !ours {
			return err
		}
	}
	left := removeBlobs
	for _, b := range all {
		if b.Deleting == nil {
			continue
		}
		if err := sd.removeBackup(ctx, b, &left); err != nil || left <= 0 {
			return err
		}
	}
	if s == nil { // perhaps another app has the schedule, or this one has it again later
		return nil
	}
	r.Kept = r.Success.ID
	_, err = sd.save(ctx, r)
	return err
}

// recordProofs notes what became of the scans that prove backups, until they have: somebody may retry one. A proof may change what is kept.
func (sd *Scheduler) recordProofs(ctx context.Context, r *scheduleRow) (changed bool, err error) {
	if len(r.Unproved) == 0 {
		return false, nil
	}
	all, err := sd.backups(ctx, r.row.Name())
	if err != nil {
		return false, err
	}
	var left []ledger.ScanID
	for _, id := range r.Unproved {
		i := slices.IndexFunc(all, func(b Backup) bool { return b.ID == id && b.Deleting == nil })
		if i < 0 {
			continue
		}
		p, err := sd.proofOf(ctx, id, all[i].Proof)
		if err != nil {
			return false, err
		}
		if all[i].Proof == nil || p != *all[i].Proof {
			all[i].Proof = &p
			if ours, err := sd.saveBackup(ctx, &all[i]); err != nil || !ours {
				return false, err
			}
		}
		if r.Success.ID == id && (r.Success.Proof == nil || p != *r.Success.Proof) {
			changed, r.Success.Proof = true, &p
		}
		if p.readBack() {
			r.Kept = ""
		} else {
			left = append(left, id)
		}
	}
	changed = changed || len(left) < len(r.Unproved)
	r.Unproved = left
	return changed, nil
}

// proofOf returns what became of the scan that proves a backup. was is what is known of it.
func (sd *Scheduler) proofOf(ctx context.Context, id ledger.ScanID, was *Proof) (Proof, error) {
	p := Proof{ID: id.Verification(), State: ProofFailed}
	s, found, err := sd.outcomeOf(ctx, p.ID)
	switch p.Error, p.Note = s.Error, s.Note; {
	case err != nil:
	case !found && was != nil && was.State == ProofFailed: // the reason was kept for its time
		p = *was
	case !found:
		p.Error = "nothing is left of its scan"
	case s.State == ledger.Running:
		p.State = ProofRuns
	case s.State == ledger.Canceled:
		p.Error = "it was canceled"
	case s.State == ledger.Succeeded:
		if p.State = Proved; s.Differences != nil && *s.Differences != (status.Differences{}) {
			p.State = Differs
		}
	}
	return p, err
}

// removeBackup does a share of deleting a backup. What can't be deleted is noted, and is tried again after the next success. Who is overtaken
// leaves the rest to the other process, which may have deleted what this one has missed.
func (sd *Scheduler) removeBackup(ctx context.Context, b Backup, left *int) error {
	for {
		_, to, err := sd.scans.Blobs("place", b.Place)
		if err == nil {
			*b.Deleting, err = place.Remove(ctx, to, string(b.ID), b.Tables > 0, *b.Deleting, left)
		}
		switch {
		case err != nil && storage.Passing(err):
			return err
		case err == nil && b.Deleting.Done:
			zerolog.Ctx(ctx).Info().Str("backup", string(b.ID)).Str("place", to.Address()).Msg("backup deleted that is not kept any more")
			return sd.ledger.Drop(ctx, b.row)
		}
		if b.Error = ""; err != nil {
			b.Error = scans.Shortened(err.Error())
		}
		if text := scans.JSON(b); !bytes.Equal(text, b.row.Data) {
			if ours, saveErr := sd.saveBackup(ctx, &b); saveErr != nil || !ours {
				return saveErr
			}
		}
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("backup", string(b.ID)).Msg("backup that is not kept any more can't be deleted")
		}
		if err != nil || !b.Deleting.Gone || *left <= 0 {
			return nil
		}
	}
}

// ScheduleStatus tells of a schedule.
type ScheduleStatus struct {
	Name string `json:"name"`
	// Removed is true if the app's settings do not have it any more: nothing starts, and its backups stay.
	Removed    bool            `json:"removed,omitempty"`
	Cron       string          `json:"cron,omitempty"`
	Request    json.RawMessage `json:"request,omitempty"`
	Keep       *calendar.Keep  `json:"keep,omitempty"`
	KeepDryRun bool            `json:"keepDryRun,omitempty"`
	Next       *time.Time      `json:"next,omitempty"`
	Last       *Run            `json:"last,omitempty"`    // that was started last
	Success    *Run            `json:"success,omitempty"` // the newest
	Missed     Omitted         `json:"missed"`
	Skipped    Omitted         `json:"skipped"`
	// Overdue is true if the newest success is older than two periods.
	Overdue bool `json:"overdue,omitempty"`
}

// ScheduleList tells of all schedules.
type ScheduleList struct {
	Schedules []ScheduleStatus `json:"schedules"`
	Error     string           `json:"error,omitempty"` // what is wrong with the settings
}

// Schedules tells of the app's schedules, in the order of the settings, and of those that it does not have any more. It makes one request.
func (sd *Scheduler) Schedules(ctx context.Context) (ScheduleList, error) {
	l := ScheduleList{Schedules: []ScheduleStatus{}}
	rows, err := sd.ledger.Schedules(ctx)
	if err != nil {
		return l, err
	}
	now, err := sd.scans.Now(ctx)
	if err != nil {
		return l, err
	}
	known := map[string]scheduleRow{}
	for _, row := range rows {
		r, err := scheduleRowOf(row)
		if err != nil {
			return l, err
		}
		known[row.Name()] = r
	}
	add := func(name string, s *Schedule) {
		r, seen := known[name]
		delete(known, name)
		t := ScheduleStatus{Name: name, Removed: s == nil, Last: r.Last, Success: r.Success, Missed: r.Missed, Skipped: r.Skipped}
		if s != nil {
			next := s.cron.Next(now)
			t.Cron, t.Request, t.Keep, t.KeepDryRun, t.Next = s.Cron, json.RawMessage(s.Request), s.Keep, s.KeepDryRun, &next
			since := r.Since
			if r.Success != nil {
				since = r.Success.Occurrence
			}
			t.Overdue = seen && (s.cron.Overdue(since, now) || since.After(now.Add(wrongClock)))
		}
		l.Schedules = append(l.Schedules, t)
	}
	for i := range sd.schedules {
		add(sd.schedules[i].Name, &sd.schedules[i])
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		add(name, nil)
	}
	return l, nil
}

// BackupStatus tells of a backup.
type BackupStatus struct {
	Backup
	// Outdated is true if keep does not keep it any more: it is deleted soon, or with keepDryRun it would be.
	Outdated bool `json:"outdated,omitempty"`
	// Restore is the command that brings it back.
	Restore string `json:"restore"`
}

// BackupList is a page of the backups of a schedule.
type BackupList struct {
	Backups []BackupStatus `json:"backups"`
	Cursor  string         `json:"cursor,omitempty"`
}

// Backups returns backups of a schedule, the newest first: up to top of those behind a cursor.
func (sd *Scheduler) Backups(ctx context.Context, name string, top int, cursor string) (BackupList, error) {
	l := BackupList{Backups: []BackupStatus{}}
	if !scheduleName.MatchString(name) {
		return l, problem.NotFoundf("name", "there is no such schedule")
	}
	all, err := sd.backups(ctx, name)
	if err != nil {
		return l, err
	}
	if len(all) == 0 && sd.setting(name) == nil {
		return l, problem.NotFoundf("name", "there is no schedule %s, and no backup of one", name)
	}
	outdated := sd.setting(name).outdated(all)
	for i, b := range all {
		if string(b.ID) <= cursor {
			continue
		}
		if len(l.Backups) == top {
			l.Cursor = string(l.Backups[top-1].ID)
			break
		}
		l.Backups = append(l.Backups, BackupStatus{b, slices.Contains(outdated, i), b.restore()})
	}
	return l, nil
}

// unquoted are characters that a shell leaves as they are.
const unquoted = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:/._-"

// restore returns the command that brings a backup back, to where its reader says: neither WHERE nor NEW_TABLE is a name that is taken as it
// stands.
func (b Backup) restore() string {
	from := "blob:" + b.Place.Container + "/" + b.Place.Prefix
	if strings.ContainsFunc(from, func(r rune) bool { return !strings.ContainsRune(unquoted, r) }) {
		from = "'" + strings.ReplaceAll(from, "'", `'\''`) + "'"
	}
	command := "tablesweep import --from " + from
	if b.Tables > 0 {
		command += " --all"
	} else {
		command += " --to " + cmp.Or(b.Table, "NEW_TABLE")
	}
	if b.Place.Connection != "" {
		command += " --from-connection " + b.Place.Connection
	}
	return command + " --to-connection WHERE --verify"
}
