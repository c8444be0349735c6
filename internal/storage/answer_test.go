package storage_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// operation is a request: the call that makes it, its good answer, and the result that is read from that answer.
type operation struct {
	call   func(*testing.T, *storage.Account) (any, error)
	status int
	header http.Header
	body   string
	want   any
}

var operations = map[string]operation{
	"query": {func(t *testing.T, a *storage.Account) (any, error) {
		p, err := a.Table("Orders").Query(t.Context(), storage.Query{})
		return len(p.Rows), err
	}, 200, http.Header{}, `{"value":[{"PartitionKey":"p","RowKey":"r"}]}`, 1},
	"insert": {func(t *testing.T, a *storage.Account) (any, error) {
		return nil, a.Table("Orders").Write(t.Context(), storage.Op{Kind: storage.Insert, Row: row("p", "r").Row()})
	}, 204, http.Header{"Etag": {"W/1"}}, "", nil},
	"replace": {func(t *testing.T, a *storage.Account) (any, error) {
		return nil, a.Table("Orders").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: row("p", "r").Row()})
	}, 204, http.Header{"Etag": {"W/1"}}, "", nil},
	"transaction": {func(t *testing.T, a *storage.Account) (any, error) {
		return nil, a.Table("Orders").Write(t.Context(), storage.Op{Row: row("p", "r").Row()}, storage.Op{Row: row("p", "s").Row()})
	}, 0, http.Header{}, "", nil}, // for the answer see goodAnswer
	"create table": {func(t *testing.T, a *storage.Account) (any, error) { return nil, a.Table("Orders").Create(t.Context()) },
		201, http.Header{}, `{"TableName":"Orders"}`, nil},
	"delete table": {func(t *testing.T, a *storage.Account) (any, error) { return nil, a.Table("Orders").Delete(t.Context()) },
		204, http.Header{}, "", nil},
	"list tables": {func(t *testing.T, a *storage.Account) (names any, err error) {
		return names, a.TableNames(t.Context(), func(name string) error { names = name; return nil })
	}, 200, http.Header{}, `{"value":[{"TableName":"Orders"}]}`, "Orders"},
	"permission": {func(t *testing.T, a *storage.Account) (any, error) { return a.Table("Orders").MayWrite(t.Context()) },
		412, http.Header{"X-Ms-Error-Code": {"UpdateConditionNotSatisfied"}}, "", true},
	"create queue": {func(t *testing.T, a *storage.Account) (any, error) { return nil, queue(t, a).Create(t.Context()) },
		201, http.Header{}, "", nil},
	"put": {func(t *testing.T, a *storage.Account) (any, error) { return nil, queue(t, a).Put(t.Context(), "x") },
		201, http.Header{}, `<QueueMessagesList><QueueMessage><MessageId>1</MessageId></QueueMessage></QueueMessagesList>`, nil},
	"get": {func(t *testing.T, a *storage.Account) (any, error) {
		m, err := queue(t, a).Get(t.Context(), 1, time.Minute)
		return len(m), err
	}, 200, http.Header{}, `<QueueMessagesList><QueueMessage><MessageId>1</MessageId><PopReceipt>2</PopReceipt><DequeueCount>1</DequeueCount><InsertionTime>Thu, 09 May 2019 01:19:36 GMT</InsertionTime>` +
		`<ExpirationTime>Thu, 09 May 2019 01:19:36 GMT</ExpirationTime><TimeNextVisible>Thu, 09 May 2019 01:19:36 GMT</TimeNextVisible></QueueMessage></QueueMessagesList>`, 1},
	"peek": {func(t *testing.T, a *storage.Account) (any, error) {
		m, err := queue(t, a).Peek(t.Context())
		return len(m), err
	}, 200, http.Header{}, `<QueueMessagesList />`, 0},
	"update": {func(t *testing.T, a *storage.Account) (any, error) {
		return queue(t, a).Update(t.Context(), storage.Message{ID: "1", PopReceipt: "2"}, time.Minute)
	}, 204, http.Header{"X-Ms-Popreceipt": {"3"}}, "", "3"},
	"delete": {func(t *testing.T, a *storage.Account) (any, error) {
		return nil, queue(t, a).Delete(t.Context(), storage.Message{ID: "1", PopReceipt: "2"})
	}, 204, http.Header{}, "", nil},
	"length": {func(t *testing.T, a *storage.Account) (any, error) { return queue(t, a).Length(t.Context()) },
		200, http.Header{"X-Ms-Approximate-Messages-Count": {"7"}}, "", 7},
}

