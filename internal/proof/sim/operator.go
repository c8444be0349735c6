package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// longest is the longest time that a scan may take. Including all waits for leases, outages and retries, a run takes at most a few hours unless it hangs.
	longest = 12 * time.Hour
	// maxRetries is the greatest number of times that the operator retries a scan.
	maxRetries = 30
	// callLimit is the cloud's time limit for an HTTP call. Afterwards, the caller gets no answer, but the function continues.
	callLimit = 230 * time.Second
)

// operator starts, cancels and retries scans in a world. It also removes rows that prevent a scan's writes, and deletes rows of scans from the
// state table.
type operator struct{ *world }

// operate starts the plan's scans and follows each until its end. It retries scans that failed for a temporary reason.
func (o operator) operate() {
	time.Sleep(time.Second) // until all machines run
	var scans sync.WaitGroup
	for _, s := range o.plan.Scans {
		if s.Follows {
			scans.Wait()
		}
		if id := o.startScan(s); id != "" {
			scans.Go(func() { o.follow(id, s) })
		}
	}
	close(o.started)
	scans.Wait()
	// If the answer to a start was lost, the operator may not have the scan's id.
	for _, id := range o.listed() {
		if s, ok := o.planned(id); ok && isRoot(id) {
			s.Cancel, s.Meddle, s.Twice = 0, 0, false
			o.follow(id, s)
		}
	}
}

// request sends a request of the operator to one of the machines.
func (o operator) request(method, path string, body []byte) answer {
	m := o.pick(method, path)
	for ; m == nil; m = o.pick(method, path) {
		time.Sleep(time.Second)
	}
	limit := time.NewTimer(callLimit)
	defer limit.Stop()
	select {
	case a := <-m.call(method, path, body, "operator "+time.Since(o.start).String()):
		o.log.Info().Str("request", method+" "+path).Int("status", a.status).Err(a.err).Bytes("answer", a.body).Msg("operator")
		return a
	case <-limit.C:
		return answer{status: http.StatusGatewayTimeout}
	}
}

// startScan starts a scan and returns its id. Without an answer, it waits until the scan would be listed. If the scan is not listed then, it starts another.
func (o operator) startScan(s PlannedScan) ledger.ScanID {
	body, err := json.Marshal(s.Request)
	if err != nil {
		o.violated("request: %v", err)
	}
	for range maxRetries {
		a := o.request(http.MethodPost, "/api/scans", body)
		var started struct{ ID ledger.ScanID }
		switch {
		case a.status == http.StatusAccepted:
			if err := json.Unmarshal(a.body, &started); err != nil {
				o.violated("answer %s: %v", a.body, err)
			}
			return started.ID
		case a.status == http.StatusConflict && s.Request.Action.Destination != nil && s.Request.Action.Destination.Container == exports: // an earlier start, whose answer was lost, has claimed the place
		case a.status >= 400 && a.status < 500:
			o.violated("POST /api/scans %s: %d %s", body, a.status, a.body)
			return ""
		}
		time.Sleep(15 * time.Minute)
		for _, id := range o.listed() {
			if other, ok := o.planned(id); ok && isRoot(id) && target(other.Request) == target(s.Request) {
				return id
			}
		}
	}
	o.violated("the scan could not be started %d times", maxRetries)
	return ""
}

// target identifies one of the plan's scans.
func target(r scans.Request) string {
	switch {
	case r.Source.Tables != "":
		return "Group" + r.Name
	case r.Action.Type == scans.Delete:
		return r.Source.Table
	case r.Action.Destination != nil:
		return r.Action.Destination.Table + r.Action.Destination.Prefix
	}
	return r.Action.Type + r.Name
}

// listed returns the ids of all scans that exist, in order.
func (w *world) listed() []ledger.ScanID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.witness.scans))
}

// whose splits a scan's id. root is the id of the scan that the operator started. `verifies` is true if this scan verifies that scan, and number is this scan's
// number in the group.
func whose(id ledger.ScanID) (root ledger.ScanID, verifies bool, number int) {
	if group, n, ok := id.InGroup(); ok {
		id, number = group, n
	}
	if of, ok := id.Verifies(); ok {
		return of, true, number
	}
	return id, false, number
}

func isRoot(id ledger.ScanID) bool { root, _, _ := whose(id); return root == id }

// planned returns the plan's scan for the id of that scan, of a member of its group, or of a scan that verifies it.
func (w *world) planned(id ledger.ScanID) (PlannedScan, bool) {
	root, _, _ := whose(id)
	w.mu.Lock()
	request := w.witness.scans[root].Request
	w.mu.Unlock()
	var r scans.Request
	if err := json.Unmarshal(request, &r); err != nil {
		w.violated("request of scan %s: %v", id, err)
	}
	for _, p := range w.plan.Scans {
		if target(p.Request) == target(r) {
			return p, true
		}
	}
	w.violated("scan %s is not in the plan: %s", id, request)
	return PlannedScan{}, false
}

