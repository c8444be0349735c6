package schedule

import (
	"bytes"
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

// Each backup has a row with its place, so backups are found without listing a container. After each success, the
// scheduler decides which backups are kept. The newest backup and the newest proved backup are never deleted. A
// deletion that has begun is completed even if the settings change, because a partly deleted backup can no longer be
// read.

// removeBlobs is the approximate maximum number of blobs that are deleted each time a schedule is advanced.
const removeBlobs = 2000

// Backup is an export that a schedule has made.
type Backup struct {
	ID         ledger.ScanID  `json:"id"` // of the backup's scan
	Occurrence time.Time      `json:"occurrence"`
	FinishedAt *time.Time     `json:"finishedAt,omitempty"`
	Place      scans.TableRef `json:"place"`
	Table      string         `json:"table,omitempty"`
	Tables     int64          `json:"tables,omitempty"` // number of tables in an export of many tables; otherwise 0
	Rows       int64          `json:"rows"`
	Note       string         `json:"note,omitempty"` // names the tables that are left out
	// Proof is nil if the schedule does not verify its backups.
	Proof *Proof `json:"proof,omitempty"`
	// Deleting is the progress of the deletion, or nil if the backup is kept.
	Deleting *place.Removal `json:"deleting,omitempty"`
	Error    string         `json:"error,omitempty"` // why the backup cannot be deleted

	row ledger.Record
}

// Proof is the result of the scan that verifies a backup.
type Proof struct {
	ID    ledger.ScanID `json:"id"` // of the verification
	State ProofState    `json:"state"`
	Error string        `json:"error,omitempty"`
	Note  string        `json:"note,omitempty"` // names the tables that are no longer in the source
}

// ProofState is the state of a [Proof].
type ProofState string

// The states of a proof.
const (
	ProofRuns   ProofState = "running" // running or about to start
	Proved      ProofState = "proved"  // the backup is intact and equal to the source
	Differs     ProofState = "differs" // the backup is intact, but the source has changed since
	ProofFailed ProofState = "failed"
)

// readBack reports whether a verification has read the whole backup.
func (p *Proof) readBack() bool { return p != nil && (p.State == Proved || p.State == Differs) }

// recordBackup records the export of a scan that has succeeded. It returns the backup's proof in the state ProofRuns,
// or nil if the schedule does not verify its backups.
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

// backups returns the backups of a schedule, newest first.
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

// outdated returns the indexes of the backups that the schedule no longer keeps and whose deletion has not begun.
func (s *Schedule) outdated(all []Backup) (outdated []int) {
	if s == nil || s.Keep == nil {
		return nil
	}
	var times []time.Time
	var whole []int // backups that are not being deleted; the others can no longer be read
	proved := -1    // index of the newest proved backup; -1 if there is none, or if the schedule verifies no backups
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

// After a success, prune deletes the backups that the schedule no longer keeps. The maximum number of blobs per call is
// approximately removeBlobs. prune marks all these backups before it deletes the first. If it cannot mark a backup,
// because another process has changed the backup's row, prune deletes nothing. Otherwise, it deletes the backups that it
// has marked, and those that were marked under earlier settings.
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
	// The newest success is always kept. If a clock was ahead, an older success may have a later occurrence, so s.outdated
	// may return the newest success.
	outdated = slices.DeleteFunc(outdated, func(i int) bool { return all[i].ID == r.Success.ID })
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
	if s == nil { // record nothing: the settings may contain the schedule again later, or the schedule may belong to another app
		return nil
	}
	r.Kept = r.Success.ID
	_, err = sd.save(ctx, r)
	return err
}

// recordProofs records the results of verifications. It keeps checking failed verifications, because somebody may retry
// them. A successful verification may make other backups outdated, so recordProofs then clears r.Kept, and prune runs
// again.
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

// proofOf returns the result of the verification of a backup. The argument `recorded` is the recorded result, or nil.
func (sd *Scheduler) proofOf(ctx context.Context, id ledger.ScanID, recorded *Proof) (Proof, error) {
	p := Proof{ID: id.Verification(), State: ProofFailed}
	s, found, err := sd.outcomeOf(ctx, p.ID)
	switch p.Error, p.Note = s.Error, s.Note; {
	case err != nil:
	case !found && recorded != nil && recorded.State == ProofFailed: // the failed scan or the refused start request is no longer in the ledger
		p = *recorded
	case !found:
		p.Error = "the scan that verifies it no longer exists"
	case s.State == ledger.Running:
		p.State = ProofRuns
	case s.State == ledger.Canceled:
		p.Error = "the scan that verifies it was canceled"
	case s.State == ledger.Succeeded:
		if p.State = Proved; s.Differences != nil && *s.Differences != (status.Differences{}) {
			p.State = Differs
		}
	}
	return p, err
}

// removeBackup deletes blobs of a backup. *left is the approximate number of blobs that may still be deleted.
// removeBackup reduces it by the number of deleted blobs. A permanent error is recorded in the backup's row.
// Nevertheless, prune tries the deletion again, at the latest after the schedule's next success. If another process
// changes the row first, removeBackup leaves the deletion to that process.
func (sd *Scheduler) removeBackup(ctx context.Context, b Backup, left *int) error {
	for {
		_, to, err := sd.scans.Blobs("place", b.Place)
		if err == nil {
			*b.Deleting, err = place.Remove(ctx, to, place.ExportID(b.ID), b.Tables > 0, *b.Deleting, left)
		}
		switch {
		case err != nil && storage.Passing(err):
			return err
		case err == nil && b.Deleting.Done:
			zerolog.Ctx(ctx).Info().Str("backup", string(b.ID)).Str("place", to.Address()).Msg("an expired backup was deleted")
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
			zerolog.Ctx(ctx).Warn().Err(err).Str("backup", string(b.ID)).Msg("an expired backup cannot be deleted")
		}
		if err != nil || !b.Deleting.Gone || *left <= 0 {
			return nil
		}
	}
}

// ScheduleStatus is the status of a schedule.
type ScheduleStatus struct {
	Name string `json:"name"`
	// Removed is set if the schedule is not in the app's settings any more. A removed schedule starts no scans, and its
	// backups stay.
	Removed    bool            `json:"removed,omitempty"`
	Cron       string          `json:"cron,omitempty"`
	Request    json.RawMessage `json:"request,omitempty"`
	Keep       *calendar.Keep  `json:"keep,omitempty"`
	KeepDryRun bool            `json:"keepDryRun,omitempty"`
	Next       *time.Time      `json:"next,omitempty"`
	Last       *Run            `json:"last,omitempty"`
	Success    *Run            `json:"success,omitempty"` // the newest success
	Missed     Omitted         `json:"missed"`
	Skipped    Omitted         `json:"skipped"`
	// Overdue is set if two occurrences have passed since the newest success.
	Overdue bool `json:"overdue,omitempty"`
}

// ScheduleList lists the status of all schedules.
type ScheduleList struct {
	Schedules []ScheduleStatus `json:"schedules"`
	Error     string           `json:"error,omitempty"` // the errors in the settings
}

// Schedules returns first the app's schedules, in the order of the settings, and then the removed schedules. It makes
// one request.
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

// BackupStatus is the status of a backup.
type BackupStatus struct {
	Backup
	// Outdated is set if the rules of the setting "keep" no longer keep the backup. Such a backup is deleted soon, unless
	// "keepDryRun" is set.
	Outdated bool `json:"outdated,omitempty"`
	// Restore is the command that restores the backup.
	Restore string `json:"restore"`
}

// BackupList is a page of a schedule's backups.
type BackupList struct {
	Backups []BackupStatus `json:"backups"`
	Cursor  string         `json:"cursor,omitempty"`
}

// Backups returns at most top backups of a schedule, newest first, beginning after the cursor.
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
		return l, problem.NotFoundf("name", "there is no schedule %s, and no backup of a schedule with this name", name)
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

// unquoted lists the characters that are safe in a shell without quotes.
const unquoted = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:/._-"

// restore returns the command that restores a backup. The command may overwrite rows, so nobody should run it
// unchanged. Therefore its placeholder NEW_TABLE is not a valid table name, and its placeholder WHERE is unlikely to
// be the name of a setting.
func (b Backup) restore() string {
	from := "blob:" + b.Place.Container + "/" + b.Place.Prefix
	if strings.ContainsFunc(from, func(r rune) bool { return !strings.ContainsRune(unquoted, r) }) {
		from = "'" + strings.ReplaceAll(from, "'", `'\''`) + "'"
	}
	command := "tablesweep import --from " + from
	if b.Tables > 0 {
		command += " --all"
	} else {
		command += " --to NEW_TABLE"
	}
	if b.Place.Connection != "" {
		command += " --from-connection " + b.Place.Connection
	}
	return command + " --to-connection WHERE --verify"
}
