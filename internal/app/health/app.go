package health

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// answerTime is how long a check waits for an answer.
const answerTime = 10 * time.Second

// App is the data for the checks of a running app.
type App struct {
	Own        *storage.Account // the app's own storage
	StateTable string
	Root       fs.FS            // the app's folder, with host.json
	Settings   storage.Settings // the app's settings, to which files in Root may refer
	// Others are the other accounts that scans read and write, by connection.
	Others map[string]*storage.Account
	// Instance describes the memory of the instance. Memory is the memory budget of the app's process. In any other
	// process, it is nil.
	Instance memory.Instance
	Memory   *memory.Budget
}

// Check makes the checks of a running app. It sends six requests to the app's own storage, and one to each other
// account.
func (a App) Check(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	once := storage.RequestOptions{Once: true}
	table := a.Own.Table(a.StateTable).With(once)
	parts := []func() []Check{
		func() []Check { return []Check{a.hostJSON()} },
		func() []Check {
			if a.Memory == nil {
				return nil
			}
			return []Check{judgeMemory(a.Instance, a.Memory.Usage())}
		},
		func() []Check { return []Check{mayWrite(ctx, "state table", table)} },
		func() []Check { return checkMaintained(ctx, table) },
		func() []Check {
			heartbeats, err := ledger.New(table).Heartbeats(ctx)
			if err != nil && !storage.NotFound(err) {
				return []Check{NewCheck("steps", "", err)}
			}
			return []Check{judgeHeartbeats(heartbeats)}
		},
	}
	for _, name := range slices.Sorted(maps.Values(scans.Queues)) {
		parts = append(parts, func() []Check {
			n := 0
			q, err := a.Own.Queue(name)
			if err == nil {
				n, err = q.With(once).Length(ctx)
			}
			if storage.NotFound(err) {
				err = errors.New("there is no such queue; the app creates its queues when it starts")
			}
			return []Check{NewCheck("queue "+name, "about "+problem.Plural(n, "message"), err)}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Others)) {
		parts = append(parts, func() []Check {
			_, err := a.Others[name].Table(nowhere).With(once).Query(ctx, storage.Query{Top: 1})
			return []Check{judgeOther(name, err)}
		})
	}
	return runAll(parts)
}

// checkMaintained checks the clock and Maintain's last run.
func checkMaintained(ctx context.Context, state *storage.Table) []Check {
	m, err := ledger.New(state).Maintained(ctx)
	checks := checkClock(state)
	if err != nil && !storage.NotFound(err) {
		return append(checks, NewCheck("Maintain", "", err))
	}
	return append(checks, judgeMaintained(m)...)
}

// checkClock compares this machine's clock with the header Date of the account's answers, including refusals. Without an answer,
// it returns no check.
func checkClock(t *storage.Table) []Check {
	now, known := t.Now(time.Now())
	if !known {
		return nil
	}
	return []Check{judgeClock(time.Since(now))}
}

func (a App) hostJSON() Check {
	read, err := hostjson.Load(a.Root, a.Settings.Get)
	if errors.Is(err, fs.ErrNotExist) {
		return Check{"host.json", Unknown, "this folder has no host.json; run the command in the app's folder"}
	}
	if err != nil {
		return NewCheck("host.json", "", err)
	}
	return judgeHost(read)
}

// mayWrite checks the permission to write rows of one of the app's own tables.
func mayWrite(ctx context.Context, name string, t *storage.Table) Check {
	exists, err := t.MayWrite(ctx)
	if err == nil && !exists {
		return Check{name, Failed, "there is no table " + t.Name() + "; start the app, which creates this table"}
	}
	return NewCheck(name, t.Name()+" can be written", err)
}
