package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

const (
	// clockSlack is the smallest difference from the service's clock that causes a warning.
	clockSlack = 30 * time.Second
	// clockLimit is the maximum difference that the service accepts between its own time and the time in a signed request.
	// (Microsoft Learn, "Authorize with Shared Key")
	clockLimit = 15 * time.Minute
	// If Maintain's last run is older than maintainLate, the check reports a problem. A run is due every minute, and takes at
	// most a few minutes.
	maintainLate = 10 * time.Minute
	// shortestRetry is the minimum wait before a message's next delivery. With a shorter wait, all five deliveries could fail in one short outage.
	shortestRetry = 5 * time.Second
	// shortestTimeout is the shortest functionTimeout that causes no warning, because no step takes longer.
	shortestTimeout = 10 * time.Minute
	// memoryCheck is the name of the memory check, which doctor always shows.
	memoryCheck = "memory"
)

// judgeClock judges a clock by its lead over the service's clock. The lead is negative if the clock is behind. The lead is inexact, because the
// header Date has whole seconds.
func judgeClock(lead time.Duration) Check {
	how := "ahead of"
	if lead < 0 {
		how, lead = "behind", -lead
	}
	detail := fmt.Sprintf("%v %s the storage's", lead.Round(time.Second), how)
	switch {
	case lead >= clockLimit:
		return Check{"clock", Failed, detail + "; set this machine's clock, because the storage refuses signed requests if the difference is 15 minutes or more"}
	case lead >= clockSlack:
		return Check{"clock", Warning, detail + "; set this machine's clock"}
	}
	return Check{"clock", OK, "right to within " + clockSlack.String()}
}

// judgeOther judges another account by its answer to a query of a missing table. Scans wait for an unavailable account, so the result is only a
// warning.
func judgeOther(connection string, err error) Check {
	name := "connection " + connection
	switch {
	case storage.Passing(err):
		return Check{name, Warning, oneLine("steps that need this account have to wait: " + err.Error())}
	case storage.Denied(err):
		return Check{name, Warning, oneLine("the account refuses this app: " + err.Error())}
	}
	return Check{name, OK, "answers"}
}

// judgeHeartbeats judges the connections that living processes wait for.
func judgeHeartbeats(heartbeats []ledger.Heartbeat) Check {
	problems := map[string]string{}
	for _, b := range heartbeats {
		if b.Age >= status.AliveTime {
			continue
		}
		for _, w := range b.Waiting {
			problems[w.Connection] = fmt.Sprintf("steps have been waiting for %s since %s: %s", w.Connection, w.Since.UTC().Format(time.TimeOnly+" UTC"), w.Cause)
		}
	}
	if len(problems) == 0 {
		return Check{"steps", OK, "no process reports that a step waits for a connection or for memory"}
	}
	return Check{"steps", Warning, oneLine(strings.Join(slices.Sorted(maps.Values(problems)), "; "))}
}

// judgeMemory reports the instance's memory, and the part that the app's work uses.
func judgeMemory(i memory.Instance, u memory.Usage) Check {
	detail := fmt.Sprintf("the instance has %d MB (by %s); rows, bodies and answers may use %d MB, use %d MB now, and have used at most %d MB",
		i.Bytes>>20, i.From, u.Bytes>>20, u.Used>>20, u.Most>>20)
	if u.Waiting > 0 {
		detail += fmt.Sprintf("; steps and calls waiting for memory: %d", u.Waiting)
	}
	if i.Left() < memory.Least {
		return Check{memoryCheck, Warning, fmt.Sprintf("%s; the Functions host leaves only %d MB for the app: use larger instances (instanceMemoryMB), or set %s to the actual size of the instances", detail, i.Left()>>20, memory.Setting)}
	}
	return Check{memoryCheck, OK, detail}
}

func judgeMaintained(m ledger.Maintained) []Check {
	const name = "Maintain"
	if m.At.IsZero() {
		return []Check{{name, Warning, "has never run, but should run every minute; check that the app is started, and read its log"}}
	}
	ago := fmt.Sprintf("ran %v ago", m.Age().Round(time.Second))
	run := Check{name, OK, ago}
	switch {
	case m.Age() >= maintainLate:
		run = Check{name, Warning, ago + ", but should run every minute; check that the app is started, and read its log"}
	case m.Error != "":
		run = Check{name, Warning, ago + " and failed: " + oneLine(m.Error)}
	}
	poison := Check{"poison queues", OK, "empty"}
	if m.Poison > 0 {
		poison = Check{"poison queues", Warning, fmt.Sprintf("the app has not handled %s; read the queues whose names end in -poison, then delete their messages", problem.Plural(m.Poison, "message"))}
	}
	return []Check{run, poison}
}

// JudgeSchedules judges an app's schedules; without schedules, it returns no check. settingsErr is the error of invalid schedules in the settings.
// err is the error of reading the list.
func JudgeSchedules(list schedule.ScheduleList, settingsErr, err error) (checks []Check) {
	const name = "schedules"
	if settingsErr != nil {
		checks = append(checks, Check{name, Warning, oneLine(settingsErr.Error())})
	}
	if err != nil {
		return append(checks, Check{name, Warning, oneLine("cannot be read: " + err.Error())})
	}
	for _, s := range list.Schedules {
		if s.Removed {
			continue
		}
		success, state, detail := "it has never succeeded", OK, "no success yet"
		if s.Success != nil {
			success = "the newest success is the occurrence of " + s.Success.Occurrence.Format(time.RFC3339)
			detail = success
			if p := s.Success.Proof; p != nil && p.State == schedule.ProofFailed {
				state, success = Warning, success+", but its verification has failed: "+p.Error
				detail = success
			}
		}
		if s.Overdue {
			state, detail = Warning, success+", older than two periods"
		}
		if s.Last != nil && s.Last.State == ledger.Failed {
			detail += "; the occurrence of " + s.Last.Occurrence.Format(time.RFC3339) + " has failed: " + s.Last.Error
		}
		checks = append(checks, Check{"schedule " + s.Name, state, oneLine(detail)})
	}
	return checks
}

// judgeHost judges the values of host.json on which scans depend.
func judgeHost(a hostjson.App) Check {
	const name = "host.json"
	q := a.Queues
	switch {
	case !q.Base64:
		return Check{name, Failed, `messageEncoding must be "base64", because the app sends its messages in base64`}
	case !a.Handler.Proxy:
		return Check{name, Failed, "enableProxyingHttpRequest must be true, because the app needs the unchanged requests of its callers"}
	case q.MaxDequeue != scans.MaxDeliveries:
		return Check{name, Warning, fmt.Sprintf("maxDequeueCount is %d; set it to %d, the number of deliveries that the app expects", q.MaxDequeue, scans.MaxDeliveries)}
	case q.Visibility < shortestRetry:
		return Check{name, Warning, fmt.Sprintf("visibilityTimeout is %v, so the host repeats a failed message too soon, and a short outage uses up all deliveries of the message; set visibilityTimeout to 00:00:10", q.Visibility)}
	case a.FunctionTimeout > 0 && a.FunctionTimeout < shortestTimeout:
		return Check{name, Warning, fmt.Sprintf("functionTimeout is %v, which is too short for a step of up to 9 minutes: the host would end the process with all its steps; set functionTimeout to 00:10:00", a.FunctionTimeout)}
	}
	return Check{name, OK, fmt.Sprintf("with batchSize %d and newBatchThreshold %d, each function runs up to %d steps at the same time on an instance; visibilityTimeout is %v", q.BatchSize, q.NewBatchThreshold, q.BatchSize+q.NewBatchThreshold, q.Visibility)}
}