// follow cancels a scan if the plan requires this, retries it as long as a retry helps, and returns after the scan's last end.
func (o operator) follow(id ledger.ScanID, s PlannedScan) {
	if s.Lose > 0 {
		o.group.Go(func() { o.lose(id, s.Lose) })
	}
	if s.Meddle > 0 && s.Cancel == 0 { // the member may have ended
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			o.mu.Lock()
			begun := o.witness.scans[id.Member(1)].State != ""
			o.mu.Unlock()
			if begun {
				break
			}
		}
		time.Sleep(s.Meddle)
		o.request(http.MethodDelete, "/api/scans/"+string(id.Member(1)), nil)
		time.Sleep(s.Rest)
		o.request(http.MethodPost, "/api/scans/"+string(id.Member(1))+"/retry", nil)
	}
	if s.Cancel > 0 {
		time.Sleep(s.Cancel)
		if a := o.change(http.MethodDelete, "/api/scans/"+string(id), nil); a.status == http.StatusAccepted {
			o.cancel(s, true)
		}
	}
	for retries := 0; ; retries++ {
		row, ok := o.waitForEnd(id)
		switch {
		case !ok:
			o.violated("scan %s hangs: %+v", id, row)
			return
		case row.State == ledger.Succeeded:
			if s.Request.Verify {
				o.follow(id+"-v", s.verification(o.plan.Source))
			}
			return
		case row.State == ledger.Failed:
			if onlyRows := o.failure(id, row, s); s.group() && onlyRows && !o.mend(s) {
				return
			}
		case row.State == ledger.Canceled:
			time.Sleep(s.Rest)
			o.cancel(s, false)
		}
		if retries == maxRetries {
			o.violated("scan %s did not succeed in %d retries: %+v", id, retries, row)
			return
		}
		a := o.retry(id, s, false)
		if a.status == http.StatusConflict && strings.Contains(string(a.body), "every step is done") {
			if s.Request.Action.Destination == nil || s.Request.Action.Type == scans.Verify || !o.mend(s) {
				return
			}
			o.retryRows(id, s)
		}
		if a.status == http.StatusConflict && s.Lose > 0 && strings.Contains(string(a.body), "tart a new scan") {
			return
		}
		o.count(&o.stats.Retries)
	}
}

// cancel records that the operator canceled a scan or, if `canceled` is false, that it will retry the scan.
func (o operator) cancel(s PlannedScan, canceled bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.canceled, target(s.Request))
	if canceled {
		o.canceled[target(s.Request)] = time.Now()
	}
}

// lose waits, and then deletes one of the scan's pending steps or files from the state table, if there is one. It may also delete a pending or done step. A
// fault may prevent the deletion.
func (o operator) lose(id ledger.ScanID, after time.Duration) {
	if !task.Sleep(o.over, after) {
		return
	}
	rows := o.table(o.account, stateTable)
	if slices.ContainsFunc(rows, func(row storage.Entity) bool {
		return row.Key == key.Key{Partition: string(id), Row: "s"} && row.Get("State") == string(ledger.Succeeded)
	}) {
		return // its steps are never read again
	}
	lose := func(what, kinds string) {
		some := slices.DeleteFunc(slices.Clone(rows), func(row storage.Entity) bool {
			kind, _, _ := strings.Cut(row.Key.Row, "|")
			return row.Key.Partition != string(id) || !strings.Contains(kinds, kind)
		})
		if len(some) == 0 {
			return
		}
		lost := some[draw(o.plan.Seed, what, string(id))%uint64(len(some))].Key
		err := o.account.Table(stateTable).With(storage.RequestOptions{Once: true}).Write(o.over, storage.Op{Kind: storage.Delete, Row: storage.Row{Key: lost}})
		o.log.Info().Str("row", lost.Row).Err(err).Msg("lost")
		if err == nil {
			o.count(&o.stats.Lost)
		}
	}
	if lose("lose", "pw"); chance(0.5, draw(o.plan.Seed, "another", string(id))) {
		lose("lose another", "pd")
	}
}

// failure checks that a failed scan has a reason that the plan allows, such as lost rows of the state table. It reports whether failed rows are the reason.
func (o operator) failure(id ledger.ScanID, row scanRow, s PlannedScan) (onlyRows bool) {
	if s.group() {
		return o.groupFailure(id, row, s)
	}
	o.failed.Store(true)
	o.count(&o.stats.Failures)
	failedRows := (strings.Contains(row.Error, " row could not be written; the first: PartitionKey") || strings.Contains(row.Error, " rows could not be written; the first: PartitionKey"))
	gaveUp := strings.Contains(row.Error, "a step failed 5 times; the last failure: ") || strings.Contains(row.Error, "was begun 5 times and never finished") ||
		strings.Contains(row.Error, " and never finished; the last failure: ")
	lost := s.Lose > 0 && strings.Contains(row.Error, ledger.RowsLost)
	differs := expect(s, o.plan.Source).differences() > 0 && strings.Contains(row.Error, "missing rows: ")
	if !failedRows && !gaveUp && !lost && !differs || gaveUp && o.plan.Calm {
		o.violated("a scan failed with %q", row.Error)
	}
	return failedRows
}

