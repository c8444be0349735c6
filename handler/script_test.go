package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the scripts in testdata compare with; read the diff before committing it")

// TestMain runs the tests. They find this program on the PATH under these commands' names, so no test builds it again.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise, with -race, each process waits for a second at its end
	_ = flag.Set("test.parallel", "6")       // most tests wait for other processes
	testscript.Main(m, map[string]func(){"tablesweep": main, "smalltablesweep": smallMain, "boundcopier": boundMain, "servant": servantMain})
}

// TestScripts runs the program as users do. Each script has two accounts, in the settings AzureWebJobsStorage and OTHER,
// and may contain these lines:
//
//	run ARG…                 run the program with the arguments, in the script's [servant]. With exec, the program runs in a new process, for
//	                         stdin, signals, a terminal, or a shell's line
//	table NAME FILE          create a table from the file's lines: PartitionKey|RowKey|name:type=value|…
//	many NAME PARTITIONS N   create a table of that many partitions with N rows each
//	messages QUEUE           take all messages of a queue, and print them sorted on stdout
//	runscan NAME FROM TO     copy a table as an app does, in the mode fail; the setting NAME gets the scan's id. With TO as blob:CONTAINER/PREFIX,
//	                         export the tables that match the pattern FROM
//	faults SPEC              inject these faults into AzureWebJobsStorage from now on
//	lying STATUS JSON        start a service that gives each request this answer; the setting LYING has its connection
func TestScripts(t *testing.T) {
	testsize.WithoutRace(t) // the packages' own tests check concurrent work with the race detector
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("found %d scripts, %v", len(scripts), err)
	}
	testscript.Run(t, testscript.Params{
		Files:               scripts,
		UpdateScripts:       *rewrite,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			for _, name := range []string{"AzureWebJobsStorage", "OTHER"} {
				em, err := emulator.New(emulator.Options{})
				if err != nil {
					return err
				}
				server, err := em.Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
				if err != nil {
					return err
				}
				e.Defer(func() { server.Close() })
				e.Setenv(name, server.ConnectionString())
				e.Values[name] = em
			}
			v := &servant{}
			e.Defer(v.close)
			e.Values["servant"] = v
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run": func(ts *testscript.TestScript, neg bool, args []string) {
				code, err := ts.Value("servant").(*servant).do(ts, args)
				if ts.Check(err); (code != 0) != neg {
					ts.Fatalf("exit code %d", code)
				}
			},
			"table": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(makeTable(ts, args[0], parseRows(ts, ts.ReadFile(args[1]))))
			},
			"many": func(ts *testscript.TestScript, _ bool, args []string) {
				var partitions, each int
				_, err := fmt.Sscan(args[1]+" "+args[2], &partitions, &each)
				ts.Check(err)
				ts.Check(makeTable(ts, args[0], manyRows(partitions, each)))
			},
			"messages": func(ts *testscript.TestScript, _ bool, args []string) {
				texts, err := takeMessages(ts, args[0])
				ts.Check(err)
				_, err = ts.Stdout().Write([]byte(strings.Join(texts, "\n") + "\n"))
				ts.Check(err)
			},
			"runscan": func(ts *testscript.TestScript, _ bool, args []string) {
				id, err := runScan(ts, copyRequest(args[1], args[2]))
				ts.Check(err)
				ts.Setenv(args[0], string(id))
			},
			"lying": func(ts *testscript.TestScript, _ bool, args []string) {
				status, err := strconv.Atoi(args[0])
				ts.Check(err)
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json;odata=minimalmetadata")
					w.Header().Set("X-Ms-Request-Id", "1")
					w.Header().Set("X-Ms-Client-Request-Id", r.Header.Get("X-Ms-Client-Request-Id"))
					w.Header().Set("X-Ms-Version", "2019-02-02")
					w.WriteHeader(status)
					fmt.Fprint(w, args[1])
				}))
				ts.Defer(s.Close)
				ts.Setenv("LYING", "AccountName=a;AccountKey=c2VjcmV0;TableEndpoint="+s.URL+"/a")
			},
			"faults": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("AzureWebJobsStorage").(*emulator.Emulator).SetFaults(args[0]))
			},
		},
	})
}

// manyRows returns rows in partitions of the given size, in table order.
func manyRows(partitions, each int) []storage.Entity {
	rows := make([]storage.Entity, partitions*each)
	for i := range rows {
		rows[i] = storage.Entity{
			Key:        key.Key{Partition: fmt.Sprintf("p%05d", i/each), Row: fmt.Sprintf("r%04d", i%each)},
			Properties: []storage.Property{storage.Int64Property("N", int64(i))},
		}
	}
	return rows
}

// account opens the account of one of the script's settings.
func account(ts *testscript.TestScript, setting string) (*storage.Account, error) {
	c, err := storage.ParseConnection(ts.Getenv(setting))
	if err != nil {
		return nil, err
	}
	return storage.Open(c, storage.Options{})
}

