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
	{"a body takes nothing as it is unpacked", "TestPackedBodies", "memory.go",
		"	b.bytes += int64(n)\n", "	if !WRONG {\n		b.bytes += int64(n)\n	}\n"},
	{"an answer ends after its first item that has no room", "TestLargeAnswersEnd", "list.go",
		"l.bytes+len(text) > most || l.full {\n", "l.bytes+len(text) > most || l.full {\n		if WRONG {\n			return true\n		}\n"},
}

// TestBugsAreFound proves that the tests can fail: the named test finds each bug.
func TestBugsAreFound(t *testing.T) {
	var bugs []bugtest.Bug
	for _, b := range planted {
		edit := bugtest.In("internal/function/"+b.file, b.old, b.wrong)
		bugs = append(bugs, bugtest.Bug{Name: b.name, Test: b.test, Edits: []bugtest.Edit{edit}})
	}
	bugtest.Find(t, "internal/function", bugs)
}
