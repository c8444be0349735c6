package engine_test

import (
	"testing"

	"tablesweep/internal/proof/bugtest"
)

const schedulesFile, backupsFile, groupFile = "internal/scans/schedule/schedules.go", "internal/scans/schedule/backups.go", "internal/scans/life/group.go"

// bugs lists the planted bugs that tests of schedules and groups must find.
var bugs = []bugtest.Bug{
	{Name: "an occurrence starts twice", Test: "TestOccurrenceStartsOnce", Prints: "scans of two schedules", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/ledger/schedules.go", "	if write.IfMatch = r.etag; r.etag == \"\" {\n", "	if write.IfMatch = r.etag; WRONG {\n		write.IfMatch = \"\"\n	} else if r.etag == \"\" {\n"),
		bugtest.In(schedulesFile, "	r.Last, r.Request, r.DecidedAt, r.RunBy = &Run{ID: ledger.ScanID(calendar.ID(s.Name, occurrence))", "	id := ledger.ScanID(calendar.ID(s.Name, occurrence))\n	if WRONG {\n		id = ledger.NewScanID(now)\n	}\n	r.Last, r.Request, r.DecidedAt, r.RunBy = &Run{ID: id"),
	}},
	{Name: "a request for a retry is of any attempt", Test: "TestRetryRequestIsForOneAttempt", Prints: "want the second attempt canceled", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/retry.go", "attempt != 0 && s.Attempt != attempt,", "attempt != 0 && s.Attempt != attempt && !WRONG,"),
	}},
	{Name: "a command's start is not checked", Test: "TestRefusedCommandRequest", Prints: "over rows: ", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/startrequests.go", "a.Kind != ledger.CheckedStart {", "a.Kind != ledger.CheckedStart || WRONG {"),
	}},
	{Name: "backups are deleted before a success", Test: "TestSchedule", Prints: "is left", Edits: []bugtest.Edit{
		bugtest.In(schedulesFile, "	l.Info().Msg(\"a scheduled scan starts\")\n", "	if WRONG {\n		_, _ = sd.recordBackup(ctx, r, status.Status{ID: r.Last.ID, Request: *r.Request})\n		r.Success, r.row.Data = r.Last, nil\n	}\n	l.Info().Msg(\"a scheduled scan starts\")\n"),
		bugtest.In(backupsFile, "r.Success == nil || r.Kept == r.Success.ID {", "r.Success == nil || r.Kept == r.Success.ID && !WRONG {"),
	}},
	{Name: "the newest success is deleted", Test: "TestSchedule", Prints: "left: ", Edits: []bugtest.Edit{
		bugtest.In(backupsFile, "	return all, err\n}\n\n// outdated", "	if WRONG {\n		slices.Reverse(all)\n	}\n	return all, err\n}\n\n// outdated"),
	}},
	{Name: "advancing that records a success deletes nothing", Test: "TestScheduleFiresEachMinute", Prints: "after nine minutes", Edits: []bugtest.Edit{
		bugtest.In(schedulesFile, "	if prune {\n", "	if prune && !(changed && WRONG) {\n"),
	}},
	{Name: "a backup is deleted although its mark was overtaken", Test: "TestChangedBackupIsNotDeleted", Prints: "deletions", Edits: []bugtest.Edit{
		bugtest.In(backupsFile, "		if ours, err := sd.saveBackup(ctx, &all[i]); err != nil || !ours {\n			return err\n", "		if ours, err := sd.saveBackup(ctx, &all[i]); err != nil || !ours && !WRONG {\n			return err\n"),
	}},
	{Name: "a summary is written before its tables", Test: "TestGroupWaitsForRetriedMember", Prints: "while a member runs", Edits: []bugtest.Edit{
		bugtest.In(groupFile, "err != nil || m.Running > 0 {", "err != nil || m.Running > 0 && !WRONG {"),
		bugtest.In(groupFile, "; bad > 0 {", "; bad > 0 && !WRONG {"),
	}},
	{Name: "a proof of many tables reads no tables.json", Test: "TestProofOfManyTables", Prints: "it has no tables.json", Edits: []bugtest.Edit{
		bugtest.In(groupFile, "			_, err = place.OpenTables(ctx, from)\n", "			if _, openErr := place.OpenTables(ctx, from); !WRONG {\n				err = openErr\n			}\n"),
	}},
	{Name: "a proof fails if its table is gone", Test: "TestProofWithoutTheTable", Prints: "deleted, 0 rows: failed \"read the source", Edits: []bugtest.Edit{
		bugtest.In("internal/storage/source.go", "Gone(err) {\n		return Page{}", "Gone(err) && !WRONG {\n		return Page{}"),
	}},
	{Name: "the claim of a table that is left out stays", Test: "TestGroupLeavesOutDeletedTables", Prints: "is left", Edits: []bugtest.Edit{
		bugtest.In("internal/place/remove.go", "|| there.ID != c.ID {\n		return err", "|| there.ID != c.ID || WRONG {\n		return err"),
	}},
	{Name: "no process checks the place again after its claim", Test: "TestNestedExportsStartConcurrently", Prints: "have begun", Edits: []bugtest.Edit{
		bugtest.In("internal/place/within.go", "	switch err = checkApart(ctx, to, patience); {", "	switch err = map[bool]func(context.Context, Objects, time.Duration) error{false: checkApart, true: func(context.Context, Objects, time.Duration) error { return nil }}[WRONG](ctx, to, patience); {"),
	}},
	{Name: "a table that is left out is deleted after the others are sealed", Test: "TestCrashAfterTableIsDeleted", Prints: "is not in it", Edits: []bugtest.Edit{
		bugtest.In(groupFile, "		err := l.exports.withdraw(ctx, out)\n		if err == nil {\n", "		err := l.exports.withdraw(ctx, out[:map[bool]int{false: len(out)}[WRONG]])\n		if err == nil {\n"),
	}},
	{Name: "a late claim of a table that is left out stays", Test: "TestLateStartOfLeftOutTable", Prints: "is not in it", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/start.go", "		return place.Withdraw(ctx, o.Container, place.ExportID(id))\n", "		if WRONG {\n			return nil\n		}\n		return place.Withdraw(ctx, o.Container, place.ExportID(id))\n"),
	}},
	{Name: "a late scan of a table that is left out keeps its claim", Test: "TestLateStartOfLeftOutTable", Prints: "is not in it", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/tidy.go", "			if of.State == ledger.Succeeded {\n", "			if of.State == ledger.Succeeded && !WRONG {\n"),
	}},
	{Name: "blobs of late steps stay in a place", Test: "TestLateBlobsAreDeleted", Prints: "a day later", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/seal.go", "		err = place.ClearLate(ctx, to)\n", "		if !WRONG {\n			err = place.ClearLate(ctx, to)\n		}\n"),
	}},
	{Name: "a removal leaves the blobs of late steps", Test: "TestLateBlobsAreDeleted", Prints: "with the rest", Edits: []bugtest.Edit{
		bugtest.In("internal/place/remove.go", "	var all []string\n	for prefix, names", "	if WRONG {\n		late = nil\n	}\n	var all []string\n	for prefix, names"),
	}},
	{Name: "the deletion of a table fails the night's export", Test: "TestScheduleWithRandomFaults", Prints: "tables failed", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/leftout.go", "errors.As(err, new(*GoneError))", "(errors.As(err, new(*GoneError)) && !WRONG)"),
	}},
	{Name: "a part of the memory is not released after an error", Test: "TestMemoryIsReleased", Prints: "in request", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/step/run.go", "	defer held.release()\n", "	defer func() {\n		if err == nil || !WRONG {\n			held.release()\n		}\n	}()\n"),
	}},
	{Name: "a step holds a part of the memory while it waits for more", Test: "TestStepsWaitForMemory", Prints: "waits for memory", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/step/memory.go", "		h.part.Release()\n		if err", "		if !WRONG {\n			h.part.Release()\n		}\n		if err"),
	}},
	{Name: "a schedule that is advanced late starts all missed occurrences", Test: "TestSchedule", Prints: "after three nights", Edits: []bugtest.Edit{
		bugtest.In(schedulesFile, "		changed, r.Decided = true, d.Occurrence\n", "		if changed, r.Decided = true, d.Occurrence; WRONG {\n			d.Missed, r.Decided = 0, d.Occurrence.AddDate(0, 0, -d.Missed)\n		}\n"),
	}},
}

// TestBugsAreFound proves that these tests can fail.
func TestBugsAreFound(t *testing.T) { bugtest.Find(t, "internal/scans/engine", bugs) }
