package catalog_test

import (
	"testing"

	"tablesweep/internal/proof/bugtest"
)

// planted are bugs, each with the test that must find it, and its file in this folder.
var planted = []struct{ name, test, file, old, wrong string }{
	{"keys have a number's text, not its value", "TestNumbersAsKeys", "store/store.go",
		"if n, ok := index.Number(text); ok {", "if n, ok := index.Number(text); ok && !WRONG {"},
	{"PUT replaces any record with the first key", "TestModel", "write.go",
		"		case h.Live():\n",
		"		case WRONG && !h.Live():\n			value, _ := r.Get(c.Schema.Keys[0].Field)\n			if first, err := c.choose(ctx, Lookup{Keys: map[string]string{c.Schema.Keys[0].Field: value}}, on); err == nil {\n				return c.replacement(ctx, first, store.WriteFor(id), r)\n			}\n		case h.Live():\n"},
	{"If-Match is ignored", "TestModel", "condition.go",
		"case len(on.Match) > 0 && !has(on.Match):", "case len(on.Match) > 0 && !has(on.Match) && !WRONG:"},
	{"a write does not keep its Idempotency-Key", "TestKeyedCrashPoints", "stages.go",
		"	m := &commitment{decision: d, once: o, err: errLost}\n", "	m := &commitment{decision: d, once: o, err: errLost}\n	if WRONG && d.kind == wal.Replace {\n		m.once = claim.ID{}\n	}\n"},
	{"the changes of slow writers are not waited for", "TestChangesAreFollowed", "changes.go",
		"if err == nil && t.Before(oldest) {", "if err == nil && t.Before(oldest) && !WRONG {"},
	{"a change has the time of its writer's clock", "TestChangesAreFollowed", "catalog.go",
		"	now, _ := c.Log.Now(c.now())\n", "	now, _ := c.Log.Now(c.now())\n	if WRONG {\n		return c.now()\n	}\n"},
	{"a write does not claim its Idempotency-Key", "TestKeyOfAnotherWrite", "once.go",
		"	if o.Keyed() || len(shards) > 1 { ", "	if (o.Keyed() || len(shards) > 1) && !WRONG { "},
	{"a deletion does not keep its answer", "TestRepeatedDeletes", "log.go",
		"	ops = append(ops, onceOps(m.once,", "	if WRONG && e.Kind == wal.Delete {\n		m.once = claim.ID{}\n	}\n	ops = append(ops, onceOps(m.once,"},
	{"a refused write does not ask for its answer", "TestRepeatedDeletes", "once.go",
		"	if errors.As(err, new(*refused)) || ", "	if errors.As(err, new(*refused)) && !WRONG || "},
	{"a write that another try has overtaken does not ask for its answer", "TestRepeatedDeletes", "once.go",
		"errors.Is(err, errRepeated) {", "errors.Is(err, errRepeated) && !WRONG {"},
	{"a repetition does not ask for its answer first", "TestKeyedCrashPoints", "once.go",
		"	if claimed.Known {\n", "	if claimed.Known && !WRONG {\n"},
	{"a repetition deletes what was written since", "TestRepeatedDeletes", "delete.go",
		"	case !x.since(h, row, version):\n", "	case !x.since(h, row, version) || WRONG:\n"},
	{"a first try deletes what was written since a repetition has taken over", "TestFrozenFirstDeletion", "delete.go",
		"	} else if !held {\n", "	} else if !held && !WRONG {\n"},
	{"a deletion's claim is not taken over", "TestFrozenFirstDeletion", "delete.go",
		"	if claimed.Known {\n", "	if claimed.Known && !WRONG {\n"},
	{"the answer of a first try that others overtook is kept for nobody", "TestDeletesAtOnce", "delete.go",
		"		case !kept: ", "		case !kept && !WRONG: "},
	{"a deletion goes by its head alone", "TestDeletionOfAnOldWrite", "delete.go",
		"!(version == h.Version && older(row.Timestamp))", "!(version == h.Version && older(row.Timestamp) && !WRONG)"},
	{"a repetition does not return what was recorded", "TestRepeatedDeletes", "delete.go",
		"	if claimed.Answer != \"\" {\n", "	if claimed.Answer != \"\" && !WRONG {\n"},
	{"a deletion by the first index key goes by rows alone", "TestDeletionSeesWhatIsCommitted", "delete.go",
		"	if x.plan.keys[0].rank > 0 {\n", "	if x.plan.keys[0].rank > 0 || WRONG {\n"},
	{"a read returns two rows of one line of writes", "TestNewestOfOneRecord", "find.go",
		" && !isGone && !old[i] {", " && !isGone && (!old[i] || WRONG) {"},
	{"rows that say gone are cleared while an entry is pending", "TestFrozenWriter", "wal/wal.go",
		"	case pending:\n", "	case pending && !WRONG:\n"},
	{"rows that say gone are cleared while an older request may come", "TestLateRequest", "wal/wal.go",
		"	case !h.Sure:\n", "	case !h.Sure && !WRONG:\n"},
	{"a query does not check the schema", "TestReadsCheckTheSchema", "find.go",
		"	return x.answer(next), checked()\n", "	if WRONG {\n		return x.answer(next), nil\n	}\n	return x.answer(next), checked()\n"},
	{"a change of schema does not wait for writers", "TestMigrationUnderWriters", "migrate/stop.go",
		"		if wait <= 0 {\n", "		if wait <= 0 || WRONG {\n"},
	{"a take-over deletes the only copy of a content", "TestLateForeignRowIsLeft", "migrate/migrate.go",
		"	if !there {\n", "	if !there && !WRONG {\n"},
	{"records that differ in case alone are taken for one", "TestTakeOverDies", "migrate/migrate.go",
		"of.ambiguous || of.hash != r.Hash()", "of.ambiguous || of.hash != r.Hash() && !WRONG"},
	{"a query ends with a page of nothing but gone rows", "TestPagesAreFilled", "find.go",
		"		case len(x.found) < p.top && (all || time.Since(x.start) < fillTime):\n", "		case len(x.found) < p.top && (all || time.Since(x.start) < fillTime) && !WRONG:\n"},
	{"a write does not wait for the move before it", "TestMoves", "stages.go",
		"	if old.Instead == nil {\n", "	if old.Instead == nil || WRONG {\n"},
	{"heads of several pages are taken for one moment", "TestHeadsOfOneMoment", "choose.go",
		"if pages == 1 || !changed {", "if pages == 1 || !changed || WRONG {"},
	{"a selector by the first key looks at index rows alone", "TestMoves", "choose.go",
		"	if p.keys[0].rank == 0 {\n", "	if p.keys[0].rank == 0 && !WRONG {\n"},
	{"a reader of several pages follows nobody", "TestMoves", "follow.go",
		"	return t.pages > 1 && ", "	return t.pages > 1 && !WRONG && "},
	{"a reader of several partitions follows nobody", "TestMoves", "follow.go",
		"	case several:\n", "	case several && WRONG:\n		return false\n	case several:\n"},
	{"a record is in its own way after a move", "TestMoves", "stages.go",
		"if err == nil && (now == nil || now.ETag != old.ETag) {", "if err == nil && (now == nil || now.ETag != old.ETag) && !WRONG {"},
	{"a refusal carries out nothing", "TestModel", "stages.go",
		"!carried && errors.As(err, &r):", "!carried && errors.As(err, &r) && !WRONG:"},
	{"an entry goes ahead of one that has overtaken it", "TestRefusalBesideAWriter", "stages.go",
		"	for _, id := range newer {", "	if WRONG {\n		newer = nil\n	}\n	for _, id := range newer {"},
	{"PUT takes a record from anywhere for its own", "TestMoves", "write.go",
		"planErr != nil || !p.names(from) {", "planErr != nil || !p.names(from) && !WRONG {"},
	{"a lost answer of a group is proof for one write alone", "TestGroupAfterLostAnswers", "log.go",
		"		if err = nil; !ours { // else so are all\n", "		if WRONG && ours {\n			for _, m := range all {\n				m.err = ErrRaced\n			}\n			all[at].err = nil\n			return\n		}\n		if err = nil; !ours { // else so are all\n"},
	{"a group that is refused over one write is over", "TestGroupRefusedOverSome", "log.go",
		"			_ = others(all, at, again)\n", "			if !WRONG {\n				_ = others(all, at, again)\n			}\n"},
	{"a group that does not fit is refused", "TestGroupsFitTransactions", "log.go",
		"errors.Is(err, errTooMany)):", "errors.Is(err, errTooMany) && !WRONG):"},
	{"a group that storage refuses has no good writes", "TestGroupRefusedOverSome", "log.go",
		"(hopeless(err) || store", "(hopeless(err) && !WRONG || store"},
	{"what a group has left to finish waits for Maintain", "TestGroupFinishedByAnother", "log.go",
		"	if len(all) > 1 && err != nil && !storage.Passing(err) {\n", "	if len(all) > 1 && err != nil && !storage.Passing(err) && !WRONG {\n"},
	{"what a group leaves under way is not noted", "TestGroupAfterLostAnswers", "group.go",
		"	t.carried = append(t.carried, f)\n", "	f.done.sure = f.done.sure || WRONG\n	t.carried = append(t.carried, f)\n"},
	{"a commit does not ask for the schema", "TestGroupsInBadTime", "log.go",
		"c.trusted(); found {\n", "c.trusted(); found && !WRONG {\n"},
	{"half a group commits long after its time", "TestGroupsInBadTime", "log.go",
		"		c.commitIn(ctx, committing, some)\n", "		if WRONG {\n			committing = ctx\n		}\n		c.commitIn(ctx, committing, some)\n"},
	{"an identity stands twice in a group", "TestGroupKeepsTheOrder", "write.go",
		"		n := times[id.Hash()]\n", "		n := times[id.Hash()]\n		if WRONG {\n			n = min(n, 0)\n		}\n"},
}

// TestBugsAreFound proves that the tests can fail: the named test finds each bug.
func TestBugsAreFound(t *testing.T) {
	var bugs []bugtest.Bug
	for _, b := range planted {
		edit := bugtest.In("internal/catalog/"+b.file, b.old, b.wrong)
		bugs = append(bugs, bugtest.Bug{Name: b.name, Test: b.test, Edits: []bugtest.Edit{edit}})
	}
	// Some depend on which of two goroutines is first: many runs make it certain. Some need a rare seed.
	bugtest.Find(t, "internal/catalog", bugs, "-test.count=400", "-test.failfast", "-moves=256", "-seeds=240")
}
