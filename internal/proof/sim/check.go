package sim

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/host"
	"tablesweep/internal/place"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// maxListed is the greatest number of scans in a run.
const maxListed = 100

// settling is how long messages may remain after the last scan's end. The messages of a lost machine reappear when their lease ends, up to five times.
const settling = (scans.MaxDeliveries + 1) * (host.MessageLease + time.Minute)

// settle waits until no message is in a queue, and no scan or request is listed as open. If requests may be late, it checks twice, because some may be under
// way.
func (w *world) settle() {
	quiet := false
	for end := time.Now().Add(settling); ; time.Sleep(maxLate + 5*time.Second) {
		messages, open := w.left()
		switch {
		case messages == 0 && open == 0 && (quiet || w.plan.Late == 0):
			return
		case time.Now().After(end):
			w.violated("%d messages and %d open scans are left %v after the last scan's end", messages, open, settling)
			return
		}
		quiet = messages == 0 && open == 0
	}
}

func (w *world) left() (messages, open int) {
	ctx := context.Background()
	for _, name := range slices.Sorted(maps.Values(scans.Queues)) {
		for _, name := range []string{name, name + "-poison"} {
			if n, err := queue(w.account, name).Length(ctx); err == nil {
				messages += n
			} else if !storage.NotFound(err) {
				w.violated("queue %s: %v", name, err)
			}
		}
	}
	scans, err := w.ledger().Open(ctx)
	if err != nil {
		w.violated("open scans: %v", err)
	}
	requests, err := w.ledger().StartRequests(ctx)
	if err != nil {
		w.violated("start requests: %v", err)
	}
	requests = slices.DeleteFunc(requests, func(a ledger.StartRequest) bool { return a.Refused != "" }) // checkLedger checks these
	return messages, len(scans) + len(requests)
}

func queue(a *storage.Account, name string) *storage.Queue {
	q, err := a.Queue(name)
	if err != nil {
		panic("sim: internal error: " + err.Error())
	}
	return q
}

func (w *world) clearQueues() {
	ctx := context.Background()
	for _, name := range slices.Sorted(maps.Values(scans.Queues)) {
		for {
			messages, err := queue(w.account, name).Get(ctx, storage.MaxGetMessages, host.MessageLease)
			if err != nil || len(messages) == 0 {
				break
			}
			for _, m := range messages {
				_ = queue(w.account, name).Delete(ctx, m) // a remaining message does no harm
			}
		}
	}
}

// checker checks the results after the end of the run.
type checker struct{ *world }

// checkQueue checks that the queue has messages for exactly the given rows. A row may have several messages.
func (c checker) checkQueue(rows []storage.Entity) {
	got, want := map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		want[row.Key.Partition+"|"+row.Key.Row] = true
	}
	for {
		messages, err := queue(c.account, sink).Get(context.Background(), storage.MaxGetMessages, host.MessageLease)
		if err != nil || len(messages) == 0 {
			break
		}
		for _, m := range messages {
			text, _ := base64.StdEncoding.DecodeString(m.Text)
			got[string(text)] = true
		}
	}
	if !maps.Equal(got, want) {
		c.violated("the queue has the messages %v, want %v", got, want)
	}
}

func (c checker) check() {
	c.stats.Duplicates = c.storage.FaultCounts()[string(fault.Duplicate)]
	if err := c.setFaults(""); err != nil {
		c.violated("faults: %v", err)
	}
	unfinished := map[string]bool{} // scans that lost rows of the state table and so did not finish, by their targets
	for _, id := range c.listed() {
		switch s, ok := c.planned(id); {
		case !ok:
		case c.lost(id, s):
			unfinished[target(s.Request)] = true
		default:
			c.checkScan(id, s)
		}
	}
	for _, s := range c.plan.Scans {
		switch to := s.Request.Action.Destination; {
		case unfinished[target(s.Request)]:
		case s.Request.Action.Type == scans.Delete:
			c.checkTable(c.account, s.Request.Source.Table, nil)
		case s.Request.Action.Type == scans.Enqueue:
			c.checkQueue(expect(s, c.plan.Source).rows)
		case to == nil:
		case s.Request.Action.Type == scans.Verify:
			c.checkTable(c.account, to.Table, s.Destination)
		default:
			for _, m := range s.members() {
				if to := m.Request.Action.Destination; to.Container != "" {
					c.checkExport(m)
				} else {
					c.checkTable(c.accountOf(m), to.Table, expect(m, c.plan.Source).rows)
				}
			}
			if s.group() && to.Container != "" {
				c.checkSummary(s)
			}
		}
	}
	c.checkLedger()
	c.checkTable(c.account, "Source", c.plan.Source)
	if c.plan.Calm && c.stats.Resent > 0 {
		c.violated("Maintain sent %d messages again as lost, although nothing failed", c.stats.Resent)
	}
	if messages, open := c.left(); messages > 0 || open > 0 {
		c.violated("%d messages and %d open scans are left", messages, open)
	}
}

// lost reports whether a scan may have lost rows of the state table and has not succeeded.
func (c checker) lost(id ledger.ScanID, s PlannedScan) bool {
	return s.Lose > 0 && c.witness.succeeded[id] == 0
}

