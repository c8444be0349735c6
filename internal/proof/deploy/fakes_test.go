// Package deploy contains the tests of scripts/publish.sh and of the files that it publishes. Scripts replace Core Tools, az, azd and the clock. They print
// the same texts as the real programs.
package deploy_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/app/health"
	"tablesweep/internal/proof"
)

const (
	root         = "../../.."
	subscription = "00000000-1111-2222-3333-444444444444"
	// mark is a part of every key and token in the output of the fakes.
	mark = "MARKED-SECRET"
)

// fakes are the programs that publish.sh calls instead of the real ones. $FAKE is the directory of a case. Its files determine the answers. Each call is
// recorded with its arguments.
var fakes = map[string]string{
	"date":  `cat "$FAKE/clock"`,
	"sleep": `echo $(($(cat "$FAKE/clock") + $1 * $(cat "$FAKE/pace"))) >"$FAKE/clock"`,
	"go": `echo "$GOOS/$GOARCH cgo=$CGO_ENABLED go $*" >>"$FAKE/calls"
case $1 in
env) echo linux ;;
build) while [ "$1" != -o ]; do shift; done; echo program >"$2" ;;
esac`,
	"azd": `cat "$FAKE/azd"`,
	"func": `if [ "$1" = --version ]; then cat "$FAKE/func-version"; exit; fi
echo "func $*" >>"$FAKE/calls"
find . -type f | sort >"$FAKE/published"
[ -x bin/tablesweep ] && echo "bin/tablesweep runs" >>"$FAKE/published"
case "$*" in *--show-keys*) echo "Invoke url: https://app.example/api/scans?code=MARKED-SECRET" ;; esac
answer=$(ls "$FAKE"/publish.* | head -n 1)
cat "$answer"
case $answer in *.ok) exit 0 ;; esac
[ "$(ls "$FAKE"/publish.* | wc -l)" -eq 1 ] || rm "$answer"
exit 1`,
	"az": `echo "az $*" >>"$FAKE/calls"
printf "%s\\n" "$@" "" >>"$FAKE/az-arguments"
[ -e "$FAKE/signed-in" ] || { echo "ERROR: Please run 'az login' to setup account." >&2; exit 1; }
case "$*" in
"account get-access-token"*"--query subscription "*) echo 00000000-1111-2222-3333-444444444444 ;;
"account get-access-token"*) echo '{"accessToken": "MARKED-SECRET"}' ;;
"rest "*/permissions*) cat "$FAKE/may-assign" ;;
"rest "*/sites/app*) echo app.example ;;
"resource list"*"--name refused "*) echo "ERROR: (AuthorizationFailed) The client does not have authorization" >&2; exit 1 ;;
"resource list"*) [ "$(cat "$FAKE/clock")" -lt "$(cat "$FAKE/visible")" ] || echo /subscriptions/S/resourceGroups/rg-app/providers/Microsoft.Web/sites/app ;;
"functionapp keys list"*"--query functionKeys.default "*)
  if [ "$(cat "$FAKE/clock")" -lt "$(cat "$FAKE/keys")" ]; then cat "$FAKE/no-keys" >&2; exit 1; fi
  echo MARKED-SECRET ;;
"functionapp keys list"*) echo '{"functionKeys": {"default": "MARKED-SECRET"}, "masterKey": "MARKED-SECRET"}' ;;
"functionapp config appsettings list"*"AzureWebJobsStorage__accountName"*) echo stapp ;;
"functionapp config appsettings list"*) echo '[{"name": "ARCHIVE", "value": "AccountKey=MARKED-SECRET"}]' ;;
"storage account show"*) printf '/subscriptions/S/resourceGroups/rg-app/providers/Microsoft.Storage/storageAccounts/stapp\thttps://stapp.table.example/\n' ;;
*) echo "unknown: az $*" >&2; exit 2 ;;
esac`,
	"curl": `echo "curl $*" >>"$FAKE/calls"
[ "$(cat)" = "x-functions-key: MARKED-SECRET" ] || { echo "no key" >&2; exit 22; }
while [ "$1" != --output ]; do shift; done
if [ "$(cat "$FAKE/clock")" -lt "$(cat "$FAKE/works")" ]; then
  cat "$FAKE/answer" >"$2"; cat "$FAKE/answer-status"
else cat "$FAKE/healthy" >"$2"; printf 200; fi`,
}

// playground is one case, with the directories of the fakes' answers and of their recorded calls.
type playground struct {
	t         *testing.T
	dir, path string
	root      string // the directory that contains scripts/publish.sh
}

// play prepares a case in which everything succeeds at the first try.
func play(t *testing.T) *playground {
	t.Helper()
	p := &playground{t: t, dir: t.TempDir(), root: root}
	p.path = filepath.Join(p.dir, "path")
	proof.Must(t, os.Mkdir(p.path, 0o755))
	// publish.sh finds only these programs of this machine.
	for _, name := range strings.Fields("bash sh env cat chmod cp dirname find grep head ls mkdir mktemp rm sort tail tee tr wc") {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%v: publish.sh needs a shell and its usual programs", err)
		}
		proof.Must(t, os.Symlink(real, filepath.Join(p.path, name)))
	}
	for name, script := range fakes {
		p.write(filepath.Join("path", name), "#!/bin/sh\n"+script+"\n")
	}
	p.write("clock", "1000000")
	p.write("pace", "1")
	p.write("visible", "0")
	p.write("keys", "0")
	p.write("works", "0")
	p.write("no-keys", "ERROR: Encountered an error (InternalServerError) from host runtime.\n")
	p.write("answer", `{"title":"Service Unavailable","detail":"storage is not ready"}`)
	p.write("answer-status", "503")
	healthy, err := json.Marshal(health.NewReport(time.Now(), []health.Check{health.NewCheck("settings", "right", nil)}))
	proof.Must(t, err)
	p.write("healthy", string(healthy))
	p.write("signed-in", "")
	p.write("may-assign", "1")
	p.write("func-version", "4.2.2\n")
	p.write("azd", "azd version 1.24.1 (commit 0123456)\n")
	p.write("publish.9.ok", "The deployment was successful!\n")
	return p
}

func (p *playground) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the text of a file, or "" if the file does not exist.
func (p *playground) read(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(b)
}

// calls returns the number of calls that begin with the command.
func (p *playground) calls(command string) int {
	return strings.Count("\n"+p.read("calls"), "\n"+command)
}

// waited returns the number of seconds that the script slept.
func (p *playground) waited() int {
	clock, err := strconv.Atoi(strings.TrimSpace(p.read("clock")))
	if err != nil {
		p.t.Fatal(err)
	}
	return clock - 1000000
}

// publish runs scripts/publish.sh, and returns its output and exit code. No secret may be in the output or in the arguments of a program.
func (p *playground) publish(env []string, args ...string) (string, int) {
	p.t.Helper()
	c := exec.Command("bash", append([]string{filepath.Join(p.root, "scripts", "publish.sh")}, args...)...)
	c.Env = append([]string{"PATH=" + p.path, "FAKE=" + p.dir, "TMPDIR=" + p.dir}, env...)
	b, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	for what, text := range map[string]string{"printed": string(b), "an argument": p.read("calls")} {
		if strings.Contains(text, mark) {
			p.t.Errorf("a secret was %s:\n%s", what, text)
		}
	}
	return string(b), c.ProcessState.ExitCode()
}