// serveEmulator serves embedded storage over HTTP until the test ends.
func serveEmulator(t testing.TB, o emulator.Options) (*emulator.Emulator, *storage.Account, string) {
	t.Helper()
	em := emulatortest.New(t, o)
	connection := emulatortest.Serve(t, em)
	return em, accountOf(t, connection), connection
}

// accountOf opens the account of a connection.
func accountOf(t testing.TB, connection string) *storage.Account {
	t.Helper()
	c, err := storage.ParseConnection(connection)
	proof.Must(t, err)
	a, err := storage.Open(c, storage.Options{})
	proof.Must(t, err)
	return a
}

// makeTable creates a table in AzureWebJobsStorage, or in OTHER if the name starts with "other:".
func makeTable(ts *testscript.TestScript, name string, rows []storage.Entity) error {
	setting := "AzureWebJobsStorage"
	if rest, ok := strings.CutPrefix(name, "other:"); ok {
		setting, name = "OTHER", rest
	}
	a, err := account(ts, setting)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := a.Table(name).Create(ctx); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	r, err := action.Copy{Destination: a.Table(name)}.Copy(ctx, storage.Rows(rows))
	if err == nil && len(r.Failed) > 0 {
		err = fmt.Errorf("%v", r.Failed[0])
	}
	return err
}

func takeMessages(ts *testscript.TestScript, name string) ([]string, error) {
	a, err := account(ts, "AzureWebJobsStorage")
	if err != nil {
		return nil, err
	}
	q, err := a.Queue(name)
	if err != nil {
		return nil, err
	}
	var texts []string
	for {
		got, err := q.Get(context.Background(), storage.MaxGetMessages, time.Hour)
		if err != nil || len(got) == 0 {
			slices.Sort(texts)
			return texts, err
		}
		for _, m := range got {
			texts = append(texts, m.Text)
		}
	}
}

// parseRows parses lines of the form PartitionKey|RowKey|name:type=value|…, with the value as JSON.
func parseRows(ts *testscript.TestScript, text string) []storage.Entity {
	types := map[string]storage.Type{
		"string": storage.String, "boolean": storage.Boolean, "int32": storage.Int32, "int64": storage.Int64,
		"double": storage.Double, "datetime": storage.DateTime, "guid": storage.GUID, "binary": storage.Binary,
	}
	var rows []storage.Entity
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		row := storage.Entity{Key: key.Key{Partition: fields[0], Row: fields[1]}}
		for _, f := range fields[2:] {
			name, value, _ := strings.Cut(f, "=")
			name, kind, _ := strings.Cut(name, ":")
			of, ok := types[kind]
			if !ok {
				ts.Fatalf("%s: no type %q", line, kind)
			}
			row.Properties = append(row.Properties, storage.Property{Name: name, Type: of, Value: jsontext.Value(value)})
		}
		rows = append(rows, row)
	}
	return rows
}

// copyRequest returns a request that copies a table, or exports the tables of a pattern.
func copyRequest(from, to string) scans.Request {
	if at, ok := strings.CutPrefix(to, "blob:"); ok {
		container, prefix, _ := strings.Cut(at, "/")
		return scans.Request{Source: scans.TableRef{Tables: from}, Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Container: container, Prefix: prefix}}}
	}
	return scans.Request{Source: scans.TableRef{Table: from}, Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: to}, Mode: action.Fail}}
}

// runScan runs a scan with the engine. The test takes the place of the host.
func runScan(ts *testscript.TestScript, r scans.Request) (id ledger.ScanID, err error) {
	a, err := account(ts, "AzureWebJobsStorage")
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	e, err := engine.New(scans.Options{Own: a, StateTable: "tablesweep", Accounts: map[string]*storage.Account{storage.HostConnection: a}})
	if err == nil {
		err = e.TryPrepare(ctx)
	}
	if err != nil {
		return "", err
	}
	if id, err = e.Start(ctx, r); err != nil {
		return "", err
	}
	functions := []string{scans.ScanPrefix, scans.ScanPartition, scans.CopyRows}
	for _, function := range slices.Concat(functions, functions) { // a group's first messages start its scans
		q, err := a.Queue(scans.Queues[function])
		if err != nil {
			return "", err
		}
		for messages, err := q.Get(ctx, 32, time.Minute); len(messages) > 0 || err != nil; messages, err = q.Get(ctx, 32, time.Minute) {
			if err != nil {
				return "", err
			}
			for _, m := range messages {
				body, err := base64.StdEncoding.DecodeString(m.Text)
				if err == nil {
					_, err = e.Run(ctx, body, m.DequeueCount)
				}
				if err == nil {
					err = q.Delete(ctx, m)
				}
				if err != nil {
					return "", err
				}
			}
		}
	}
	return id, nil
}