func queue(t *testing.T, a *storage.Account) *storage.Queue {
	t.Helper()
	q, err := a.Queue("work")
	proof.Must(t, err)
	return q
}

// goodAnswer returns the service's good answer to a request of the operation.
func (o operation) goodAnswer(t *testing.T, r *http.Request) *http.Response {
	if !strings.HasSuffix(r.URL.Path, "$batch") {
		return answered(r, o.status, o.header.Clone(), o.body)
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	parts := strings.Repeat("--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/1\r\n\r\n\r\n", strings.Count(string(sent), " HTTP/1.1\r\n"))
	return answered(r, 202, http.Header{"Content-Type": {"multipart/mixed; boundary=b"}}, "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"+parts+"--c--\r\n--b--\r\n")
}

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (broken) Close() error             { return nil }

func page(r *http.Request, status int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// strange contains changes that turn a good answer into a strange one.
var strange = map[string]func(*http.Request, *http.Response) *http.Response{
	"a proxy's 200": func(r *http.Request, _ *http.Response) *http.Response { return page(r, 200, "text/html", "<html>") },
	"a proxy's 302": func(r *http.Request, _ *http.Response) *http.Response { return page(r, 302, "text/html", "<html>") },
	"a proxy's 400": func(r *http.Request, _ *http.Response) *http.Response { return page(r, 400, "text/html", "<html>") },
	"a proxy's 403": func(r *http.Request, _ *http.Response) *http.Response { return page(r, 403, "text/html", "<html>") },
	"a proxy's 404": func(r *http.Request, _ *http.Response) *http.Response {
		return page(r, 404, "application/json", `{"error":"no such page"}`)
	},
	"a proxy's 503": func(r *http.Request, _ *http.Response) *http.Response { return page(r, 503, "text/html", "<html>") },
	"nothing":       func(r *http.Request, _ *http.Response) *http.Response { return page(r, 200, "application/json", "") },
	"{}":            func(r *http.Request, _ *http.Response) *http.Response { return page(r, 200, "application/json", "{}") },
	"no version": func(_ *http.Request, good *http.Response) *http.Response {
		good.Header.Del("X-Ms-Version")
		good.Header.Del("X-Ms-Error-Code")
		return good
	},
	"another status": func(_ *http.Request, good *http.Response) *http.Response { good.StatusCode = 206; return good },
	"another's answer": func(_ *http.Request, good *http.Response) *http.Response {
		good.Header.Set("X-Ms-Client-Request-Id", "another")
		return good
	},
	"compressed": func(_ *http.Request, good *http.Response) *http.Response {
		good.Header.Set("Content-Encoding", "gzip")
		return good
	},
	"broken": func(_ *http.Request, good *http.Response) *http.Response { good.Body = broken{}; return good },
	"broken 503": func(r *http.Request, _ *http.Response) *http.Response {
		busy := answered(r, 503, http.Header{}, "")
		busy.Body = broken{}
		return busy
	},
}

// After a strange answer, the request is repeated. If it is a write, its outcome counts as unknown.
func TestStrangeAnswers(t *testing.T) {
	for what, spoil := range strange {
		for name, o := range operations {
			t.Run(what+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var s *stub
					s = &stub{answer: func(r *http.Request) (*http.Response, error) {
						good := o.goodAnswer(t, r)
						if s.tries.Load() <= 3 {
							return spoil(r, good), nil
						}
						return good, nil
					}}
					got, err := o.call(t, open(t, signed, storage.Options{Transport: s, Patience: time.Minute}))
					if err != nil || got != o.want || s.tries.Load() != 4 {
						t.Errorf("got %v, error %v after %d tries, want %v after 4", got, err, s.tries.Load(), o.want)
					}
				})
			})
		}
	}
}

