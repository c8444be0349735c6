package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// TestWorkflowsArePinned: all programs that this repository's workflows run are pinned, and no job has a permission that it does not list.
func TestWorkflowsArePinned(t *testing.T) {
	workflows, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(workflows) == 0 {
		t.Fatal(workflows, err)
	}
	pinned := regexp.MustCompile(`^\s*- uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	tool := regexp.MustCompile(`\bgo run \S+@v\d+\.\d+\.\d+ `)
	for _, path := range workflows {
		text, err := os.ReadFile(path)
		proof.Must(t, err)
		top, jobs, _ := strings.Cut(string(text), "\njobs:\n")
		if !strings.Contains(top, "\npermissions: {}\n") {
			t.Errorf("%s: a job that lists no permissions has some", path)
		}
		if jobs, permissions := len(regexp.MustCompile(`(?m)^  \w+:$`).FindAllString(jobs, -1)), strings.Count(jobs, "\n    permissions:\n"); jobs != permissions {
			t.Errorf("%s: %d jobs, but %d of them list permissions", path, jobs, permissions)
		}
		for _, job := range regexp.MustCompile(`(?m)^  \w+:$`).Split(jobs, -1) {
			if strings.Contains(job, "id-token: write") && strings.Contains(job, "npm ") {
				t.Errorf("%s: packages from npm run in a job that can sign in:\n%s", path, job)
			}
		}
		for line := range strings.Lines(jobs) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.Contains(line, "uses:") && !pinned.MatchString(line),
				strings.Contains(line, "go run ") && !tool.MatchString(line),
				strings.Contains(line, "npm install"), strings.Contains(line, "npx "), strings.Contains(line, "curl "):
				t.Errorf("%s: this version is not pinned: %s", path, line)
			}
		}
	}
}

// TestImagesNameAUser: the program of an image does not run as root.
func TestImagesNameAUser(t *testing.T) {
	for path, user := range map[string]string{"Dockerfile": `(?m)^FROM \S+:nonroot@sha256:\S+\n[^F]*\z`, "infra/Dockerfile": `(?m)^USER [1-9]\d*\n\z`} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil || !regexp.MustCompile(user).Match(text) {
			t.Errorf("%s, %v: its last stage names no user", path, err)
		}
	}
}

// TestPackagesAreLocked: lock files identify the packages from npm by their hashes. They contain no address of a registry, because users may have other
// registries.
func TestPackagesAreLocked(t *testing.T) {
	packages, err := filepath.Glob(filepath.Join(root, "scripts", "*", "package.json"))
	if err != nil || len(packages) < 5 {
		t.Fatal(packages, err)
	}
	for _, path := range packages {
		lock, err := os.ReadFile(filepath.Join(filepath.Dir(path), "package-lock.json"))
		if err != nil {
			t.Error(err)
		}
		text := string(lock)
		if strings.Contains(text, `"resolved"`) || strings.Count(text, "\n    \"node_modules/") != strings.Count(text, `"integrity"`) {
			t.Errorf("%s: a package has no hash, or it has an address", path)
		}
	}
}

// TestListOfModules: a release's list has exactly the modules that its programs link, on every system.
func TestListOfModules(t *testing.T) {
	testsize.InFull(t)
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "spdx.sh"), "v1.2.3").Output()
	proof.Must(t, err)
	list := string(out)
	for _, want := range []string{
		"SPDXVersion: SPDX-2.3\n", "PackageName: tablesweep\n", "PackageName: std\n", "PackageName: github.com/go-chi/chi/v5\n",
		"PackageName: github.com/inconshreveable/mousetrap\n", // only on Windows
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	if strings.Contains(list, "go-cmp") {
		t.Error("the list has a module that only tests use")
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`(?m)^SPDXID: (.+)$`).FindAllStringSubmatch(list, -1) {
		if ids[id[1]] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(id[1]) {
			t.Errorf("id %s", id[1])
		}
		ids[id[1]] = true
	}
	if n := strings.Count(list, " DEPENDS_ON "); n != len(ids)-2 || n < 10 {
		t.Errorf("the list has %d modules, but the programs link %d", n, len(ids))
	}
}