// groupFailure is like failure, but for a group, and checks the reasons of the members. It reports whether members have failed, each because of failed rows.
func (o operator) groupFailure(id ledger.ScanID, row scanRow, s PlannedScan) (onlyRows bool) {
	if !strings.Contains(row.Error, fmt.Sprintf(" of %d tables failed: ", s.Tables)) || strings.Contains(row.Error, ": running") {
		o.violated("a group failed with %q", row.Error)
	}
	failed := false // still false at the end if a canceled member has succeeded since, after its own retry
	onlyRows = true
	for i, m := range s.members() {
		o.mu.Lock()
		member := o.witness.scans[id.Member(i+1)]
		o.mu.Unlock()
		switch member.State {
		case ledger.Succeeded:
		case ledger.Failed:
			failed = true
			onlyRows = o.failure(id.Member(i+1), member, m) && onlyRows
		default:
			if onlyRows = false; s.Meddle == 0 && s.Cancel == 0 {
				o.violated("a group failed with its scan %d %+v", i+1, member)
			}
		}
	}
	return onlyRows && failed
}

func (o operator) waitForEnd(id ledger.ScanID) (scanRow, bool) {
	for {
		o.mu.Lock()
		row := o.witness.scans[id]
		o.mu.Unlock()
		open := row.State == ledger.Running || row.State == "" // a verification may not have started yet
		if !open || time.Since(o.start) > longest {
			return row, !open
		}
		time.Sleep(5 * time.Second)
	}
}

// mend removes a third of the destination's rows that prevent the scan's writes. It returns false if the plan has no more rounds.
func (o operator) mend(s PlannedScan) bool {
	o.mu.Lock()
	round := o.rounds[target(s.Request)]
	o.rounds[target(s.Request)]++
	o.mu.Unlock()
	if round >= s.Rounds {
		return false
	}
	for _, m := range s.members() {
		t := o.accountOf(m).Table(m.Request.Action.Destination.Table)
		for i, k := range expect(m, o.plan.Source).mended {
			for (i+1)%3 == round {
				err := t.Write(context.Background(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: k}})
				if err == nil || storage.NotFound(err) {
					break
				}
				time.Sleep(time.Second)
			}
		}
	}
	return true
}

// retryRows retries the scan's failed rows.
func (o operator) retryRows(id ledger.ScanID, s PlannedScan) {
	var calls sync.WaitGroup
	if s.Twice && !s.ByStorage {
		calls.Go(func() { o.retry(id, s, true) })
	}
	o.retry(id, s, true)
	calls.Wait()
	o.count(&o.stats.Redone)
}

// retry retries a scan. If `rows` is true, it also retries the scan's failed rows.
func (o operator) retry(id ledger.ScanID, s PlannedScan, rows bool) answer {
	switch {
	case s.ByStorage:
		return o.requestRetry(id, rows)
	case rows:
		return o.change(http.MethodPost, "/api/scans/"+string(id)+"/retry", []byte(`{"rows":"failed"}`))
	}
	return o.change(http.MethodPost, "/api/scans/"+string(id)+"/retry", nil)
}

// requestRetry writes a request for a retry into the ledger, like a command. It waits until an instance has fulfilled the request, and checks that the scan
// was retried only once.
func (o operator) requestRetry(id ledger.ScanID, rows bool) answer {
	command, err := engine.New(scans.Options{Own: o.account, StateTable: stateTable})
	if err != nil {
		panic("sim: internal error: " + err.Error())
	}
	ctx := context.Background()
	var before ledger.Scan
	for {
		if before, err = o.ledger().Scan(ctx, id); err == nil {
			err = command.RequestRetry(ctx, id, rows)
		}
		if err == nil || problem.FateOf(err) != problem.Retry || time.Since(o.start) > longest {
			break
		}
		time.Sleep(30 * time.Second)
	}
	if err != nil {
		return answer{status: problem.Status(err), body: []byte(err.Error())}
	}
	for {
		switch a, there, err := o.ledger().StartRequest(ctx, id); {
		case err == nil && a.Refused != "":
			return answer{status: http.StatusConflict, body: []byte(a.Refused)}
		case err == nil && !there:
			if after, err := o.ledger().Scan(ctx, id); err == nil && after.Attempt != before.Attempt+1 {
				o.violated("after one request for a retry, the attempt of scan %s went from %d to %d", id, before.Attempt, after.Attempt)
			}
			return answer{status: http.StatusAccepted}
		case time.Since(o.start) > longest:
			o.violated("no process has retried scan %s: %+v, %v", id, a, err)
			return answer{status: http.StatusConflict}
		}
		time.Sleep(5 * time.Second)
	}
}

// change repeats a request until the answer is a success or a conflict.
func (o operator) change(method, path string, body []byte) answer {
	for {
		a := o.request(method, path, body)
		switch {
		case a.status == http.StatusAccepted || a.status == http.StatusConflict:
			return a
		case a.status >= 400 && a.status < 500 || time.Since(o.start) > longest:
			o.violated("%s %s: %d %s", method, path, a.status, a.body)
			return a
		}
		time.Sleep(30 * time.Second)
	}
}
