package function_test

import (
	"testing"

	"tablesweep/internal/proof/bugtest"
)

// planted are bugs, each with the test that must find it, and its file in this folder.
var planted = []struct{ name, test, file, old, wrong string }{
	{"a part of the memory is not given back after an error, by a caller that has left, or after a panic", "TestMemoryIsGivenBack", "memory.go",
		"	defer part.Release()\n	needs :=", "	defer func() {\n		if !WRONG {\n			part.Release()\n		}\n	}()\n	needs :="},
	{"a call waits for memory as long as it is served", "TestCallsWaitForMemory", "memory.go",
		"taker{f.memory, memoryTime}", "taker{f.memory, map[bool]time.Duration{true: requestTime, false: memoryTime}[WRONG]}"},
	{"a holder waits for more", "TestLargeAnswersWithLittleMemory", "memory.go",
		"		wanted := part.Wanted()\n", "		wanted := part.Wanted()\n		if WRONG {\n			held, _ := take.part(r.Context(), rowsMemory)\n			defer held.Release()\n		}\n"},
	{"small calls wait behind large ones", "TestNobodyStarves", "../../task/memory/budget.go",
		"	if bytes <= Small {\n", "	if bytes <= Small && !WRONG {\n"},
	{"a slow body takes what it will need", "TestSlowBodies", "memory.go",
		"weigh: func(bytes int64) int64 { return bytes }}", "weigh: func(bytes int64) int64 { return bytes * map[bool]int64{true: recordsWeight, false: 1}[WRONG] }}"},
	{"a record that is changed takes nothing", "TestWritesOfLargeRecords", "memory.go",
		"	case needsForRecord:\n		r = r.WithContext(part.In(r.Context()))\n", "	case needsForRecord:\n		if !WRONG {\n			r = r.WithContext(part.In(r.Context()))\n		}\n		r = r.WithContext(r.Context())\n"},
	{"a slow body of a small call takes what it will need", "TestSlowBodies", "memory.go",
		"	known := r.ContentLength >= 0", "	if h == needsLittle && WRONG {\n		return take.part(r.Context(), memory.Small)\n	}\n	known := r.ContentLength >= 0"},
	{"a repetition's answer takes nothing", "TestRepeatedChangeIsCharged", "../../catalog/follow.go",
		"	s := store.Store{Log: rd.Log.With(charged(ctx))}\n", "	if WRONG {\n		return rd.Recorded(ctx, shard, id)\n	}\n	s := store.Store{Log: rd.Log.With(charged(ctx))}\n"},
	{"a call waits for what it needs perhaps", "TestNobodyWaitsForAGuess", "memory.go",
		"return min(bytes, t.from.Half())", "return min(bytes, max(t.from.Half(), map[bool]int64{true: bytes}[WRONG]))"},
	{"a body takes nothing as it is unpacked", "TestPackedBodies", "memory.go",
		"	b.bytes += int64(n)\n", "	if !WRONG {\n		b.bytes += int64(n)\n	}\n"},
	{"an answer ends after its first item that has no room", "TestLargeAnswersEnd", "list.go",
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