// checkLedger checks the ledger's rows. They must belong to scans that the witness saw begin, or to no scan, such as hints.
func (c checker) checkLedger() {
	scans := c.listed()
	for _, row := range c.table(c.account, stateTable) {
		kind, rest, _ := strings.Cut(row.Key.Row, "|")
		id, listed := ledger.ScanID(row.Key.Partition), ledger.ScanID(strings.ReplaceAll(rest, "|", "-"))
		switch pk := row.Key.Partition; {
		case pk == "hints" || pk == "beats" || pk == "maintain":
		case pk == "scans" && (kind == "a" || kind == "t" || kind == "m") && slices.Contains(scans, listed):
		case pk == "scans" && kind == "i": // the claim of a start, which may never have begun
		case slices.Contains(scans, id) && slices.Contains([]string{"s", "h", "d", "x", "w", "g"}, kind):
		case slices.Contains(scans, id) && kind == "y":
			if s, ok := c.planned(id); ok && s.Request.Limits == nil {
				c.violated("scan %s has no limits, but it has the row for limits", id)
			}
		case pk == "scans" && kind == "r" && row.Get("Error") != "" && slices.Contains(scans, listed):
			// The scan has lost rows between the request for its retry and the retry.
			if s, ok := c.planned(listed); !ok || !s.ByStorage || !c.lost(listed, s) {
				c.violated("the request for scan %s was refused: %s", listed, row.Get("Error"))
			}
		case slices.Contains(scans, id) && kind == "p":
			if s, ok := c.planned(id); !ok || !c.lost(id, s) {
				c.violated("scan %s has ended, but its step %q is pending", id, row.Key.Row)
			}
		default:
			c.violated("the ledger still has the row %q %q", pk, row.Key.Row)
		}
	}
}

// checkScan checks the figures of a scan. It may be a scan of the plan, a member of the plan's group, or the verification of either.
func (c checker) checkScan(id ledger.ScanID, p PlannedScan) {
	ctx := context.Background()
	_, verifies, number := whose(id)
	if verifies {
		p = p.verification(c.plan.Source)
	}
	if number > p.Tables {
		c.violated("the group has the additional scan %s", id)
		return
	}
	if number > 0 {
		p = p.members()[number-1]
	}
	want := expect(p, c.plan.Source)
	e, err := engine.New(scans.Options{Own: c.account, Accounts: c.accounts(c.account, c.beside), StateTable: stateTable})
	if err != nil {
		c.violated("engine.New: %v", err)
	}
	s, err := e.Status(ctx, id)
	if err != nil {
		c.violated("status of scan %s: %v", id, err)
		return
	}
	page, err := e.List(ctx, status.ListQuery{Top: maxListed})
	list := page.Scans
	if number > 0 && err == nil {
		group, _, _ := id.InGroup()
		page, err = e.Members(ctx, group, maxListed, "", "")
		list = page.Scans
	}
	if i := slices.IndexFunc(list, func(l status.Status) bool { return l.ID == id }); i < 0 || list[i].Rows != s.Rows || list[i].Steps != s.Steps || list[i].State != s.State {
		c.violated("scan %s is listed with another state than in its status: %v, %+v", id, err, list)
	}
	var totals ledger.Totals // of the done rows in the state table
	for _, row := range c.table(c.account, stateTable) {
		of := ledger.ScanID(row.Key.Partition)
		if group, _, _ := of.InGroup(); (of == id || group == id) && strings.HasPrefix(row.Key.Row, "d|") {
			totals.Steps += row.Int("Steps")
			totals.Rows += row.Int("Rows")
		}
	}
	if s.Steps.Pending != 0 {
		c.violated("scan %s has %d pending steps", id, s.Steps.Pending)
	}
	state := want.state()
	got := expected{scanned: s.Rows.Scanned, written: s.Rows.Written, failed: s.Rows.Failed}
	if s.State != state || got.scanned != want.scanned || got.written != want.written || got.failed != want.failed || s.Rows.Gone != 0 || s.Steps.Done != totals.Steps || totals.Rows != want.scanned {
		c.violated("scan %s: %+v, done steps %+v, want %s with %d rows scanned, %d written, %d failed", id, s, totals, state, want.scanned, want.written, want.failed)
	}
	if d := s.Differences; d != nil && *d != (status.Differences{Missing: want.missing, Extra: want.extra, Different: want.changed}) || (d == nil) != (p.Request.Action.Type != scans.Verify) {
		c.violated("scan %s found %+v, want %d rows missing, %d extra, %d different", id, d, want.missing, want.extra, want.changed)
	}
	if m := s.Members; p.group() && (m.All != int64(p.Tables) || m.Succeeded+m.Failed != m.All || (m.Failed > 0) != (want.failed > 0)) {
		c.violated("group %s has the scans %+v, want %d", id, m, p.Tables)
	}
	if v := s.Verification; p.Request.Verify && state == ledger.Succeeded && (v == nil || v.State != ledger.Succeeded) {
		c.violated("scan %s is not verified: %+v", id, v)
	}
	if !p.group() {
		kept, err := e.Failed(ctx, id, 1000, "")
		if bad := want.failed + want.differences(); err != nil || int64(len(kept.Rows)) != bad || kept.Kept != bad {
			c.violated("scan %s lists %d failed rows, and counts %d, %v; want %d", id, len(kept.Rows), kept.Kept, err, bad)
		}
		for _, k := range want.bad {
			if !slices.ContainsFunc(kept.Rows, func(r scans.FailedRow) bool { return r.PartitionKey == k.Partition && r.RowKey == k.Row }) {
				c.violated("scan %s does not list %v as failed", id, k)
			}
		}
		ranges, err := e.Ranges(ctx, id)
		if failed := slices.ContainsFunc(ranges.Ranges, func(r status.KeyRange) bool { return r.State == status.RangeFailed }); err != nil || failed != (state == ledger.Failed) {
			c.violated("scan %s shows failed ranges: %v, %v", id, failed, err)
		}
	}
	if s.StartedAt.Before(c.start.Add(-time.Second)) || s.FinishedAt != nil && (s.FinishedAt.Before(s.StartedAt) || s.FinishedAt.After(time.Now().Add(time.Second))) {
		c.violated("scan %s began at %v and ended at %v", id, s.StartedAt, s.FinishedAt)
	}
	if s.FinishedAt == nil || (s.Error != "") != (state == ledger.Failed) {
		c.violated("scan %s lacks its end or its reason: %+v", id, s)
	}
}

