package emulator_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// recording is a request to the real service, and its answer. The hosts in both are replaced by ENDPOINT. testdata/README.md describes the source of the
// recordings.
type recording struct {
	Case    string // the name of Microsoft's test that sent the request
	N       int    // the request's number in its case
	Service string // "table" or "queue"
	Request struct {
		Method, Path, Query, Body string
		Headers                   map[string]string
	}
	Answer recordedAnswer
}

type recordedAnswer struct {
	Status  int
	Headers map[string]string // by the name in lower case
	Body    string
}

func (r recording) String() string { return fmt.Sprintf("%s %d", r.Case, r.N) }

// TestRecordings sends the recorded requests, and compares the answers with those of the real service. testdata/differences.txt lists the intended
// differences. There must be no others.
func TestRecordings(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	all := readRecordings(t)
	if len(all) != 465 {
		t.Fatalf("%d recordings", len(all))
	}
	choices := readChoices(t)
	for len(all) > 0 {
		end := slices.IndexFunc(all, func(r recording) bool { return r.Case != all[0].Case })
		if end < 0 {
			end = len(all)
		}
		p := newPlayer(t, all[:end])
		for _, r := range all[:end] {
			for part, diff := range p.play(t, r) {
				name := r.String() + " " + part
				if choices[name] == "" {
					t.Errorf("%s: %s %s?%s\n%s", name, r.Request.Method, r.Request.Path, r.Request.Query, diff)
				}
				delete(choices, name)
			}
		}
		all = all[end:]
	}
	for name := range choices {
		t.Errorf("%s does not differ; remove it from testdata/differences.txt", name)
	}
}

func readRecordings(t *testing.T) []recording {
	t.Helper()
	packed, err := os.Open("testdata/recordings.jsonl.gz")
	proof.Must(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	proof.Must(t, err)
	var all []recording
	for d := json.NewDecoder(unpacked); d.More(); {
		var r recording
		proof.Must(t, d.Decode(&r))
		all = append(all, r)
	}
	return all
}

// readChoices returns the reasons of the intended differences, by recording and part.
func readChoices(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.ReadFile("testdata/differences.txt")
	proof.Must(t, err)
	choices := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		if name, reason, ok := strings.Cut(lines.Text(), ": "); ok {
			choices[name] = reason
		}
	}
	return choices
}

var (
	listedTable  = regexp.MustCompile(`\{"TableName":"(\w+)"\}`)
	listedQueue  = regexp.MustCompile(`<Name>([\w-]+)</Name>`)
	newTableName = regexp.MustCompile(`^\{"TableName": "(\w+)"`)
	entityTarget = regexp.MustCompile(`^/(\w+)(?:\(|$)`)
	batchTarget  = regexp.MustCompile(`(?m)^(?:POST|PUT|GET|MERGE|DELETE) /(\w+)`)
)

// player sends the requests of one case to a new account.
type player struct {
	*account
	ours map[string]string // our ids, times and tokens, by those in the recordings
}

// newPlayer returns an account with the tables and queues that the case uses but does not create.
func newPlayer(t *testing.T, records []recording) player {
	t.Helper()
	p := player{newAccount(t, serve(t, newEmulator(t, emulator.Options{Account: "storagename"}))), make(map[string]string)}
	made, tables, queues := map[string]bool{"Tables": true}, make(map[string]bool), make(map[string]bool)
	use := func(names map[string]bool, pattern *regexp.Regexp, text string) {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			if !made[match[1]] {
				names[match[1]] = true
			}
		}
	}
	for _, r := range records {
		if r.Request.Method == "PUT" {
			made[r.Request.Path[1:]] = true // a queue
		} else if body := newTableName.FindStringSubmatch(r.Request.Body); body != nil {
			made[body[1]] = true
		}
		use(queues, listedQueue, r.Answer.Body)
		use(tables, listedTable, r.Answer.Body)
		if r.Service == "table" {
			use(tables, entityTarget, r.Request.Path)
			use(tables, batchTarget, r.Request.Body)
		}
		if r.Answer.Headers["x-ms-continuation-nexttablename"] != "" {
			tables["zzz"] = true // a table that is no longer listed
		}
	}
	for name := range queues {
		check(t, "create "+name, p.queue(t, request{method: "PUT", path: "/" + name}), 201, "")
	}
	for name := range tables {
		check(t, "create "+name, p.createTable(t, name), 201, "")
	}
	return p
}

