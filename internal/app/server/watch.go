package server

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	watchTime = 2 * time.Second  // time between two checks of the accounts
	awayTime  = 30 * time.Second // an outage of this length causes a warning
	awayAgain = time.Minute      // time between two warnings about a connection
)

// watch writes a line to the log when requests wait for an unavailable account, at most once a minute for each connection.
// It writes another line when the account answers again. It returns when ctx ends.
func watch(ctx context.Context, accounts []*storage.Account) {
	warned := map[string]time.Time{} // by connection
	for task.Sleep(ctx, watchTime) {
		away := map[string]bool{}
		for _, a := range accounts {
			for _, o := range a.Outages() {
				away[o.Connection] = true
				if o.Waiting == 0 || time.Since(o.Since) < awayTime || time.Since(warned[o.Connection]) < awayAgain {
					continue
				}
				warned[o.Connection] = time.Now()
				zerolog.Ctx(ctx).Warn().Str("connection", o.Connection).Str("cause", o.Cause).Time("since", o.Since).Int("waiting", o.Waiting).Msg("storage is unavailable; requests wait for it")
			}
		}
		for connection := range warned {
			if !away[connection] {
				delete(warned, connection)
				zerolog.Ctx(ctx).Info().Str("connection", connection).Msg("storage answers again")
			}
		}
	}
}