// TestAnswersWithoutRequestID: once an endpoint's good answers have contained the request's id, a good answer without the id is
// strange. A refusal need not contain the id. An endpoint that never sends the id is accepted. Transactions are recorded
// separately, because Azurite's answers to them have no id.
func TestAnswersWithoutRequestID(t *testing.T) {
	for _, tt := range []struct {
		proved, name string // names of operations
		tries        int64  // tries of the operation name, whose first answer lacks the id
	}{
		{"query", "query", 2}, {"query", "insert", 2}, {"insert", "delete table", 2}, {"query", "transaction", 1}, {"transaction", "transaction", 2}, {"transaction", "query", 1},
		{"put", "query", 1}, {"put", "get", 2}, {"query", "put", 1}, {"query", "permission", 1}, {"permission", "query", 1},
	} {
		t.Run(tt.proved+", "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, echoes := operations[tt.proved], true
				s := &stub{answer: func(r *http.Request) (*http.Response, error) {
					good := o.goodAnswer(t, r)
					if echoes {
						good.Header.Set("X-Ms-Client-Request-Id", r.Header.Get("X-Ms-Client-Request-Id"))
					}
					echoes = true
					return good, nil
				}}
				a := open(t, signed, storage.Options{Transport: s})
				if _, err := o.call(t, a); err != nil {
					t.Fatal(err)
				}
				s.tries.Store(0)
				o, echoes = operations[tt.name], false
				if got, err := o.call(t, a); err != nil || got != o.want || s.tries.Load() != tt.tries {
					t.Errorf("got %v, error %v after %d tries, want %v after %d", got, err, s.tries.Load(), o.want, tt.tries)
				}
			})
		})
	}
}

// TestAnswersToWritesHaveETags: an answer to a write has an ETag, also in each part of a transaction. An answer to a deletion has
// none.
func TestAnswersToWritesHaveETags(t *testing.T) {
	kinds := []storage.OpKind{storage.Insert, storage.Replace, storage.Merge, storage.Delete}
	var ops []storage.Op
	for i, kind := range kinds {
		ops = append(ops, storage.Op{Kind: kind, Row: row("p", fmt.Sprint(i)).Row()})
	}
	for i, kind := range kinds {
		for _, sent := range [][]storage.Op{ops[i : i+1], ops} {
			t.Run(fmt.Sprint(kind, " of ", len(sent)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var s *stub
					s = &stub{answer: func(r *http.Request) (*http.Response, error) {
						lacking := s.tries.Load() == 1
						if len(sent) == 1 {
							good := answered(r, 204, http.Header{"Etag": {"W/1"}}, "")
							if lacking {
								good.Header.Del("ETag")
							}
							return good, nil
						}
						parts := ""
						for part := range sent {
							etag := "etag:W/1\r\n"
							if part == i && lacking || sent[part].Kind == storage.Delete {
								etag = ""
							}
							parts += "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n" + etag + "\r\n\r\n"
						}
						return answered(r, 202, http.Header{"Content-Type": {"multipart/mixed; boundary=b"}}, "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"+parts+"--c--\r\n--b--\r\n"), nil
					}}
					want := int64(2)
					if kind == storage.Delete {
						want = 1
					}
					err := open(t, signed, storage.Options{Transport: s}).Table("Orders").Write(t.Context(), sent...)
					if err != nil || s.tries.Load() != want {
						t.Errorf("got error %v after %d tries, want %d tries", err, s.tries.Load(), want)
					}
				})
			})
		}
	}
}

// TestAnswersAreNotCompressed: no request asks for a compressed answer, and a compressed answer takes no more memory than its
// bytes. A compressed page is a strange answer. A blob that is stored compressed is read as it is stored.
func TestAnswersAreNotCompressed(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, `{"value":[]`+strings.Repeat(" ", 1<<20)+`}`)
	proof.Must(t, errors.Join(err, z.Close()))
	var pages atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if encoding := r.Header.Get("Accept-Encoding"); encoding != "" {
			t.Errorf("%s asks for the encoding %s", r.URL.Path, encoding)
		}
		h := w.Header()
		h.Set("X-Ms-Version", "2019-02-02")
		h.Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/blob"):
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%[2]d", packed.Len()-1, packed.Len()))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(packed.Bytes())
		case pages.Add(1) == 1:
			h.Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		default:
			_, _ = io.WriteString(w, `{"value":[{"PartitionKey":"p","RowKey":"r"}]}`)
		}
	}))
	defer s.Close()
	a := open(t, fmt.Sprintf("TableEndpoint=%s/a;BlobEndpoint=%[1]s/a;AccountName=a;SharedAccessSignature=sv=1", s.URL), storage.Options{Patience: 3 * time.Second})
	p, err := a.Table("Orders").Query(t.Context(), storage.Query{})
	if err != nil || len(p.Rows) != 1 || pages.Load() != 2 {
		t.Errorf("got %d rows, error %v after %d tries; want a row after 2", len(p.Rows), err, pages.Load())
	}
	c, err := a.Container("container")
	proof.Must(t, err)
	got, err := c.Get(t.Context(), "blob", 0, 1<<20)
	if err != nil || !bytes.Equal(got, packed.Bytes()) {
		t.Errorf("got %d bytes of a blob, error %v; want the %d stored bytes", len(got), err, packed.Len())
	}
}

