package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// permissions are Azure's answers about a caller's roles, with the texts of the built-in roles. (Microsoft Learn, "Azure built-in roles")
var permissions = map[string]struct {
	actions, notActions []string
	assigns             bool
}{
	"Owner":                     {[]string{"*"}, nil, true},
	"User Access Administrator": {[]string{"*/read", "Microsoft.Authorization/*", "Microsoft.Support/*"}, nil, true},
	"Role Based Access Control Administrator": {[]string{"Microsoft.Authorization/roleAssignments/write", "Microsoft.Authorization/roleAssignments/delete", "*/read"}, nil, true},
	"Contributor": {[]string{"*"}, []string{"Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write", "Microsoft.Authorization/elevateAccess/Action"}, false},
	"Reader":      {[]string{"*/read"}, nil, false},
}

// TestAzAcceptsTheCommands: az accepts every az command that the documents, the output and the scripts contain.
func TestAzAcceptsTheCommands(t *testing.T) {
	testsize.InFull(t)
	version, err := exec.Command("az", "--version").Output()
	if err != nil {
		t.Skipf("az is not installed: %v", err)
	}
	python := regexp.MustCompile(`Python location '(.+)'`).FindSubmatch(version)
	if python == nil {
		t.Fatalf("the output of az --version has no Python location:\n%s", version)
	}

	p := play(t)
	printed, _ := p.publish(nil, "app")
	p.publish(nil, "--check")
	var input struct {
		Commands  [][]string `json:"commands"`
		Query     string     `json:"query"`
		Documents []any      `json:"documents"`
	}
	for call := range strings.SplitSeq(strings.TrimSpace(p.read("az-arguments")), "\n\n") {
		input.Commands = append(input.Commands, strings.Split(call, "\n"))
		if i := slices.Index(input.Commands[len(input.Commands)-1], "--query"); strings.Contains(call, "/permissions?") {
			input.Query = input.Commands[len(input.Commands)-1][i+1]
		}
	}
	called := len(input.Commands)
	texts := []string{printed}
	for _, pattern := range []string{"README.md", "docs/*.md", "infra/*.bicep", "azure.yaml", ".github/workflows/*"} {
		names, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, name := range names {
			b, err := os.ReadFile(name)
			proof.Must(t, err)
			texts = append(texts, string(b))
		}
	}
	for _, text := range texts {
		input.Commands = append(input.Commands, commandsIn(text)...)
	}
	if called < 7 || len(input.Commands) < called+15 {
		t.Fatalf("found only %d commands, and %d that scripts call: %q", len(input.Commands), called, input.Commands)
	}
	var roles []string
	for name, role := range permissions {
		roles = append(roles, name)
		input.Documents = append(input.Documents, map[string]any{"value": []any{map[string]any{"actions": role.actions, "notActions": append([]string{}, role.notActions...)}}})
	}
	// az must refuse this command, or the test parses nothing.
	input.Commands = append(input.Commands, []string{"storage", "account", "show", "--nme", "x"})

	in, err := json.Marshal(input)
	proof.Must(t, err)
	c := exec.Command(string(python[1]), filepath.Join("testdata", "az.py"))
	var complaint strings.Builder
	c.Stdin, c.Stderr = bytes.NewReader(in), &complaint
	out, err := c.Output()
	if err != nil {
		t.Fatalf("error %v; stderr: %s", err, complaint.String())
	}
	var result struct {
		Refused, Unknown []string
		Answers          []int
	}
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("error %v; output: %s", err, out)
	}
	if n := len(result.Refused); n != 1 || !strings.Contains(result.Refused[n-1], "--nme") {
		t.Errorf("in addition to the command with --nme, az refuses:\n%s", strings.Join(result.Refused, "\n"))
	}
	if len(result.Unknown) > 0 {
		t.Logf("az is older than these commands:\n%s", strings.Join(result.Unknown, "\n"))
	}
	for i, name := range roles {
		if got := result.Answers[i] > 0; got != permissions[name].assigns {
			t.Errorf("the role %s may assign roles: %v, want %v", name, got, permissions[name].assigns)
		}
	}
}

var (
	continued = regexp.MustCompile(`\\\n(?://)? *`) // also in comments
	nested    = regexp.MustCompile(`\$\(az ([^()]*)\)`)
	command   = regexp.MustCompile("(?m)(?:^[ /]*|do |`|\")az ([a-z][^\n`;]*)")
	word      = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"']+)+`)
)

// commandsIn finds the az commands of a text, in its lines, in code within a sentence, and in the values of variables.
func commandsIn(text string) [][]string {
	text = continued.ReplaceAllString(text, " ")
	var found [][]string
	add := func(c string) {
		words := word.FindAllString(strings.Trim(c, `" `), -1)
		for i, w := range words {
			words[i] = strings.NewReplacer(`"`, "", "'", "").Replace(w)
		}
		found = append(found, words)
	}
	for _, m := range nested.FindAllStringSubmatch(text, -1) {
		add(m[1])
	}
	for _, m := range command.FindAllStringSubmatch(nested.ReplaceAllString(text, "X"), -1) {
		add(m[1])
	}
	return found
}

func TestCommandsIn(t *testing.T) {
	got := commandsIn("Sign in (`az login`).\n\n    ID=$(az identity show --name X --query id)\n    for r in a b; do az role assignment create --role \"Storage $r\" --assignee \"$(az ad signed-in-user show)\"; done\n" +
		"//   az deployment sub create \\\n//     --location L\nblaze it\n")
	want := [][]string{
		{"identity", "show", "--name", "X", "--query", "id"}, {"ad", "signed-in-user", "show"}, {"login"},
		{"role", "assignment", "create", "--role", "Storage $r", "--assignee", "X"}, {"deployment", "sub", "create", "--location", "L"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got)\n%s", diff)
	}
}
