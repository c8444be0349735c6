package action_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// picky is a destination that refuses requests that embedded storage would accept: rows whose key contains "bad", or
// transactions with more than a given number of rows. Its refusal may leave out the row's index.
type picky struct {
	most    int // maximum number of rows in a transaction; 0 for no limit
	silent  bool
	batches atomic.Int64
}

func (p *picky) answer(r *http.Request, body string) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/Tables") {
		return nil, nil
	}
	p.batches.Add(1)
	if !strings.HasSuffix(r.URL.Path, "/$batch") {
		if strings.Contains(r.URL.Path, "bad") {
			return answer(r, http.StatusBadRequest, "application/json",
				`{"odata.error":{"code":"KeyValueTooLarge","message":{"value":"The key is too long.\nRequestId:1\nTime:2"}}}`), nil
		}
		return nil, nil
	}
	parts := strings.Split(body, "Content-Type: application/http")[1:]
	if p.most > 0 && len(parts) > p.most {
		return answer(r, http.StatusRequestEntityTooLarge, "application/json",
			`{"odata.error":{"code":"RequestBodyTooLarge","message":{"value":"The request body is too large."}}}`), nil
	}
	for i, part := range parts {
		if !strings.Contains(part, "bad") {
			continue
		}
		number := fmt.Sprintf("%d:", i)
		if p.silent {
			number = ""
		}
		return inBatch(r, "400 Bad Request", `{"odata.error":{"code":"KeyValueTooLarge","message":{"value":"`+number+`The key is too long.\nRequestId:1\nTime:2"}}}`), nil
	}
	return nil, nil
}

// inBatch answers a transaction as the service does: the status is 202, and the body contains the failure.
func inBatch(r *http.Request, status, body string) *http.Response {
	return answer(r, http.StatusAccepted, "multipart/mixed; boundary=b", "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"+
		"--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 "+status+"\r\nContent-Type: application/json\r\n\r\n"+
		body+"\r\n--c--\r\n--b--\r\n")
}

func answer(r *http.Request, status int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: r,
		Header: http.Header{"Content-Type": {contentType}, "X-Ms-Version": {"2019-02-02"}, "X-Ms-Client-Request-Id": r.Header["X-Ms-Client-Request-Id"]}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

func open(t *testing.T, p *picky) *storage.Table {
	t.Helper()
	em := emulatortest.New(t, emulator.Options{})
	table := emulatortest.Open(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: p.answer}).Table("Target")
	proof.Must(t, table.Create(t.Context()))
	return table
}

func rows(names ...string) []storage.Entity {
	var all []storage.Entity
	for _, n := range names {
		all = append(all, storage.Entity{Key: key.Key{Partition: "p", Row: n}})
	}
	return all
}

// A row with a key that the destination refuses is reported with the reason. The other rows of its transaction are
// written.
func TestRefusedKeys(t *testing.T) {
	names := []string{"a", "bad1", "c", "d", "bad2", "f", "g"}
	for _, tt := range []struct {
		name    string
		picky   *picky
		batches int64
	}{
		{"the row is named", &picky{}, 3},
		{"the row is not named", &picky{silent: true}, 12},
		{"transactions are too large", &picky{most: 2}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := open(t, tt.picky)
			r, err := action.Copy{Destination: table}.Copy(t.Context(), storage.Rows(rows(names...)))
			proof.Must(t, err)
			want := action.Result{Written: 5, Failed: []action.Failure{
				{Key: key.Key{Partition: "p", Row: "bad1"}, Reason: "KeyValueTooLarge: The key is too long."},
				{Key: key.Key{Partition: "p", Row: "bad2"}, Reason: "KeyValueTooLarge: The key is too long."},
			}}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			p, err := table.Query(t.Context(), storage.Query{})
			if err != nil || len(p.Rows) != 5 {
				t.Errorf("got %d rows written, failures %v", len(p.Rows), err)
			}
			if got := tt.picky.batches.Load(); got > tt.batches {
				t.Errorf("got %d transactions, want at most %d", got, tt.batches)
			}
		})
	}
}