// If all answers are strange, the request ends with an error that describes them. The request ends soon if the answers are
// refusals. The error is neither a refusal by the service nor a proof that something does not exist.
func TestOnlyStrangeAnswers(t *testing.T) {
	for _, tt := range []struct {
		status   int
		patience time.Duration
		want     time.Duration
	}{
		{200, 3 * time.Minute, 3 * time.Minute}, {503, 3 * time.Minute, 3 * time.Minute},
		{302, 3 * time.Minute, 30 * time.Second}, {403, 3 * time.Minute, 30 * time.Second}, {404, 3 * time.Minute, 30 * time.Second},
		{404, 0, 30 * time.Second}, {404, 10 * time.Second, 10 * time.Second},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stub{answer: func(r *http.Request) (*http.Response, error) {
					return answered(r, 200, http.Header{}, `{"value":[]}`), nil
				}}
				table := open(t, signed, storage.Options{Transport: s, Patience: tt.patience}).Table("Orders")
				if _, err := table.Query(t.Context(), storage.Query{}); err != nil {
					t.Fatal(err)
				}
				s.answer = func(r *http.Request) (*http.Response, error) { return page(r, tt.status, "text/html", "<html>"), nil }
				began := time.Now()
				_, err := table.Query(t.Context(), storage.Query{})
				if took := time.Since(began); took < tt.want || took > tt.want+2*time.Second {
					t.Errorf("the request ended after %v, want %v", took, tt.want)
				}
				want := fmt.Sprintf("the answer does not look like one from the Table service: %d text/html", tt.status)
				if err == nil || !strings.Contains(err.Error(), want) || !storage.Passing(err) || storage.Permanent(err) || storage.NotFound(err) {
					t.Errorf("got error %v, want %q, and that a later retry may succeed", err, want)
				}
			})
		})
	}
}

