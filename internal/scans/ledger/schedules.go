package ledger

import (
	"context"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// In the partition of the lists, each schedule has a row "s|NAME". Each backup that the schedule made has a row
// "b|NAME|ID". The newest backup sorts first. Each row has the property Version, and the property Data with JSON. When
// a backup's scan is removed, the backup's row stays.
const (
	schedulePrefix = "s|"
	backupPrefix   = "b|"
)

// Record is the row of a schedule or a backup. A new row has no etag.
type Record struct {
	row  string
	Data []byte
	etag string
}

// ScheduleRecord returns a new schedule's row, not yet saved.
func ScheduleRecord(name string) Record { return Record{row: schedulePrefix + name} }

// BackupRecord returns a new backup's row, not yet saved.
func BackupRecord(schedule string, id ScanID) Record {
	return Record{row: backupPrefix + schedule + "|" + string(id)}
}

// Name returns the schedule's name.
func (r Record) Name() string { return strings.TrimPrefix(r.row, schedulePrefix) }

// Records gives access to the rows of schedules and of their backups.
type Records struct{ rows }

// Schedules returns the rows of all schedules, except rows of a newer version.
func (l Records) Schedules(ctx context.Context) ([]Record, error) {
	return l.records(ctx, "read schedules", schedulePrefix)
}

// Backups returns the rows of a schedule's backups, the newest first.
func (l Records) Backups(ctx context.Context, schedule string) ([]Record, error) {
	return l.records(ctx, "read backups of "+schedule, backupPrefix+schedule+"|")
}

func (l Records) records(ctx context.Context, what, prefix string) (all []Record, err error) {
	for p, err := range l.pages(ctx, what, storage.Query{Range: key.WithPrefix(scansPartition, prefix)}) {
		if err != nil {
			return nil, err
		}
		for _, e := range p.Entities() {
			if e.Int("Version") == version {
				all = append(all, Record{e.Key.Row, e.Bytes("Data"), e.ETag})
			}
		}
	}
	return all, nil
}

// Save writes a row, and reports false if another process has written it since r was read. After a success, r can be
// saved again.
func (l Records) Save(ctx context.Context, r *Record) (ours bool, err error) {
	write := list(r.row, storage.Int64Property("Version", version), storage.BinaryProperty("Data", r.Data))
	if write.IfMatch = r.etag; r.etag == "" {
		write.Kind = storage.Insert
	}
	b := l.table.Batch()
	b.Add(write)
	err = because("record "+r.row, b.Do(ctx))
	if storage.Conflict(err) || overtaken(err) {
		return false, nil
	}
	r.etag = b.ETag()
	return err == nil && r.etag != "", err
}

// Drop removes a row, unless another process has written it since r was read.
func (l Records) Drop(ctx context.Context, r Record) error {
	return unlessOvertaken(l.write(ctx, "remove "+r.row, unlist(r.row, r.etag)))
}
