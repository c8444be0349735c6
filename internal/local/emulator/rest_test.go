package emulator_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/proof"
)

// account is a client of a storage account. It uses only net/http, signs its requests itself, and shares no code with the emulator or the SDK.
type account struct {
	name     string
	key      []byte
	tableURL string // the URL without the account's name
	queueURL string
	blobURL  string
	http     *http.Client
	lite     bool // sign by SharedKeyLite
}

// newAccount parses a connection string whose endpoints end with the account's name.
func newAccount(t testing.TB, connection string) *account {
	t.Helper()
	fields := make(map[string]string)
	for part := range strings.SplitSeq(strings.TrimRight(connection, ";"), ";") {
		name, value, _ := strings.Cut(part, "=")
		fields[name] = value
	}
	key, err := base64.StdEncoding.DecodeString(fields["AccountKey"])
	if err != nil || len(key) == 0 {
		t.Fatalf("the connection string has no valid AccountKey: %v", err)
	}
	suffix := "/" + fields["AccountName"]
	return &account{
		name:     fields["AccountName"],
		key:      key,
		tableURL: strings.TrimSuffix(strings.TrimRight(fields["TableEndpoint"], "/"), suffix),
		queueURL: strings.TrimSuffix(strings.TrimRight(fields["QueueEndpoint"], "/"), suffix),
		blobURL:  strings.TrimSuffix(strings.TrimRight(fields["BlobEndpoint"], "/"), suffix),
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
		lite:     true,
	}
}

// answer is a response whose body was read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code returns the error code, in any of the services' forms.
func (a answer) code() string {
	var o struct {
		Error struct {
			Code string `json:"code"`
		} `json:"odata.error"`
	}
	if json.Unmarshal(a.body, &o) == nil {
		return o.Error.Code
	}
	var x struct{ Code string }
	_ = xml.Unmarshal(a.body, &x)
	return x.Code
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s: %.400s", a.status, a.code(), a.body)
}

// request describes a request of the account. Path and query are in the form in which they are sent.
type request struct {
	method, path, query string
	header              map[string]string
	body                string
}

// table sends a request to the Table service. The path starts after the account.
func (a *account) table(t testing.TB, r request) answer {
	t.Helper()
	return a.send(t, a.tableRequest(t, r))
}

// tableRequest returns a signed request to the Table service.
func (a *account) tableRequest(t testing.TB, r request) *http.Request {
	t.Helper()
	defaults := map[string]string{"Accept": "application/json;odata=minimalmetadata", "x-ms-version": "2019-02-02", "DataServiceVersion": "3.0"}
	if r.body != "" {
		defaults["Content-Type"] = "application/json"
	}
	req := a.build(t, a.tableURL, r, defaults)
	resource := "/" + a.name + "/" + a.name + r.path
	text := req.Header.Get("x-ms-date") + "\n" + resource
	if !a.lite {
		text = strings.Join([]string{r.method, "", req.Header.Get("Content-Type"), req.Header.Get("x-ms-date"), resource}, "\n")
	}
	a.sign(req, text)
	return req
}

// queue sends a request to the Queue service.
func (a *account) queue(t testing.TB, r request) answer {
	t.Helper()
	return a.send(t, a.queueRequest(t, r))
}

// queueRequest returns a signed request to the Queue service.
func (a *account) queueRequest(t testing.TB, r request) *http.Request {
	t.Helper()
	return a.signed(t, a.queueURL, r)
}

// blob sends a request to the Blob service. It is signed by SharedKey, because Azurite accepts no other scheme there.
func (a *account) blob(t testing.TB, r request) answer {
	t.Helper()
	full := *a
	full.lite = false
	return a.send(t, full.signed(t, a.blobURL, r))
}

// signed returns a request that is signed for the Queue and Blob services.
func (a *account) signed(t testing.TB, base string, r request) *http.Request {
	t.Helper()
	req := a.build(t, base, r, map[string]string{"x-ms-version": "2024-08-04"})
	var headers, query []string
	for name, values := range req.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			headers = append(headers, lower+":"+values[0]+"\n")
		}
	}
	for name, values := range req.URL.Query() {
		query = append(query, "\n"+name+":"+strings.Join(values, ","))
	}
	byName := func(a, b string) int { // the name ends at the first colon
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	}
	slices.SortFunc(headers, byName)
	slices.SortFunc(query, byName)
	resource := "/" + a.name + "/" + a.name + r.path
	if a.lite {
		if comp := req.URL.Query().Get("comp"); comp != "" {
			resource += "?comp=" + comp
		}
		a.sign(req, r.method+"\n\n\n\n"+strings.Join(headers, "")+resource)
	} else {
		length := ""
		if r.body != "" || r.method != "GET" && req.Header.Get("x-ms-version") <= "2014-02-14" {
			length = fmt.Sprint(len(r.body))
		}
		h := req.Header
		a.sign(req, strings.Join([]string{r.method, "", "", length, "", h.Get("Content-Type"), "", h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range"),
			strings.Join(headers, "") + resource + strings.Join(query, "")}, "\n"))
	}
	return req
}