func (w *world) table(a *storage.Account, name string) []storage.Entity {
	var rows []storage.Entity
	err := a.Table(name).All(context.Background(), storage.Query{}, func(p storage.Page) error {
		rows = append(rows, p.Entities()...)
		return nil
	})
	if err != nil {
		w.violated("read table %s: %v", name, err)
	}
	return rows
}

// checkSummary checks that the summary of an export of many tables was written after the last member succeeded and before the group succeeded.
func (c checker) checkSummary(s PlannedScan) {
	objects, err := place.InContainer(c.account, exports, s.Request.Action.Destination.Prefix)
	if err != nil {
		panic("sim: internal error: " + err.Error())
	}
	all, err := place.OpenTables(context.Background(), objects)
	if err != nil || len(all.Tables) != s.Tables {
		c.violated("the summary of %s has %+v, %v; want %d tables", target(s.Request), all, err, s.Tables)
	}
	put := c.witness.puts[blobPut(s.Request.Action.Destination.Prefix, place.TablesName)]
	for _, id := range c.listed() {
		of, ok := c.planned(id)
		_, verifies, number := whose(id)
		at := c.witness.succeeded[id]
		if ok && target(of.Request) == target(s.Request) && !verifies && (at == 0 || (number > 0) != (at < put)) {
			c.violated("scan %s succeeded with event %d, but the summary of the tables was written with event %d", id, at, put)
		}
	}
}

// checkExport checks that an export has the source's rows. Its manifest must have been written last, but before its scan succeeded.
func (c checker) checkExport(s PlannedScan) {
	prefix, want := s.Request.Action.Destination.Prefix, s.rows(c.plan.Source)
	ctx := context.Background()
	objects, err := place.InContainer(c.account, exports, prefix)
	if err != nil {
		panic("sim: internal error: " + err.Error())
	}
	e, err := place.Open(ctx, objects)
	if err != nil {
		c.violated("export %s: %v", prefix, err)
		return
	}
	var got []storage.Entity
	for q := (storage.Query{}); ; {
		p, _, err := e.Read(ctx, storage.RequestOptions{}, q)
		if err != nil {
			c.violated("export %s: %v", prefix, err)
			return
		}
		got = append(got, p.Entities()...)
		if q.Token = p.Next; p.Next == nil {
			break
		}
	}
	if !slices.EqualFunc(got, want, storage.Equal) {
		c.violated("export %s has %d rows that differ from the %d wanted ones", prefix, len(got), len(want))
	}
	c.stats.Exports++
	sealed := c.witness.puts[blobPut(prefix, place.ManifestName)]
	for put, at := range c.witness.puts {
		if at > sealed && put == blobPut(prefix, place.FilesName) {
			c.violated("export %s: the manifest was written before the list of files", prefix)
		}
	}
	for _, id := range c.listed() {
		_, _, number := whose(id)
		if of, ok := c.planned(id); ok && target(of.Request) == target(s.Request) && (number == 0 || number == s.number) && c.witness.succeeded[id] < sealed {
			c.violated("scan %s had succeeded before its export was complete", id)
		}
	}
}

func (c checker) checkTable(a *storage.Account, name string, want []storage.Entity) {
	got := c.table(a, name)
	if slices.EqualFunc(got, want, storage.Equal) {
		return
	}
	c.violated("table %s has %d rows that differ from the %d wanted ones", name, len(got), len(want))
	for i := range min(len(got), len(want)) {
		if !storage.Equal(got[i], want[i]) {
			c.violated("row %d is %v, want %v", i, strings.TrimSpace(got[i].Key.Partition+" "+got[i].Key.Row), want[i].Key)
			return
		}
	}
}
