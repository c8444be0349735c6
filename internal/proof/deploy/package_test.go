package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/function"
	"tablesweep/internal/proof"
)

// TestPackage: the published package is the whole app and contains nothing else. This machine's own program is not changed.
func TestPackage(t *testing.T) {
	host, err := os.ReadFile(filepath.Join(root, "host.json"))
	if err != nil || !strings.Contains(string(host), `"defaultExecutablePath": "bin/tablesweep"`) {
		t.Errorf("host.json does not start bin/tablesweep: %v", err) // Core Tools make only this file executable
	}
	want := []string{"./bin/tablesweep", "./host.json"}
	for _, f := range function.Functions(function.App{}) {
		want = append(want, "./"+f.Name+"/function.json")
	}
	slices.Sort(want)
	want = append(want, "bin/tablesweep runs")

	own := filepath.Join(root, "bin", "tablesweep")
	before, _ := os.ReadFile(own)
	p := play(t)
	if out, code := p.publish(nil, "app"); code != 0 {
		t.Fatalf("exit code %d, want 0; output:\n%s", code, out)
	}
	got := strings.Split(strings.TrimSpace(p.read("published")), "\n")
	slices.Sort(got[:len(got)-1])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("published files (-want +got)\n%s", diff)
	}
	if n := p.calls("linux/amd64 cgo=0 go build -trimpath"); n != 1 { // for the cloud's machines, without their C libraries
		t.Errorf("built %d times, want once:\n%s", n, p.read("calls"))
	}
	if after, _ := os.ReadFile(own); string(after) != string(before) {
		t.Error("this machine's bin/tablesweep was overwritten")
	}
}

// TestPublishFromARelease: publishing the app from a release's archive does not need Go.
func TestPublishFromARelease(t *testing.T) {
	release, err := os.ReadFile(filepath.Join(root, "scripts", "release.sh"))
	proof.Must(t, err)
	_, fill, found := strings.Cut(string(release), "\n# The function app ")
	fill, _, complete := strings.Cut(fill, "\npack\n")
	if !found || !complete {
		t.Fatal("this test does not find the lines of release.sh that fill the archive")
	}
	source := t.TempDir()
	for _, pattern := range []string{"host.json", "*/function.json", "scripts/*.sh", "docs/*.md", "infra", "azure.yaml", "LICENSE"} {
		copyAll(t, pattern, source)
	}
	proof.Must(t, os.MkdirAll(filepath.Join(source, "handler", "licenses"), 0o755))
	proof.Must(t, os.WriteFile(filepath.Join(source, "handler", "licenses", "notices.txt"), nil, 0o600))
	p := play(t)
	c := exec.Command("bash", "-c", "set -euo pipefail; version=v1.2.3; # "+fill)
	c.Dir, c.Env = source, []string{"PATH=" + p.path, "FAKE=" + p.dir}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("error %v; output: %s", err, out)
	}

	p.root = filepath.Join(source, "dist", "tablesweep_1.2.3_app")
	for _, name := range []string{"azure.yaml", "infra/main.bicep", "docs/deploy.md", "NOTICES.txt"} {
		if _, err := os.Stat(filepath.Join(p.root, name)); err != nil {
			t.Error(err)
		}
	}
	proof.Must(t, os.Remove(filepath.Join(p.path, "go")))
	proof.Must(t, os.Chmod(filepath.Join(p.root, "bin", "tablesweep"), 0o644)) // unpacked without the permission to execute
	if out, code := p.publish(nil, "app"); code != 0 || !strings.HasSuffix(p.read("published"), "bin/tablesweep runs\n") {
		t.Errorf("exit code %d, want 0; output:\n%s\npublished:\n%s", code, out, p.read("published"))
	}
}

// TestContainerGetsTheSource: the build of the image gets all files from which the program is built. The test only lists the packages, because the build
// would take a minute.
func TestContainerGetsTheSource(t *testing.T) {
	ignore, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	proof.Must(t, err)
	source := t.TempDir()
	for _, line := range strings.Fields(string(ignore)) {
		if pattern, ok := strings.CutPrefix(line, "!"); ok {
			copyAll(t, pattern, source)
		}
	}
	c := exec.Command("go", "list", "-deps", "-f", "", "./handler") // fails if a package or an embedded file is missing
	c.Dir = source
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("error %v; output:\n%s", err, out)
	}
	for _, name := range []string{"host.json", "Service/function.json", "scripts/stage.sh", "scripts/build.sh", "scripts/notices.sh", "LICENSE"} {
		if _, err := os.Stat(filepath.Join(source, name)); err != nil {
			t.Error(err)
		}
	}
}

// copyAll copies the files and directories of the repository that match a pattern.
func copyAll(t *testing.T, pattern, to string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, name := range found {
		rel, err := filepath.Rel(root, name)
		proof.Must(t, err)
		target := filepath.Join(to, rel)
		proof.Must(t, os.MkdirAll(filepath.Dir(target), 0o755))
		if out, err := exec.Command("cp", "-R", name, target).CombinedOutput(); err != nil {
			t.Fatalf("error %v; output: %s", err, out)
		}
	}
}
