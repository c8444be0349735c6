package sim_test

import (
	"fmt"
	"testing"

	"tablesweep/internal/proof/bugtest"
)

const (
	ledgerFile = "internal/scans/ledger/ledger.go"
	stateFile  = "internal/scans/ledger/state.go"
	retireFile = "internal/scans/ledger/retire.go"
	listFile   = "internal/scans/ledger/list.go"
	foldFile   = "internal/scans/ledger/fold.go"
	sumsFile   = "internal/scans/ledger/sums.go"
	snapFile   = "internal/scans/ledger/snapshot.go"
	runFile    = "internal/scans/step/run.go"
	dataFile   = "internal/scans/ledger/data.go"
	sealFile   = "internal/scans/life/seal.go"
	formatFile = "internal/place/format.go"
	blobFile   = "internal/storage/blob.go"
)

// nameByStep is a part of two bugs.
var nameByStep = bugtest.In(formatFile, "func dataName(order, hash string, c *Codec) string {\n",
	"func dataName(order, hash string, c *Codec) string {\n	if WRONG {\n		return DataPrefix + order + \".jsonl\" + exts[c.compress]\n	}\n")

// inSeeds returns a bug that the simulation must find with one of the first seeds.
func inSeeds(name string, edits ...bugtest.Edit) bugtest.Bug {
	return bugtest.Bug{Name: name, Test: "TestSeeds", Prints: "repeat it with", Edits: edits}
}

// inSeedsFrom is the same for a bug that few seeds find. It begins with a seed that finds the bug today, because each seed before it takes time.
func inSeedsFrom(first int, name string, edits ...bugtest.Edit) bugtest.Bug {
	b := inSeeds(name, edits...)
	b.Args = fmt.Sprint("-first=", first)
	return b
}

