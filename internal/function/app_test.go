package function_test

import (
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/testsize"
)

const root = "../.." // the app's root

type binding struct {
	Type, Direction, Name, QueueName, Connection, Schedule, Route, AuthLevel string
	Methods                                                                  []string
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Each function of the list has its folder, and each folder its function.
func TestFoldersAreTheFunctions(t *testing.T) {
	functions := function.Functions(function.App{})
	var names []string
	for _, f := range functions {
		names = append(names, f.Name)
		t.Run(f.Name, func(t *testing.T) {
			var config struct{ Bindings []binding }
			readJSON(t, f.Name+"/function.json", &config)
			in := config.Bindings[0]
			want := binding{Type: string(f.Trigger), Direction: "in", Name: in.Name}
			switch f.Trigger {
			case function.Queue:
				want.QueueName, want.Connection = f.Queue, "AzureWebJobsStorage"
			case function.Timer:
				want.Schedule = f.Schedule
			case function.HTTP:
				want.Route, want.AuthLevel = f.Route, "function"
				if f.Anonymous {
					want.AuthLevel = "anonymous"
				}
				for _, m := range f.Methods {
					want.Methods = append(want.Methods, strings.ToLower(m))
				}
				if out := config.Bindings[1]; out.Type != "http" || out.Direction != "out" {
					t.Errorf("the second binding is %+v, want http out: only then does the host forward requests", out)
				}
			}
			if diff := cmp.Diff(want, in); diff != "" {
				t.Errorf("trigger (-want +got)\n%s", diff)
			}
		})
	}
	folders, err := filepath.Glob(filepath.Join(root, "*", "function.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != len(functions) {
		t.Errorf("%d function folders and %d functions: %v", len(folders), len(functions), names)
	}
}

type hostJSON struct {
	FunctionTimeout string
	Extensions      struct {
		Queues struct {
			MaxDequeueCount int
			MessageEncoding string
		}
	}
	CustomHandler struct {
		Description                 struct{ DefaultExecutablePath string }
		EnableForwardingHTTPRequest bool
		EnableProxyingHTTPRequest   bool // unknown to older hosts, which forward
	}
}

func TestHostJSONFitsTheHandler(t *testing.T) {
	var host hostJSON
	readJSON(t, "host.json", &host)
	if got := host.Extensions.Queues.MaxDequeueCount; got != engine.MaxDeliveries {
		t.Errorf("maxDequeueCount is %d, the engine counts on %d", got, engine.MaxDeliveries)
	}
	if host.FunctionTimeout != "00:10:00" {
		t.Errorf("functionTimeout is %s; a step's own deadline lies below 00:10:00", host.FunctionTimeout)
	}
	if host.Extensions.Queues.MessageEncoding != "base64" {
		t.Error("messages are sent as base64")
	}
	if !host.CustomHandler.EnableForwardingHTTPRequest || !host.CustomHandler.EnableProxyingHTTPRequest {
		t.Error("the handler expects HTTP requests as they are")
	}
}

// TestPackage checks what is deployed. In full it builds the program, which compiles all packages
// once more: a release has no paths of this machine.
func TestPackage(t *testing.T) {
	var host hostJSON
	readJSON(t, "host.json", &host)
	executable := host.CustomHandler.Description.DefaultExecutablePath
	want := []string{"host.json"}
	if testsize.Full() {
		build := exec.Command(filepath.Join(root, "scripts", "build.sh"), "linux/amd64")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		want = append(want, executable)
	}
	files := packaged(t)
	if !testsize.Full() {
		files = slices.DeleteFunc(files, func(f string) bool { return f == executable }) // of an earlier build
	}
	for _, f := range function.Functions(function.App{}) {
		want = append(want, f.Name+"/function.json")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("packaged files (-want +got)\n%s", diff)
	}
	ignored := funcignored(t)
	if ignored.MatchString(executable) {
		t.Errorf("%s would not be deployed", executable)
	}
	for _, name := range []string{"local.settings.json", ".env", ".git/config", ".azurite/log", "handler/main.go", "internal/key/key.go", "scripts/test.sh", "go.mod", "azure.yaml", "infra/main.bicep", "docs/deploy.md", "CHANGELOG.md", "dist/SHA256SUMS"} {
		if !ignored.MatchString(name) {
			t.Errorf("%s would be deployed", name)
		}
	}
	if !testsize.Full() {
		return
	}
	binary, err := elf.Open(filepath.Join(root, executable))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if binary.Machine != elf.EM_X86_64 {
		t.Errorf("the binary is for %v, want linux/amd64", binary.Machine)
	}
	if libs, err := binary.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the binary is not static: %v %v", libs, err)
	}
}

// packaged lists the files that func azure functionapp publish would take.
func packaged(t *testing.T) []string {
	t.Helper()
	ignored := funcignored(t)
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path, err = filepath.Rel(root, path)
		if path = filepath.ToSlash(path); !ignored.MatchString(path) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// funcignored compiles .funcignore as Core Tools does, which is not quite as git
// does: each pattern is anchored at the app's root and ends at a word boundary.
// (azure-functions-core-tools, GitIgnoreParser.cs)
func funcignored(t *testing.T) *regexp.Regexp {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, ".funcignore"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "/")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p := strings.ReplaceAll(regexp.QuoteMeta(line), `\*\*`, "(.+)")
		patterns = append(patterns, strings.ReplaceAll(p, `\*`, `([^/]+)`))
	}
	return regexp.MustCompile("^((" + strings.Join(patterns, ")|(") + `))\b`)
}
