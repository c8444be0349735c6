package catalog_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/bugtest"
	"tablesweep/internal/testsize"
)

const (
	conditionFile = "internal/catalog/condition.go"
	findFile      = "internal/catalog/find.go"
	identityFile  = "internal/catalog/store/store.go"
	migrateFile   = "internal/catalog/migrate/migrate.go"
	stopFile      = "internal/catalog/migrate/stop.go"
	writeFile     = "internal/catalog/write.go"
	walFile       = "internal/catalog/wal/wal.go"
)

// planted are bugs, each with the test that must find it. All are in one build, which only this
// test makes. WRONG is the condition that this bug is switched on.
var planted = []struct{ name, test, file, old, wrong string }{
	{"keys have a number's text, not its value", "TestNumbersAsKeys", identityFile,
		"if n, ok := index.Number(text); ok {", "if n, ok := index.Number(text); ok && !WRONG {"},
	{"PUT replaces any record with the first key", "TestModel", writeFile,
		"		h, err := c.ReadHead(ctx, id.First(), id.Hash())\n		if err == nil {\n			err = on.check(h)\n		}\n		if err != nil {\n			return Written{}, err\n",
		"		h, err := c.ReadHead(ctx, id.First(), id.Hash())\n		if first := c.Schema.Keys[0].Field; WRONG && !h.Live() {\n			value, _ := r.Get(first)\n			if done, err := c.Replace(ctx, r, Lookup{Keys: map[string]string{first: value}}, on); err == nil {\n				return done, nil\n			}\n		}\n		if err == nil {\n			err = on.check(h)\n		}\n		if err != nil {\n			return Written{}, err\n"},
	{"If-Match is ignored", "TestModel", conditionFile,
		"case len(on.Match) > 0 && !fits(on.Match):", "case len(on.Match) > 0 && !fits(on.Match) && !WRONG:"},
	{"a read returns two rows of one line of writes", "TestNewestOfOneRecord", findFile,
		" && !isGone && !old[i] {", " && !isGone && (!old[i] || WRONG) {"},
	{"rows that say gone are cleared while an entry is pending", "TestFrozenWriter", walFile,
		"	case pending:\n", "	case pending && !WRONG:\n"},
	{"rows that say gone are cleared while an older request may come", "TestLateRequest", walFile,
		"	case !h.Sure:\n", "	case !h.Sure && !WRONG:\n"},
	{"a query does not check the schema", "TestReadsCheckTheSchema", findFile,
		"	return x.found, next, checked()\n", "	if WRONG {\n		return x.found, next, nil\n	}\n	return x.found, next, checked()\n"},
	{"a change of schema does not wait for writers", "TestMigrationUnderWriters", stopFile,
		"		if wait <= 0 {\n", "		if wait <= 0 || WRONG {\n"},
	{"a take-over deletes the only copy of a content", "TestLateForeignRowIsLeft", migrateFile,
		"	if !there {\n", "	if !there && !WRONG {\n"},
	{"records that differ in case alone are taken for one", "TestTakeOverDies", migrateFile,
		"before.ambiguous || before.hash != of.hash", "before.ambiguous || before.hash != of.hash && !WRONG"},
	{"a query ends with a page of nothing but gone rows", "TestPagesAreFilled", findFile,
		"		case len(x.found) < p.top && time.Since(start) < fillTime:\n", "		case len(x.found) < p.top && time.Since(start) < fillTime && !WRONG:\n"},
}

// TestBugsAreFound proves that the tests can fail: the named test finds each bug.
func TestBugsAreFound(t *testing.T) {
	const variable = "TABLESWEEP_BUG"
	if !testsize.Full() || os.Getenv(variable) != "" {
		t.Skip("builds the tests with bugs; in full it does")
	}
	var edits []bugtest.Edit
	var files []string
	for _, b := range planted {
		if !slices.Contains(files, b.file) {
			files = append(files, b.file)
			edits = append(edits, bugtest.In(b.file, "\nimport ", "\nimport switches \"os\"\nimport "))
		}
		on := fmt.Sprintf("(switches.Getenv(%q) == %q)", variable, b.name)
		edits = append(edits, bugtest.In(b.file, b.old, strings.ReplaceAll(b.wrong, "WRONG", on)))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary := bugtest.New("one of them", edits...).Build(t, root, "internal/catalog")
	for _, b := range planted {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			// Some depend on which of two goroutines is first: several runs make it certain.
			cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+b.test+"$", "-test.count=10", "-test.failfast")
			cmd.Env = append(os.Environ(), variable+"="+b.name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("%s does not find it", b.test)
			}
			if !strings.Contains(string(out), "--- FAIL: "+b.test) {
				t.Fatalf("%s did not run to its end:\n%s", b.test, out)
			}
		})
	}
}
