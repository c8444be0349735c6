package sim_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bug is a change to the app's source that makes it wrong.
type bug struct {
	name  string
	edits []edit
}

// edit replaces a piece of a file, which must be there exactly once.
type edit struct{ file, old, new string }

const (
	ledgerFile = "internal/ledger/ledger.go"
	stateFile  = "internal/ledger/state.go"
	runFile    = "internal/engine/run.go"
)

// bugs are what the simulation must find. They are made in copies of the source that
// only the test's build sees, so that the app has neither the bugs nor switches for
// them. Who changes a piece of code that is named here changes it here, too.
var bugs = []bug{
	{"the pending row is not checked", []edit{
		{runFile, "	if !pending {\n", "	if pending && !pending {\n"},
		{ledgerFile, "	err := l.table.Write(ctx, ops...)\n	if storage.HasCode(err, \"ResourceNotFound\"",
			"	_ = l.table.Write(ctx, ops[0])\n	err := l.table.Write(ctx, ops[1:]...)\n	if storage.HasCode(err, \"ResourceNotFound\""},
	}},
	{"children are enqueued before the commit", []edit{
		{runFile, "	committed, err := e.ledger.Commit(", "	for _, c := range children {\n		if err := e.send(ctx, c); err != nil {\n			return \"\", err\n		}\n	}\n	committed, err := e.ledger.Commit("},
		{runFile, "	e.follow(ctx, m.Scan, children)\n", "	if len(children) == 0 {\n		e.follow(ctx, m.Scan, children)\n	}\n"},
	}},
	{"rows are counted in memory", []edit{
		{ledgerFile, "type Ledger struct{ table *storage.Table }", "type Ledger struct {\n	table  *storage.Table\n	memory sync.Map\n}"},
		{ledgerFile, "	\"strings\"\n", "	\"strings\"\n	\"sync\"\n"},
		{ledgerFile, "	return true, nil\n}\n", "	t, _ := l.memory.LoadOrStore(id, &Totals{})\n	t.(*Totals).add(done.Totals)\n	return true, nil\n}\n"},
		{stateFile, "	if s.Totals, err = l.Totals(ctx, id); err != nil {\n		return false, err\n	}\n", "	if t, ok := l.memory.Load(id); ok {\n		s.Totals = *t.(*Totals)\n	}\n"},
	}},
	{"a message is acknowledged on an error", []edit{
		{"internal/function/envelope.go", "		status = problem.Status(err)\n", ""},
	}},
	{"the scan ends without a look for pending rows", []edit{
		{stateFile, "	if err != nil || !empty {\n", "	if err != nil || empty && !empty {\n"},
	}},
	{"a scan's record may be written twice", []edit{
		{ledgerFile, "	pending.Kind = storage.Insert\n", ""},
		{ledgerFile, "{{Kind: storage.Insert, Entity: runningScan", "{{Kind: storage.Replace, Entity: runningScan"},
	}},
	{"the end is written over whatever is there", []edit{
		{stateFile, "Kind: storage.Merge, IfMatch: s.etag", "Kind: storage.Merge, IfMatch: \"*\""},
	}},
	{"all attempts are listed as one", []edit{
		{ledgerFile, "strconv.FormatInt(attempt, 10)", "strconv.FormatInt(min(attempt, 1), 10)"},
	}},
}

// deafness is a bug that seldom shows in seeds, as their steps are quick.
var deafness = bug{"nobody hears from living processes", []edit{
	{"internal/engine/lost.go", "!after.said[process].Equal(before.said[process])", "process == \"\""},
}}

// TestBugsAreFound proves that the simulation can fail: each of the bugs is found
// within 500 seeds. The first takes out both looks at the pending row: without the
// earlier one alone, a duplicate costs a page and is refused by the commit.
func TestBugsAreFound(t *testing.T) {
	if testing.Short() || race {
		t.Skip("builds the app once for each bug; without -race and -short it does")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			out, err := runWorker(t, build(t, root, b), "^TestSeeds$", "-seeds=500", "-stride=1")
			if err == nil {
				t.Fatalf("not found in 500 seeds\n%s", out)
			}
			seed, _, _ := strings.Cut(out, "\n")
			if !strings.Contains(out, "repeat it with") {
				t.Fatalf("failed, but not for what a run left: %s", out)
			}
			t.Logf("found when %s", seed)
		})
	}
	t.Run(deafness.name, func(t *testing.T) {
		t.Parallel()
		out, err := runWorker(t, build(t, root, deafness), "^TestSlowSteps$")
		if err == nil || !strings.Contains(out, "messages for lost although nothing failed") {
			t.Fatalf("not found: %v\n%s", err, out)
		}
	})
}

// build builds this package's test with the bug, and returns its path.
func build(t *testing.T, root string, b bug) string {
	t.Helper()
	dir := t.TempDir()
	changed := map[string]string{} // content by file
	for _, e := range b.edits {
		content, ok := changed[e.file]
		if !ok {
			original, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				t.Fatal(err)
			}
			content = string(original)
		}
		if n := strings.Count(content, e.old); n != 1 {
			t.Fatalf("%s has %d times %q; adapt the bug to the source", e.file, n, e.old)
		}
		changed[e.file] = strings.Replace(content, e.old, e.new, 1)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for file, content := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(root, file)] = path
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	listFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	if err := os.WriteFile(listFile, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay="+listFile, "-o", binary, "./internal/sim")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build with the bug: %v\n%s", err, out)
	}
	return binary
}
