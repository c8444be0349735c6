package function

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/health"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
)

// scheduleCalls returns the calls for /api/schedules.
//
// The callers are clients that watch or start backups.
func scheduleCalls(a App) []call {
	return []call{
		{method: "GET", path: "schedules", serve: withQuery(a.listSchedules)},
		{method: "GET", path: "schedules/{name}/backups", serve: withQuery(a.listBackups, "top", "cursor")},
		{method: "POST", path: "schedules/{name}/run", serve: withQuery(a.runSchedule)},
	}
}

func (a App) listSchedules(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	if err := a.refreshSchedules(r.Context()); err != nil {
		return err
	}
	list, err := a.Engine.Schedules(r.Context())
	if a.SchedulesErr != nil {
		list.Error = a.SchedulesErr.Error()
	}
	return answer(w, r, list, err)
}

func (a App) listBackups(w http.ResponseWriter, r *http.Request, given url.Values) error {
	top, err := readTop(given, maxTop, maxFailedTop)
	if err != nil {
		return err
	}
	if err := a.refreshSchedules(r.Context()); err != nil {
		return err
	}
	list, err := a.Engine.Backups(r.Context(), r.PathValue("name"), top, given.Get("cursor"))
	linkNext(w, r, list.Cursor)
	return answer(w, r, list, err)
}

func (a App) runSchedule(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	id, err := a.Engine.RunNow(r.Context(), r.PathValue("name"), claim.Sent{Invocation: invocationID(r)})
	return writeStarted(w, r, id, err)
}

// refreshSchedules advances the schedules before they are read, because timers may fail. It does not delete backups, because that takes a long time.
// It returns an error only if the storage is unavailable. After this error, the caller must not read the schedules, because it would wait for the
// storage a second time.
func (a App) refreshSchedules(ctx context.Context) error {
	err := a.Engine.AdvanceBeforeReading(ctx)
	if errors.Is(err, storage.ErrAway) {
		return err
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("some schedules were not checked")
	}
	return nil
}

// checkSchedules checks whether each schedule's last success is recent.
func (a App) checkSchedules(ctx context.Context) []health.Check {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	var list schedule.ScheduleList
	err := a.refreshSchedules(ctx)
	if err == nil {
		list, err = a.Engine.Schedules(ctx)
	}
	return health.JudgeSchedules(list, a.SchedulesErr, err)
}