// build creates a request. The request's own headers replace the defaults, and the value "" removes one.
func (a *account) build(t testing.TB, base string, r request, defaults map[string]string) *http.Request {
	t.Helper()
	address := base + "/" + a.name + r.path
	if r.query != "" {
		address += "?" + r.query
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, address, bytes.NewReader([]byte(r.body)))
	proof.Must(t, err)
	req.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	for _, header := range []map[string]string{defaults, r.header} {
		for name, value := range header {
			switch {
			case value == "":
				req.Header.Del(name)
			case strings.HasPrefix(name, "x-ms-meta-"):
				req.Header[name] = []string{value} // sent in this spelling
			default:
				req.Header.Set(name, value)
			}
		}
	}
	return req
}

func (a *account) sign(req *http.Request, text string) {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(text))
	scheme := "SharedKey"
	if a.lite {
		scheme = "SharedKeyLite"
	}
	req.Header.Set("Authorization", scheme+" "+a.name+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func (a *account) send(t testing.TB, req *http.Request) answer {
	t.Helper()
	resp, err := a.http.Do(req)
	proof.Must(t, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	body.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, body.Bytes()}
}

// entityPath returns the path of one entity.
func entityPath(table, partition, row string) string {
	quote := func(s string) string { return url.PathEscape(strings.ReplaceAll(s, "'", "''")) }
	return "/" + table + "(PartitionKey='" + quote(partition) + "',RowKey='" + quote(row) + "')"
}

// batchOp is one operation of a batch.
type batchOp struct {
	method, path string
	header       map[string]string
	body         string
}

// batch sends an entity group transaction.
func (a *account) batch(t testing.TB, ops []batchOp) answer {
	t.Helper()
	return a.table(t, a.batchRequest(ops))
}

func (a *account) batchRequest(ops []batchOp) request {
	return request{
		method: "POST", path: "/$batch",
		header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_b"},
		body:   a.batchBody(ops),
	}
}

func (a *account) batchBody(ops []batchOp) string {
	var b strings.Builder
	b.WriteString("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n")
	for _, op := range ops {
		b.WriteString("--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n")
		fmt.Fprintf(&b, "%s %s/%s%s HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n", op.method, a.tableURL, a.name, op.path)
		for name, value := range op.header {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
		b.WriteString("\r\n" + op.body + "\r\n")
	}
	b.WriteString("--changeset_c--\r\n--batch_b--\r\n")
	return b.String()
}

// statuses returns the statuses of the parts of a batch's answer.
func (a answer) statuses() []int {
	var statuses []int
	for line := range strings.SplitSeq(string(a.body), "\r\n") {
		var status int
		if n, _ := fmt.Sscanf(line, "HTTP/1.1 %d", &status); n == 1 {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// innerCode returns the error code in a batch's answer, and the index of the failed operation if the message contains it.
func (a answer) innerCode() (code, index string) {
	start := bytes.Index(a.body, []byte(`{"odata.error"`))
	if start < 0 {
		return "", ""
	}
	var o struct {
		Error struct {
			Code    string
			Message struct{ Value string }
		} `json:"odata.error"`
	}
	_ = json.NewDecoder(bytes.NewReader(a.body[start:])).Decode(&o)
	if number, _, found := strings.Cut(o.Error.Message.Value, ":"); found && strings.Trim(number, "0123456789") == "" {
		index = number
	}
	return o.Error.Code, index
}

// page is a query's answer.
type page struct {
	rows []json.RawMessage
	next string // the query parameters of the next page, or ""
}

// query reads one page. next is "" for the first page, and otherwise the previous page's next.
func (a *account) query(t testing.TB, table, options, next string) page {
	t.Helper()
	got := a.table(t, request{method: "GET", path: "/" + table + "()", query: strings.Trim(options+"&"+next, "&")})
	if got.status != http.StatusOK {
		t.Fatalf("query %s?%s: %v", table, options, got)
	}
	var body struct{ Value []json.RawMessage }
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatalf("query %s: %v", table, err)
	}
	return page{body.Value, nextOf(got)}
}

// nextOf returns the query parameters of the page after an answer, or "".
func nextOf(a answer) string {
	next := ""
	for _, part := range []string{"NextPartitionKey", "NextRowKey"} {
		if token := a.header.Get("x-ms-continuation-" + part); token != "" {
			next = strings.Trim(next+"&"+part+"="+url.QueryEscape(token), "&")
		}
	}
	return next
}

// all reads all pages of a query, and returns the rows' keys as "partition/row".
func (a *account) all(t testing.TB, table, options string) []string {
	t.Helper()
	keys := []string{}
	next := ""
	for range 10_000 {
		p := a.query(t, table, options, next)
		keys = append(keys, rowKeys(t, p)...)
		if p.next == "" {
			return keys
		}
		next = p.next
	}
	t.Fatal("the pages do not end")
	return nil
}
