package action_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

func someRows(partitions, each int) []storage.Entity {
	var rows []storage.Entity
	for i := range partitions * each {
		rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%03d", i/each), Row: fmt.Sprintf("r%04d", i%each)}})
	}
	return rows
}

func fill(t *testing.T, a *storage.Account, rows []storage.Entity) *storage.Table {
	t.Helper()
	table := a.Table("rows")
	proof.Must(t, table.Create(t.Context()))
	_, err := (action.Copy{Destination: table}).Copy(t.Context(), storage.Rows(rows))
	proof.Must(t, err)
	return table
}

// TestDeleteTwice deletes rows, some of which no longer exist. These rows count as deleted, and do not each cost a request.
func TestDeleteTwice(t *testing.T) {
	t.Parallel()
	e, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := someRows(3, 250)
	table := fill(t, a, rows)
	for _, some := range [][]storage.Entity{rows[10:60], rows, rows} {
		e.ResetCounts()
		r, err := action.All(t.Context(), storage.RequestOptions{}, nil, action.Delete{Table: table}, storage.Rows(some))
		if err != nil || r.Written != int64(len(some)) || len(r.Failed) > 0 {
			t.Fatalf("got result %+v, error %v; want %d rows deleted", r, err, len(some))
		}
		if c := e.Counts(); c.TableTransactions() > 20 {
			t.Errorf("%d rows took %d requests, want fewer", len(some), c.TableTransactions())
		}
	}
	if n := len(emulatortest.Rows(t, table)); n != 0 {
		t.Errorf("the table still has %d rows", n)
	}
}

func TestDeleteAfterLostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, a := emulatortest.NewAccount(t, emulator.Options{})
		rows := someRows(20, 30)
		table := fill(t, a, rows)
		proof.Must(t, e.SetFaults("seed=1; timeout-after p=0.4 on=batch,delete; latency=1ms"))
		r, err := action.All(t.Context(), storage.RequestOptions{}, nil, action.Delete{Table: table}, storage.Rows(rows))
		if err != nil || r.Written != int64(len(rows)) {
			t.Errorf("got result %+v, error %v; want %d rows deleted", r, err, len(rows))
		}
		if e.FaultCounts()["timeout-after"] == 0 {
			t.Error("no answer was lost")
		}
		if n := len(emulatortest.Rows(t, table)); n != 0 {
			t.Errorf("the table still has %d rows", n)
		}
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	row := storage.Entity{Key: key.Key{Partition: `it's "p"`, Row: "r"}, Properties: []storage.Property{
		storage.StringProperty("Name", `é "x"`),
		{Name: "Whole", Type: storage.Double, Value: jsontext.Value("3.0")},
		storage.Int64Property("Large", 1<<60),
		storage.StringProperty("Long", strings.Repeat("x", 50<<10)),
	}}
	for _, tt := range []struct {
		name, template string
		plain          bool
		want           string // the message as sent; "" if the row fails
	}{
		{"text", "{{.PartitionKey}}/{{.RowKey}}: {{.Name}}", true, `it's "p"/r: é "x"`},
		{"JSON", `{"n":{{json .Name}},"w":{{json .Whole}},"l":{{json .Large}}}`, true, `{"n":"é \"x\"","w":3.0,"l":"1152921504606846976"}`},
		{"base64", "{{.RowKey}}", false, base64.StdEncoding.EncodeToString([]byte("r"))},
		{"optional", `{{with index . "Missing"}}{{.}}{{else}}none{{end}}`, true, "none"},
		{"no such property", "{{.Missing}}", true, ""},
		{"too long in base64", "{{.Long}}", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, a := emulatortest.NewAccount(t, emulator.Options{})
			q, err := a.Queue("work")
			proof.Must(t, err)
			proof.Must(t, q.Create(t.Context()))
			template, err := action.ParseTemplate(tt.template)
			proof.Must(t, err)
			r, err := action.All(t.Context(), storage.RequestOptions{}, nil, action.Enqueue{Queue: q, Message: template, Plain: tt.plain}, storage.Rows([]storage.Entity{row}))
			proof.Must(t, err)
			got, err := q.Get(t.Context(), 32, time.Hour)
			proof.Must(t, err)
			switch {
			case tt.want == "" && (len(got) > 0 || len(r.Failed) != 1):
				t.Errorf("got messages %v, result %+v; want a failed row", got, r)
			case tt.want != "" && (len(got) != 1 || got[0].Text != tt.want || r.Written != 1):
				t.Errorf("got messages %v, result %+v; want %s", got, r, tt.want)
			}
		})
	}
}

// TestDeletionOfUndeletableRow deletes a row that queries return but that deletions do not find, because the transport changes
// its key in deletions.
func TestDeletionOfUndeletableRow(t *testing.T) {
	t.Parallel()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := someRows(1, 3)
	fill(t, a, rows)
	attempts := 0
	table := emulatortest.Open(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, body string) (*http.Response, error) {
		if r.Method == http.MethodPost {
			if attempts++; attempts > 100 {
				return nil, context.Canceled
			}
			r.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(body, "r0001", "none!")))
		}
		return nil, nil
	}}).Table("rows")
	_, err := action.All(t.Context(), storage.RequestOptions{}, nil, action.Delete{Table: table}, storage.Rows(rows))
	if !storage.NotFound(err) || attempts > 10 {
		t.Errorf("error %v after %d attempts, want that a row was not found", err, attempts)
	}
}
