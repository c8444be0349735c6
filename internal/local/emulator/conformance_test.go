package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// backend is a storage account that the conformance suite tests. Every property uses new tables and queues.
type backend struct {
	*account
	azurite bool
}

// azuriteVariable contains the connection string of an Azurite that was started with --skipApiVersionCheck.
const azuriteVariable = "TABLESWEEP_AZURITE"

// TestConformance checks that the emulator and, if available, Azurite behave as the real services are documented.
func TestConformance(t *testing.T) {
	suites := [][]property{tableProperties(), entityProperties(), queryProperties(), batchProperties(), queueProperties(), blobProperties(), clientProperties()}
	for _, name := range []string{"emulator", "azurite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBackend(t, name)
			for _, suite := range suites {
				for _, p := range suite {
					t.Run(p.name, func(t *testing.T) {
						t.Parallel()
						p.check(t, b)
					})
				}
			}
		})
	}
}

// property is one behaviour that a backend must have.
type property struct {
	name  string
	check func(*testing.T, backend)
}

func openBackend(t testing.TB, name string) backend {
	t.Helper()
	b := backend{azurite: name == "azurite"}
	if !b.azurite {
		b.account = newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
		return b
	}
	connection := os.Getenv(azuriteVariable)
	if connection == "" {
		t.Skipf("NOT RUN AGAINST AZURITE: set %s to the connection string of a running one", azuriteVariable)
	}
	b.account = newAccount(t, connection)
	return b
}

func newEmulator(t testing.TB, o emulator.Options) *emulator.Emulator {
	t.Helper()
	e, err := emulator.New(o)
	proof.Must(t, err)
	return e
}

// serve serves an emulator over HTTP while the test runs, and returns its
// connection string.
func serve(t testing.TB, e *emulator.Emulator) string {
	t.Helper()
	s, err := e.Serve(context.Background(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s.ConnectionString()
}

// either returns what a backend must answer: real for the emulator, as in the real service, or azurite for Azurite. why is the reason of the difference.
func either[T any](t testing.TB, b backend, real, azurite T, why string) T {
	t.Helper()
	if !b.azurite {
		return real
	}
	t.Logf("Azurite differs: want %v, but the service has %v: %s", azurite, real, why)
	return azurite
}

// newName returns an unused name for a table or a queue.
func (b backend) newName() string { return fmt.Sprintf("t%x", rand.Uint64()) }

// newTable creates a table.
func (b backend) newTable(t testing.TB) string {
	t.Helper()
	name := b.newName()
	got := b.createTable(t, name)
	if got.status != http.StatusCreated {
		t.Fatalf("create table: %v", got)
	}
	return name
}

// insert adds an entity. members are JSON members that follow the keys.
func (b backend) insert(t testing.TB, table, partition, row, members string) answer {
	t.Helper()
	return b.table(t, request{
		method: "POST", path: "/" + table,
		header: map[string]string{"Prefer": "return-no-content"},
		body:   entityBody(partition, row, members),
	})
}

func entityBody(partition, row, members string) string {
	p, _ := json.Marshal(partition)
	r, _ := json.Marshal(row)
	body := fmt.Sprintf(`{"PartitionKey":%s,"RowKey":%s`, p, r)
	if members != "" {
		body += "," + members
	}
	return body + "}"
}

func (b backend) get(t testing.TB, table, partition, row string) answer {
	t.Helper()
	return b.table(t, request{method: "GET", path: entityPath(table, partition, row)})
}

// check compares an answer's status and error code.
func check(t testing.TB, what string, got answer, status int, code string) {
	t.Helper()
	if got.status != status || got.code() != code {
		t.Errorf("%s: got %v, want %d %s", what, got, status, code)
	}
}

// same compares any two values.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func tableProperties() []property {
	return []property{
		{"table names follow the rules", tableNames},
		{"tables are listed in pages", tableList},
		{"requests are authenticated", tableAuthentication},
		{"every answer has a date and a request id", answerHeaders},
	}
}

func tableNames(t *testing.T, b backend) {
	const noCode = "Azurite sends an empty code"
	const characters, length = "InvalidResourceName", "OutOfRangeInput"
	for _, c := range []struct{ name, code string }{
		{"a_b", characters}, {"a-b", characters}, {"1ab", characters}, {"äbc", characters},
		{"ab", length}, {strings.Repeat("a", 64), length},
	} {
		check(t, c.name, b.createTable(t, c.name), 400, either(t, b, c.code, "", noCode))
	}
	check(t, "tables", b.createTable(t, "tables"), 400, either(t, b, characters, "", noCode))
	for _, body := range []string{`{"tablename":"abc"}`, `{}`, `{"TableName":5}`, `[]`} {
		got := b.table(t, request{method: "POST", path: "/Tables", body: body})
		same(t, body, got.status, 400)
	}
	longest := fmt.Sprintf("%s%d", strings.Repeat("a", 50), os.Getpid())
	check(t, "a long name", b.createTable(t, longest), 201, "")
	b.table(t, request{method: "DELETE", path: "/Tables('" + longest + "')"})
}

func tableList(t *testing.T, b backend) {
	prefix := b.newName() + "list"
	for _, suffix := range []string{"a", "b", "c"} {
		check(t, "create", b.createTable(t, prefix+suffix), 201, "")
	}
	filter := "$filter=" + urlQuery("TableName ge '"+prefix+"' and TableName lt '"+prefix+"z'")
	var got []string
	next, pages := "", 0
	for {
		r := b.table(t, request{method: "GET", path: "/Tables", query: filter + "&$top=2" + next})
		got = append(got, fieldsOf(t, r, "TableName")...)
		pages++
		token := r.header.Get("x-ms-continuation-NextTableName")
		if token == "" || pages > 10 {
			break
		}
		next = "&NextTableName=" + urlQuery(token)
	}
	same(t, "names", got, []string{prefix + "a", prefix + "b", prefix + "c"})
	same(t, "pages", pages, 2)
}

func tableAuthentication(t *testing.T, b backend) {
	list := request{method: "GET", path: "/Tables", query: "$top=1"}
	full := *b.account
	full.lite = false
	check(t, "SharedKey", full.table(t, list), 200, "")
	check(t, "SharedKeyLite", b.table(t, list), 200, "")
	wrong := *b.account
	wrong.key = []byte("a wrong key")
	check(t, "wrong key", wrong.table(t, list), 403, either(t, b, "AuthenticationFailed", "AuthorizationFailure", "Azurite uses another code"))
	stale := list
	stale.header = map[string]string{"x-ms-date": "Mon, 02 Jan 2006 15:04:05 GMT"}
	check(t, "old date", b.table(t, stale), either(t, b, 403, 200, "Azurite does not check the date"),
		either(t, b, "AuthenticationFailed", "", "as above"))
}

func answerHeaders(t *testing.T, b backend) {
	got := b.table(t, request{method: "GET", path: "/Tables", header: map[string]string{"x-ms-client-request-id": "mine"}})
	for _, name := range []string{"Date", "x-ms-request-id", "x-ms-version"} {
		if got.header.Get(name) == "" {
			t.Errorf("the header %s is missing", name)
		}
	}
	if _, err := http.ParseTime(got.header.Get("Date")); err != nil {
		t.Error(err)
	}
}
