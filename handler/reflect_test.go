package main

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"tablesweep/internal/job/progress"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/outagetest"
	"tablesweep/internal/proof/testsize"
)

// reflecting is a server that answers each request with one of [outagetest.Reflections].
type reflecting struct {
	address string

	mu         sync.Mutex
	signatures []string
}

func serveReflecting(t *testing.T, form string) *reflecting {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	proof.Must(t, err)
	t.Cleanup(func() { l.Close() })
	s := &reflecting{address: l.Addr().String()}
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, form) // ends with its request
		}
	}()
	return s
}

func (s *reflecting) serve(conn net.Conn, form string) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.signatures = append(s.signatures, outagetest.Signatures(r)...)
	s.mu.Unlock()
	_, _ = conn.Write([]byte(outagetest.Reflections[form](r)))
}

// allSignatures returns the signatures of the requests so far.
func (s *reflecting) allSignatures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signatures
}

// TestOutputHasNoReflectedSignature: a server may put the request's signature anywhere in its answer. No command's output contains the signature.
func TestOutputHasNoReflectedSignature(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	const (
		account = "DefaultEndpointsProtocol=http;AccountName=acct;TableEndpoint=http://HOST/acct;QueueEndpoint=http://HOST/acct;BlobEndpoint=http://HOST/acct;"
		byKey   = account + "AccountKey=c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1mb3ItdGVzdHM="
		scanID  = "SCAN"
		bySAS   = account + "SharedAccessSignature=sv=2024-11-04&ss=btq&srt=sco&sp=rwdlacu&se=2099-01-01&sig=c2lnbmF0dXJlLW9mLTMy%2BieXRlcy1mb3ItdGVz%2FdHMhIQ%3D"
	)
	_, a, good := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(3, 3))
	const people = " --table People --index-keys eid --row-key at"
	commands := []string{
		"count --table orders", "scan --table orders", "keys --table orders", "enqueue --table orders --queue work", "delete --table orders --yes",
		"copy --from orders --to copied --to-connection GOOD", "copy --from orders --to copied --from-connection GOOD --to-connection BAD", "copy --all --to-connection GOOD",
		"sync --from orders --to copied --from-connection GOOD --to-connection BAD --delete-extra --yes --max-deletes 9", "copy --from orders --to copied --to-connection GOOD --dry-run",
		"verify --from orders --to orders --to-connection GOOD", "verify --from orders --to copied --from-connection GOOD --to-connection BAD",
		"export --from orders --to DIR/export", "export --from orders --to DIR/rows.csv", "export --all --to DIR/all", "export --from orders --to blob:backups/orders --from-connection GOOD --to-connection BAD",
		"import --from blob:backups/orders --to orders --to-connection GOOD", "import --all --from blob:backups --to-connection GOOD", "import --from DIR/rows.jsonl --to orders --to-connection BAD",
		"tables list", "tables create orders", "tables delete orders --yes", "log append orders {\"n\":1}", "log tail orders", "log list", "log delete orders --yes",
		"catalog insert {\"eid\":\"1\",\"at\":\"1\"}" + people, "catalog patch eid=1 {\"n\":1}" + people, "catalog delete eid=1 --yes" + people, "catalog import DIR/people.jsonl" + people,
		"catalog query eid=1" + people, "catalog count" + people, "catalog changes" + people, "catalog export" + people,
		"catalog check" + people, "catalog check --repair" + people, "catalog migrate --yes" + people,
		"scans list", "scans show " + scanID, "scans failed " + scanID, "scans ranges " + scanID, "scans timeline " + scanID, "doctor",
		"scans start DIR/count.json", "scans cancel " + scanID, "scans retry " + scanID,
		"scans start DIR/count.json --url http://HOST", "scans cancel " + scanID + " --url http://HOST", "scans retry " + scanID + " --failed --url http://HOST",
	}
	for _, c := range commandsOf(rootCommand()) {
		withoutStorage := []string{"completion", "man", "help", "version", "emulator", "demo", "local", "catalog list"} // local starts the app, which internal/app/function tests
		about := func(command string) bool { return strings.HasPrefix(command+" ", c+" ") }
		if !slices.ContainsFunc(withoutStorage, func(name string) bool { return strings.HasPrefix(c+" ", name+" ") }) && !slices.ContainsFunc(commands, about) {
			t.Errorf("the command %s is not tested", c)
		}
	}
	for form := range outagetest.Reflections {
		for signer, connection := range map[string]string{"key": byKey, "SAS": bySAS} {
			t.Run(form+"/"+signer, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				proof.Must(t, os.WriteFile(dir+"/rows.jsonl", []byte(`{"PartitionKey":"p","RowKey":"r"}`), 0o600))
				proof.Must(t, os.WriteFile(dir+"/people.jsonl", []byte(`{"eid":"1","at":"1"}`), 0o600), os.WriteFile(dir+"/count.json", []byte(countOrders), 0o600))
				for i, command := range commands {
					if (i+len(form)+len(signer))%testsize.Slow(24, 6, 1) > 0 && (command != "doctor" || !testsize.Full()) {
						continue
					}
					s := serveReflecting(t, form)
					bad := strings.ReplaceAll(connection, "HOST", s.address)
					args := strings.Fields(strings.NewReplacer("DIR", dir, "HOST", s.address).Replace(command))
					flags := strings.Join(args, " ")
					withEnvironment := args[0] == "doctor" || strings.Contains(flags, "--url ")
					for i := range args {
						args[i] = strings.NewReplacer("GOOD", good, "BAD", bad).Replace(args[i])
					}
					switch {
					case withEnvironment:
					case strings.Contains(flags, "BAD"):
						args = append(args, "--patience", "300ms")
					case strings.Contains(flags, "--from "), strings.Contains(flags, "--all"):
						args = append(args, "--patience", "300ms", "--from-connection", bad)
					default:
						args = append(args, "--patience", "300ms", "--connection", bad)
					}
					var output string
					if withEnvironment {
						c := exec.Command("tablesweep", args...)
						c.Dir, c.Env = dir, append(os.Environ(), "AzureWebJobsStorage="+bad, "TABLE_CATALOG_NAME=People", "TABLE_CATALOG_INDEX_KEYS=eid", "TABLE_CATALOG_ROW_KEY=at", keySetting+"=c2VjcmV0LWtleS1vZi1hLWZ1bmN0aW9u")
						out, _ := c.CombinedOutput() // the output has the failures
						output = string(out)
					} else {
						var err error
						var reported bytes.Buffer
						if output, err = user(t.Context(), nil, args...); err != nil {
							report(progress.New(&reported), err)
						}
						output += reported.String()
					}
					if len(s.allSignatures()) == 0 {
						t.Errorf("%s: the command sent no request; output:\n%s", command, output)
					}
					if outagetest.Repeats(output, s.allSignatures()) {
						t.Errorf("%s: the signature is in\n%s", command, output)
					}
				}
			})
		}
	}
}

// commandsOf returns the full names of all commands that can be run, below c.
func commandsOf(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		names = append(names, commandsOf(sub)...)
	}
	if _, name, below := strings.Cut(c.CommandPath(), " "); below && c.Runnable() && !c.HasSubCommands() {
		names = append(names, name)
	}
	return names
}