func (a *account) createTable(t testing.TB, name string) answer {
	t.Helper()
	return a.table(t, request{method: "POST", path: "/Tables", body: `{"TableName":"` + name + `"}`})
}

// play sends a request, and returns the differences of the answer's status, body and headers.
func (p player) play(t *testing.T, r recording) map[string]string {
	t.Helper()
	ours := strings.NewReplacer(p.pairs()...)
	query, err := url.ParseQuery(r.Request.Query)
	proof.Must(t, err)
	for _, values := range query {
		values[0] = ours.Replace(values[0])
	}
	sent := request{
		method: r.Request.Method, path: ours.Replace(r.Request.Path), query: query.Encode(), body: ours.Replace(r.Request.Body),
		header: make(map[string]string),
	}
	for name, value := range r.Request.Headers {
		sent.header[name] = ours.Replace(value)
	}
	send, endpoint := p.table, p.tableURL+"/"+p.name
	if r.Service == "queue" {
		send, endpoint = p.queue, p.queueURL+"/"+p.name
	}
	return p.compare(r.Answer, p.received(send(t, sent), endpoint))
}

// pairs returns the recorded values, each followed by our value for it.
func (p player) pairs() []string {
	var pairs []string
	for _, recorded := range slices.Sorted(maps.Keys(p.ours)) {
		pairs = append(pairs, recorded, p.ours[recorded])
	}
	return pairs
}

// uncompared lists headers that the recordings do not contain.
var uncompared = []string{"Content-Length", "Date", "Server", "X-Ms-Error-Code", "X-Ms-Request-Id"}

// received converts an answer into the form of the recordings.
func (p player) received(got answer, endpoint string) recordedAnswer {
	a := recordedAnswer{got.status, make(map[string]string), strings.ReplaceAll(string(got.body), endpoint, "ENDPOINT")}
	for name := range got.header {
		if !slices.Contains(uncompared, name) {
			a.Headers[strings.ToLower(name)] = strings.ReplaceAll(got.header.Get(name), endpoint, "ENDPOINT")
		}
	}
	return a
}

func (p player) compare(recorded, got recordedAnswer) map[string]string {
	parts := make(map[string]string)
	compare := func(part, recorded, got string) {
		recorded, theirs := masked(recorded)
		got, ours := masked(got)
		if diff := cmp.Diff(recorded, got); diff != "" {
			parts[part] = diff
			return
		}
		for i := range theirs {
			p.ours[theirs[i]] = ours[i]
		}
	}
	compare("status", fmt.Sprint(recorded.Status), fmt.Sprint(got.Status))
	compare("body", recorded.Body, got.Body)
	names := make(map[string]bool)
	for name := range recorded.Headers {
		names[name] = true
	}
	for name := range got.Headers {
		names[name] = true
	}
	for name := range names {
		compare(name, name+": "+recorded.Headers[name], name+": "+got.Headers[name])
	}
	return parts
}

// volatile matches values that differ in every answer, each as a group. Only their form is compared.
var volatile = regexp.MustCompile(strings.Join([]string{
	`RequestId:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`,
	`Time:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z)`,
	`"Timestamp":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{0,6}[1-9])?Z)"`,
	`W/\\?"datetime'(\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(?:\.\d{0,6}[1-9])?Z)'\\?"`,
	`(?:batch|changeset)response_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`,
	`<MessageId>([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`,
	`(?:InsertionTime>|ExpirationTime>|TimeNextVisible>|x-ms-time-next-visible: )([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d GMT)`,
	`(?:PopReceipt>|x-ms-popreceipt: )(A[gw]AAAAMAAAAAAAAA[0-9A-Za-z+/]{11,16}=?)`,
	`x-ms-continuation-next\w+: (1!\d+![0-9A-Za-z_-]+)`,
}, "|"))

// masked returns the text without the volatile values, and these values.
func masked(text string) (string, []string) {
	var b strings.Builder
	var found []string
	from := 0
	for _, at := range volatile.FindAllStringSubmatchIndex(text, -1) {
		for group := 2; group < len(at); group += 2 {
			if at[group] >= 0 {
				b.WriteString(text[from:at[group]] + "…")
				found = append(found, text[at[group]:at[group+1]])
				from = at[group+1]
			}
		}
	}
	return b.String() + text[from:], found
}