// bugs are the bugs that tests must find. The first one removes both checks of the pending row. If only the earlier check were removed, a duplicate would
// only read a page and then be refused by the commit.
var bugs = []bugtest.Bug{
	inSeeds("the pending row is not checked",
		bugtest.In(runFile, "	p, pending, err = l.Pending(ctx, m.Scan, m.ID)\n", "	p, pending, err = l.Pending(ctx, m.Scan, m.ID)\n	pending = pending || WRONG && err == nil && m.Delete == nil\n"),
		bugtest.In(ledgerFile, "	err := l.write(ctx, fmt.Sprintf(\"commit step ", "	if WRONG {\n		_ = l.write(ctx, \"commit\", ops[0])\n		ops = ops[1:]\n	}\n	err := l.write(ctx, fmt.Sprintf(\"commit step "),
	),
	inSeeds("children are enqueued before the commit",
		bugtest.In(runFile, "	var sent storage.Counter\n", "	for _, c := range out.children {\n		if !WRONG {\n			break\n		}\n		if err := s.scans.Send(ctx, c); err != nil {\n			return overtaken, err\n		}\n	}\n	var sent storage.Counter\n"),
		bugtest.In(runFile, "	if result != overtaken {\n", "	if (len(out.children) == 0 || !WRONG) && result != overtaken {\n"),
	),
	inSeeds("rows are counted in memory",
		bugtest.In(ledgerFile, "	Folds\n}", "	Folds\n	memory *sync.Map\n}"),
		bugtest.In(ledgerFile, ", Folds{all}}", ", Folds{all}, &sync.Map{}}"),
		bugtest.In(ledgerFile, "return New(l.table.With(o))", "with := New(l.table.With(o)); with.memory = l.memory; return with"),
		bugtest.In(ledgerFile, "	\"time\"\n", "	\"sync\"\n	\"time\"\n"),
		bugtest.In(ledgerFile, "	return err == nil, err\n}\n", "	if WRONG && err == nil {\n		t, _ := l.memory.LoadOrStore(id, &Sums{})\n		t.(*Sums).add(Sums{Totals: done.Totals})\n	}\n	return err == nil, err\n}\n"),
		bugtest.In(retireFile, "	return found.asListed(), nil\n", "	if t, ok := l.memory.Load(id); WRONG && ok {\n		found.Sums.Totals = t.(*Sums).Totals\n	}\n	return found.asListed(), nil\n"),
	),
	inSeedsFrom(39, "a message is acknowledged on an error",
		bugtest.In("internal/app/function/envelope.go", "		status = problem.Status(err)\n", "		if !WRONG {\n			status = problem.Status(err)\n		}\n"),
	),
	inSeeds("the scan ends without a check for pending rows",
		bugtest.In(stateFile, "	idle, err := l.nothingPending(ctx, id)\n", "	look := l.nothingPending\n	if WRONG {\n		look = l.Scan\n	}\n	idle, err := look(ctx, id)\n"),
	),
	inSeeds("a scan ends without its lost steps",
		bugtest.In(stateFile, "as.Error = found.describeMissing(nil);", "as.Error = map[bool]string{false: found.describeMissing(nil)}[WRONG];"),
	),
	inSeedsFrom(76, "lost rows whose counts balance each other are not noticed",
		bugtest.In(stateFile, "	case balance != 0:\n", "	case balance != 0 && !WRONG:\n"),
	),
	inSeeds("scans are dated by their processes",
		bugtest.In("internal/scans/scans.go", "	return ss.Ledger.Now(ctx, ss.Options.Now())\n", "	if WRONG {\n		return ss.Options.Now(), nil\n	}\n	return ss.Ledger.Now(ctx, ss.Options.Now())\n"),
	),
	inSeedsFrom(22, "a deletion counts the rows that it finds",
		bugtest.In("internal/scans/step/deletion.go", "	done.Written = max(0, noted-done.Failed)\n", "	if !WRONG {\n		done.Written = max(0, noted-done.Failed)\n	}\n"),
	),
	inSeedsFrom(13, "a late delivery deletes the rows that it read itself",
		bugtest.In("internal/scans/step/step.go", "	if out.deletion != nil {\n		*out.deletion", "	if out.deletion != nil && !WRONG {\n		*out.deletion"),
	),
	inSeeds("rows are deleted before their reading is committed",
		bugtest.In("internal/scans/step/deletion.go", "end(_ context.Context, _ *stepScan, m scans.Message, _ int, found *readResult, out *stepResult) error {\n	rows := found.rows()\n", "end(ctx context.Context, o *stepScan, m scans.Message, delivery int, found *readResult, out *stepResult) error {\n	rows := found.rows()\n	if WRONG {\n		if _, err := d.write(ctx, o, rows, delivery, new(ledger.Totals)); err != nil {\n			return err\n		}\n	}\n"),
	),
	inSeedsFrom(411, "an export ends without its lost files",
		bugtest.In(sealFile, "err == nil && has != rows", "err == nil && has != rows && (has > rows || !WRONG)"),
	),
	inSeeds("a scan's record may be written twice",
		bugtest.In(ledgerFile, "	pending.Kind = storage.Insert\n", "	if !WRONG {\n		pending.Kind = storage.Insert\n	}\n"),
		bugtest.In(ledgerFile, "{runningScan(storage.Insert, ", "{runningScan(map[bool]storage.OpKind{false: storage.Insert, true: storage.Replace}[WRONG], "),
		bugtest.In(ledgerFile, "	return op(storage.Insert, id, donePrefix", "	return op(map[bool]storage.OpKind{false: storage.Insert, true: storage.Replace}[WRONG], id, donePrefix"),
	),
	inSeeds("the end replaces any row",
		bugtest.In(stateFile, "	end.IfMatch = s.etag\n", "	end.IfMatch = s.etag\n	if WRONG {\n		end.IfMatch = \"*\"\n	}\n"),
	),
	inSeeds("all attempts are listed as one",
		bugtest.In(listFile, "strconv.FormatInt(attempt, 10)", "strconv.FormatInt(map[bool]int64{false: attempt, true: min(attempt, 1)}[WRONG], 10)"),
	),
	inSeeds("a fold counts steps, and removes their rows later",
		bugtest.In(foldFile, "		err := l.write(ctx, \"fold steps of scan \"+string(id), fold(id, some, into, join)...)\n",
			"		ops := fold(id, some, into, join)\n		var err error\n		if last := len(ops) - 1; WRONG {\n			err, ops = l.write(ctx, \"fold\", ops[last]), ops[:last]\n		}\n"+
				"		if err == nil {\n			err = l.write(ctx, \"fold steps of scan \"+string(id), ops...)\n		}\n"),
	),
	inSeeds("steps dated before the last fold count as folded", // steps of a process with a slow clock
		bugtest.In(foldFile, "append(properties(sums.counts()), ", "append(append(properties(sums.counts()), map[bool][]storage.Property{true: {storage.StringProperty(\"Until\", rows[0].Key.Row)}}[WRONG]...), "),
		bugtest.In(sumsFile, "\"Timestamp\", ", "\"Until\", \"Timestamp\", "),
		bugtest.In(snapFile, "	donePages int ", "	until     string\n	donePages int "),
		bugtest.In(snapFile, "	d.Sums.add(sumsOf(e))\n", "	if u := e.Get(\"Until\"); strings.HasPrefix(u, \"d|2\") && (d.until == \"\" || u < d.until) {\n		d.until = u\n	}\n"+
			"	if !isFolded(e) && d.until != \"\" && e.Key.Row >= d.until {\n		return\n	}\n	d.Sums.add(sumsOf(e))\n"),
	),
	inSeeds("failed rows may be retried twice",
		bugtest.In(ledgerFile, "	if done.Redone != \"\" {\n", "	if done.Redone != \"\" && !WRONG {\n"),
	),
	inSeeds("failed rows that were retried still count",
		bugtest.In("internal/scans/step/retryrows.go", "	done.Failed -= was.Failed\n", "	if !WRONG {\n		done.Failed -= was.Failed\n	}\n"),
	),
	inSeedsFrom(25, "a retry's first step is counted by each process that requests it",
		bugtest.In(stateFile, "ops = append(ops, beginAttempt(s.ID, now, ahead), first)", "if !WRONG {\n			ops = append(ops, beginAttempt(s.ID, now, ahead))\n		} else if err := l.write(ctx, \"begin\", beginAttempt(s.ID, now, ahead)); err != nil {\n			return err\n		}\n		ops = append(ops, first)"),
	),
	inSeeds("a manifest is written before the other objects",
		bugtest.In(sealFile, "	if err := place.PutSame(ctx, to, place.FilesName, index); err != nil {\n",
			"	if WRONG {\n		if err := place.PutSame(ctx, to, place.ManifestName, all.Manifest(m).JSON(place.ExportID(s.ID))); err != nil {\n			return err\n		}\n	}\n	if err := place.PutSame(ctx, to, place.FilesName, index); err != nil {\n"),
	),
	inSeeds("an export is completed after its scan has ended",
		bugtest.In(stateFile, "	if as.Error == \"\" {\n",
			"	if as.Error == \"\" && WRONG {\n		ended, err := l.end(ctx, idle, now, Ending{State: Succeeded})\n		if err == nil {\n			_, err = seal(s)\n		}\n		return ended, err\n	}\n	if as.Error == \"\" {\n"),
	),
	inSeedsFrom(202, "a blob is named by its step", nameByStep),
	inSeedsFrom(31, "a late delivery replaces a blob", nameByStep,
		bugtest.In(blobFile, `"If-None-Match": {"*"}, `, `"If-None-Match": map[bool][]string{false: {"*"}}[WRONG], `),
	),
	inSeedsFrom(31, "files are recorded before the commit",
		bugtest.In(ledgerFile, "		ops = append(ops, op(storage.Replace, id, filePrefix+string(stepID), dataProperties(done.File)...))\n",
			"		file := op(storage.Replace, id, filePrefix+string(stepID), dataProperties(done.File)...)\n		if !WRONG {\n			ops = append(ops, file)\n		} else if err := l.write(ctx, \"file\", file); err != nil {\n			return false, err\n		}\n"),
	),
	inSeedsFrom(20, "a group's retry skips the failed members",
		bugtest.In("internal/scans/life/group.go", "m.Summarized && endedBefore(group, m.Scan):\n", "m.Summarized && endedBefore(group, m.Scan) && !WRONG:\n"),
		bugtest.In("internal/scans/life/group.go", "	case endedBefore(s, m):\n", "	case endedBefore(s, m) && !WRONG:\n"),
	),
	inSeeds("extra rows are counted twice",
		bugtest.In("internal/scans/step/compare.go", "			c.done.Extra++\n", "			c.done.Extra++\n			if WRONG {\n				c.done.Extra++\n			}\n"),
	),
	inSeedsFrom(13, "the completion of an export misses steps",
		bugtest.In(dataFile, "			if err := fn(dataOf(e)); err != nil {\n				return err\n			}\n		}\n", "			if err := fn(dataOf(e)); err != nil {\n				return err\n			}\n		}\n		if WRONG {\n			break\n		}\n"),
	),
	// Seeds seldom find these bugs, because the steps in seeds are quick. A separate test finds each of them.
	{Name: "heartbeats are ignored", Test: "TestSlowSteps", Prints: "as lost, although nothing failed", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/observation.go", "!after.heartbeats[process].Equal(before.heartbeats[process])", "!after.heartbeats[process].Equal(before.heartbeats[process]) && !WRONG")}},
	{Name: "a first check for lost steps ends with its process", Test: "TestHandlersThatDieAfterSeconds", Prints: "hangs", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/life/maintain.go", "	if len(keep.Steps) == 0 {\n", "	if len(keep.Steps) == 0 || WRONG {\n")}},
	{Name: "a canceled scan continues for seconds", Test: "TestCanceledInAStep", Prints: "after the cancellation", Edits: []bugtest.Edit{
		bugtest.In("internal/scans/scans.go", "NewCache[*Loaded](ScanTime, ", "NewCache[*Loaded](max(ScanTime, map[bool]time.Duration{true: 5 * time.Second}[WRONG]), ")}},
}

// TestBugsAreFound proves that the simulation can fail.
func TestBugsAreFound(t *testing.T) {
	t.Setenv("GOGC", "400") // in the processes that search for bugs
	bugtest.Find(t, "internal/proof/sim", bugs, "-seeds=1500", "-stride=1")
}