// If a table refuses every write, there is one error, and not a long list of failed rows.
func TestDestinationThatRefusesAllWrites(t *testing.T) {
	table := open(t, &picky{})
	proof.Must(t, table.Delete(t.Context()))
	for _, w := range []action.Work{action.Copy{Destination: table}, action.Delete{Table: table}} {
		r, err := action.All(t.Context(), storage.RequestOptions{}, nil, w, storage.Rows(rows("a", "b")))
		if !storage.Permanent(err) || !storage.NotFound(err) || len(r.Failed) > 0 {
			t.Errorf("%T: got result %+v, error %v; want a permanent error", w, r, err)
		}
	}
}

// The modes skip and fail handle existing rows with one comparison for each transaction.
func TestExistingRows(t *testing.T) {
	p := &picky{}
	table := open(t, p)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("%03d", i))
	}
	all := rows(names...)
	var there []storage.Entity
	for i, e := range all {
		if i%3 == 0 {
			e.Properties = []storage.Property{storage.StringProperty("Other", "x")}
		}
		if i%2 == 0 {
			there = append(there, e)
		}
	}
	_, err := (action.Copy{Destination: table}).Copy(t.Context(), storage.Rows(there))
	proof.Must(t, err)
	for _, mode := range []action.Mode{action.Skip, action.Fail} {
		p.batches.Store(0)
		r, err := action.Copy{Destination: table, Mode: mode}.Copy(t.Context(), storage.Rows(all))
		proof.Must(t, err)
		different := 17 // every third of the 50 existing rows
		if want := int64(100 - different); r.Written != want {
			t.Errorf("%s: %d rows written, want %d", mode, r.Written, want)
		}
		if mode == action.Fail && len(r.Failed) != different || mode == action.Skip && len(r.Failed) > 0 {
			t.Errorf("mode %s: got %d failed rows", mode, len(r.Failed))
		}
		if p.batches.Load() > 2 {
			t.Errorf("mode %s: got %d transactions", mode, p.batches.Load())
		}
	}
	// However many other rows lie between the given rows, a query reads at most one page in addition to the given rows.
	var between []storage.Entity
	for i := range 3000 {
		between = append(between, storage.Entity{Key: key.Key{Partition: "p", Row: fmt.Sprintf("050-%04d", i)}})
	}
	_, err = (action.Copy{Destination: table}).Copy(t.Context(), storage.Rows(between))
	proof.Must(t, err)
	var counter storage.Counter
	counted := storage.RequestOptions{Counter: &counter}
	r, err := action.All(t.Context(), counted, nil, action.Copy{Destination: table, Mode: action.Skip}, storage.Rows([]storage.Entity{all[0], all[1], all[99]}))
	if err != nil || r.Written != 2 || counter.Requests() > 5 {
		t.Errorf("got result %+v, error %v with %d requests", r, err, counter.Requests())
	}
	if !slices.IsSortedFunc(all, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) }) {
		t.Error("the rows were reordered")
	}
}

// TestExisting finds some of a partition's rows through short and empty pages, however many other rows lie between
// them.
func TestExisting(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var wanted, stored []storage.Entity
		var want []key.Key
		for i := range 1 + r.IntN(40) {
			e := storage.Entity{Key: key.Key{Partition: "p", Row: fmt.Sprintf("%02d", i)}}
			is := r.IntN(2) == 0
			if is {
				stored = append(stored, e)
			}
			if i == 0 || r.IntN(3) == 0 {
				if wanted = append(wanted, e); is {
					want = append(want, e.Key)
				}
			}
		}
		found, err := action.Existing(storage.Rows(wanted), storage.Query{Select: [][]string{nil, {}}[r.IntN(2)]}, func(q storage.Query) (p storage.Page, err error) {
			from := 0
			if q.Token != nil {
				from, err = strconv.Atoi(q.Token.Partition)
			}
			for ; from < len(stored) && q.Range.Side(stored[from].Key) < 0; from++ {
			}
			n := r.IntN(4)
			if q.Token == nil && seed%2 == 0 {
				n = 0 // an empty page at the start
			}
			for ; from < len(stored) && n > 0 && q.Range.Contains(stored[from].Key); n, from = n-1, from+1 {
				p.Rows = append(p.Rows, stored[from].Row())
			}
			if from < len(stored) && q.Range.Contains(stored[from].Key) {
				p.Next = &key.Token{Partition: strconv.Itoa(from)}
			}
			return p, err
		})
		if got := slices.SortedFunc(maps.Keys(found), key.Key.Compare); err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: found %v of %v, want %v; error %v", seed, got, wanted, want, err)
		}
	}
}