// TestKeysOfPagesAscend: a page is a strange answer unless its keys ascend, lie in the query's range, and follow the keys of
// earlier pages. Cosmos DB does not sort rows, so there the query ends immediately.
func TestKeysOfPagesAscend(t *testing.T) {
	p, q := "p", "q"
	after := &key.Token{Partition: "t", After: &key.Key{Partition: "p", Row: "5"}}
	for _, tt := range []struct {
		name         string
		query        storage.Query
		good, bad    string // keys; a partition key and a row key of one character each
		unsorted, ok bool
	}{
		{"twice", storage.Query{}, "p1 p2", "p1 p1 p2", true, false},
		{"again later", storage.Query{}, "p1 p2", "p1 p2 p1", true, false},
		{"another order", storage.Query{}, "p1 p2 q1", "p1 q1 p2", true, false},
		{"by code points", storage.Query{}, "p😀 p～", "p～ p😀", true, false},
		{"after the range", storage.Query{Range: key.Range{High: &key.Bound{Key: "q", Open: true}}}, "p1", "p1 q1", false, false},
		{"before the range", storage.Query{Range: key.Range{Low: &key.Bound{Key: "q"}}}, "q1", "p1 q1", false, false},
		{"another partition", storage.Query{Range: key.Range{Partition: &p}}, "p1", "p1 q1", false, false},
		{"another row", storage.Query{Range: key.Range{Partition: &q, Low: &key.Bound{Key: "2"}, High: &key.Bound{Key: "2"}}}, "q2", "q3", false, false},
		{"the previous page again", storage.Query{Token: after}, "p6", "p4 p5", true, false},
		{"the last row of the previous page", storage.Query{Token: after}, "p6", "p5 p6", true, false},
		{"a token without the last key", storage.Query{Token: &key.Token{Partition: "t"}}, "p6", "p4 p5", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := func(keys string) string {
					var rows []string
					for k := range strings.FieldsSeq(keys) {
						rows = append(rows, fmt.Sprintf(`{"PartitionKey":"%s","RowKey":"%s"}`, k[:1], k[1:]))
					}
					return `{"value":[` + strings.Join(rows, ",") + `]}`
				}
				keysOf := func(p storage.Page) (text string) {
					for _, k := range p.Keys() {
						text += " " + k.Partition + k.Row
					}
					return strings.TrimSpace(text)
				}
				var s *stub
				s = &stub{answer: func(r *http.Request) (*http.Response, error) {
					keys := tt.good
					if s.tries.Load() <= 3 {
						keys = tt.bad
					}
					answer := answered(r, 200, http.Header{}, body(keys))
					if strings.Contains(r.URL.Host, "cosmos") {
						answer.Header.Del("X-Ms-Version")
					}
					return answer, nil
				}}
				page, err := open(t, signed, storage.Options{Transport: s}).Table("Orders").Query(t.Context(), tt.query)
				want, tries := tt.good, int64(4)
				if tt.ok {
					want, tries = tt.bad, 1
				}
				if got := keysOf(page); err != nil || got != want || s.tries.Load() != tries {
					t.Errorf("got %q, error %v after %d tries, want %q after %d", got, err, s.tries.Load(), want, tries)
				}
				if tt.ok || !tt.unsorted {
					return
				}
				s.tries.Store(0)
				cosmos := strings.Replace(signed, "https://h/acct", "https://orders.table.cosmos.azure.com", 1)
				_, err = open(t, cosmos, storage.Options{Transport: s}).Table("Orders").Query(t.Context(), tt.query)
				if s.tries.Load() != 1 || !storage.Permanent(err) || !strings.Contains(err.Error(), "order of their keys") {
					t.Errorf("Cosmos DB: got error %v after %d tries, want its name in the error after 1", err, s.tries.Load())
				}
			})
		})
	}
}

// TestTokensContainTheLastKey: after an empty page, a query still knows the last key of the earlier pages.
func TestTokensContainTheLastKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := []string{"1", "", "1", "2"} // the third page repeats the first
		var s *stub
		s = &stub{answer: func(r *http.Request) (*http.Response, error) {
			i := s.tries.Load() - 1
			h := http.Header{}
			if i < 3 {
				h.Set("X-Ms-Continuation-NextPartitionKey", "opaque")
			}
			row := ""
			if pages[i] != "" {
				row = `{"PartitionKey":"p","RowKey":"` + pages[i] + `"}`
			}
			return answered(r, 200, h, `{"value":[`+row+`]}`), nil
		}}
		got := ""
		err := open(t, signed, storage.Options{Transport: s}).Table("Orders").All(t.Context(), storage.Query{}, func(p storage.Page) error {
			for _, k := range p.Keys() {
				got += k.Row
			}
			return nil
		})
		if err != nil || got != "12" || s.tries.Load() != 4 {
			t.Errorf("got rows %q, error %v after %d tries, want 12 after 4", got, err, s.tries.Load())
		}
	})
}

// If a proxy refuses a row because of the key in the URL, the row is immediately sent again in a transaction.
func TestKeyInURLRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paths []string
		s := &stub{answer: func(r *http.Request) (*http.Response, error) {
			paths = append(paths, r.URL.Path)
			if !strings.HasSuffix(r.URL.Path, "$batch") {
				return page(r, 403, "text/html", "<html>"), nil
			}
			return operation{}.goodAnswer(t, r), nil
		}}
		began := time.Now()
		err := open(t, signed, storage.Options{Transport: s}).Table("Orders").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: storage.Row{Key: key.Key{Partition: "' or 1=1", Row: "r"}}})
		if err != nil || len(paths) != 2 || time.Since(began) > 0 {
			t.Errorf("got error %v after %v, requests %q", err, time.Since(began), paths)
		}
	})
}
