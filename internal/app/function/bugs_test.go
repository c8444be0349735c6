package function_test

import (
	"testing"

	"tablesweep/internal/proof/bugtest"
)

// planted contains bugs, each with the test that must find it and its file in this folder.
var planted = []struct{ name, test, file, old, wrong string }{
	{"a call's memory is not released after an error, a disconnection or a panic", "TestCallsReleaseMemory", "memory.go",
		"	defer part.Release()\n	needs :=", "	defer func() {\n		if !WRONG {\n			part.Release()\n		}\n	}()\n	needs :="},
	{"a call waits for memory as long as it may be served", "TestCallsWaitForMemory", "memory.go",
		"taker{f.memory, memoryTime}", "taker{f.memory, map[bool]time.Duration{true: requestTime, false: memoryTime}[WRONG]}"},
	{"a call waits for memory while it holds some", "TestLargeAnswersWithLittleMemory", "memory.go",
		"		wanted := part.Wanted()\n", "		wanted := part.Wanted()\n		if WRONG {\n			held, _ := take.part(r.Context(), rowsMemory)\n			defer held.Release()\n		}\n"},
	{"small calls wait behind large ones", "TestEveryCallIsAnswered", "../../task/memory/budget.go",
		"	if bytes <= Small {\n", "	if bytes <= Small && !WRONG {\n"},
	{"a slow body reserves all of its memory at the start", "TestSlowBodies", "memory.go",
		"weigh: func(bytes int64) int64 { return bytes }}", "weigh: func(bytes int64) int64 { return bytes * map[bool]int64{true: recordsWeight, false: 1}[WRONG] }}"},
	{"a changed record reserves no memory", "TestWritesOfLargeRecordsReserveMemory", "memory.go",
		"	case needsForRecord:\n		r = r.WithContext(part.In(r.Context()))\n", "	case needsForRecord:\n		if !WRONG {\n			r = r.WithContext(part.In(r.Context()))\n		}\n		r = r.WithContext(r.Context())\n"},
	{"a small call's slow body reserves all of its memory at the start", "TestSlowBodies", "memory.go",
		"	known := r.ContentLength >= 0", "	if h == needsLittle && WRONG {\n		return take.part(r.Context(), memory.Small)\n	}\n	known := r.ContentLength >= 0"},
	{"the answer to a repetition reserves no memory", "TestRepeatedChangeReservesMemory", "../../catalog/follow.go",
		"	s := store.Store{Log: rd.Log.With(charged(ctx))}\n", "	if WRONG {\n		return rd.Recorded(ctx, shard, id)\n	}\n	s := store.Store{Log: rd.Log.With(charged(ctx))}\n"},
	{"a call waits for memory that it may not need", "TestUncertainNeedWaitsForHalfTheMemory", "memory.go",
		"return min(bytes, t.from.Half())", "return min(bytes, max(t.from.Half(), map[bool]int64{true: bytes}[WRONG]))"},
	{"an uncompressed body reserves no memory", "TestCompressedBodiesReserveMemory", "memory.go",
		"	b.bytes += int64(n)\n", "	if !WRONG {\n		b.bytes += int64(n)\n	}\n"},
	{"an answer ends after the first item that does not fit", "TestLargeListsAreComplete", "list.go",
		"l.bytes+len(text) > most || l.full {\n", "l.bytes+len(text) > most || l.full {\n		if WRONG {\n			return true\n		}\n"},
}

// TestBugsAreFound proves that the tests can fail: the named test finds each bug.
func TestBugsAreFound(t *testing.T) {
	var bugs []bugtest.Bug
	for _, b := range planted {
		edit := bugtest.In("internal/app/function/"+b.file, b.old, b.wrong)
		bugs = append(bugs, bugtest.Bug{Name: b.name, Test: b.test, Edits: []bugtest.Edit{edit}})
	}
	bugtest.Find(t, "internal/app/function", bugs)
}
