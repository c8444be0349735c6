package function_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/app/function"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

const (
	faux     = `{"active":true,"eid":"F314","joined@odata.type":"Edm.DateTime","joined":"2020-02-03T00:00:00Z","lastname":"Faux","npi":1414213562,"score":3.0,"ssn":"123-45-6789","tags":["a","b"]}`
	marriage = `{"eid":"F314","lastname":"O'Neil/Faux","npi":1414213562}`
)

func TestRecordsOverHTTP(t *testing.T) {
	a := newApp(t)
	a.call(t, "POST", people, faux, 201, faux)
	a.call(t, "POST", people, faux, 200, faux)
	a.call(t, "POST", people, strings.Replace(faux, "3.0", "4.0", 1), 409, `{"title":"Conflict","status":409,"detail":"a record with the same index values`)
	for _, query := range []string{"eid=f314", "npi=1414213562", "ssn=123456789", "ssn=123+45+6789&eid=F314", "eid=F314&row_from=fau&row_to=f", "eid=F314&code=KEY"} {
		a.call(t, "GET", people+"?"+query, "", 200, `{"records":[`+faux+`],"meta":[{"id":"`)
	}
	a.call(t, "GET", people+"?eid=F314&npi=1", "", 200, `{"records":[],"meta":[]}`)
	a.call(t, "GET", people+"?eid=F314&row_from=g", "", 200, `{"records":[],"meta":[]}`)
	a.call(t, "GET", people+"?eid=F314&row_to=e", "", 200, `{"records":[],"meta":[]}`)

	// The query string selects the record.
	a.call(t, "PUT", people+"?eid=F314", marriage, 200, marriage)
	a.call(t, "GET", people+"?ssn=123456789", "", 200, `{"records":[],"meta":[]}`)
	a.call(t, "PUT", people+"?eid=X", `{"eid":"X","lastname":"Y"}`, 404, `{"title":"Not Found"`)
}

func TestChanges(t *testing.T) {
	a := newApp(t)
	const list = "/api/catalog/visits/changes"
	const one, two = `{"at":"2026-02-01","eid":"1"}`, `{"at":"2026-02-01","eid":"1","note":"x"}`
	a.call(t, "GET", list, "", 200, `{"changes":[]}`)
	a.call(t, "POST", visits, one, 201, one)
	a.call(t, "PUT", visits, two, 200, two)
	a.call(t, "DELETE", visits+"?eid=1", "", 200, `{"deleted":1}`)
	a.parts.Catalogs["visits"].Close()
	var kinds []string
	for cursor := ""; ; {
		var page struct {
			Changes []struct {
				Kind   string
				Record json.RawMessage
			}
			Cursor string
		}
		a.fetch(t, "GET", list+"?top=1&cursor="+cursor, "", &page)
		for _, c := range page.Changes {
			kinds = append(kinds, c.Kind+" "+string(c.Record))
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if want := []string{"delete " + two, "replace " + two, "insert " + one}; !slices.Equal(kinds, want) {
		t.Errorf("got changes %q, want %q", kinds, want)
	}
	a.call(t, "GET", "/api/catalog/changes", "", 200, `{"changes":[]}`)
	a.call(t, "GET", list+"?top=0", "", 400, "")
	kinds = nil
	after := "1h"
	for range 3 {
		var page struct {
			Changes []struct{ Kind string }
			Next    string
		}
		a.fetch(t, "GET", list+"?top=1&after="+after, "", &page)
		after, kinds = page.Next, append(kinds, page.Changes[0].Kind)
	}
	slices.Sort(kinds) // each write becomes a change a moment after its answer, so the order is random
	if !slices.Equal(kinds, []string{"delete", "insert", "replace"}) {
		t.Errorf("followed %q", kinds)
	}
	a.call(t, "GET", list+"?after="+after, "", 200, `{"changes":[],"next":"f1.`)
	a.call(t, "GET", list+"?after="+after+"&since=1h", "", 400, "")
	a.call(t, "GET", list+"?after=yesterday", "", 400, "")
	a.call(t, "GET", list+"?eid=1", "", 400, "")
	a.call(t, "GET", list+"?cursor=x", "", 400, "")
}

func TestIdempotencyKey(t *testing.T) {
	a := newApp(t)
	const r, key = `{"eid":"1","lastname":"A"}`, "Idempotency-Key"
	a.call(t, "POST", people, r, 201, r, key, "k-1")
	a.call(t, "DELETE", people+"?eid=1", "", 200, `{"deleted":1}`)
	a.call(t, "POST", people, r, 201, r, key, "k-1") // the same answer again
	a.call(t, "GET", people+"?eid=1", "", 200, `{"records":[],"meta":[]}`)
	a.call(t, "POST", people, `{"eid":"1","lastname":"B"}`, 422, `{"title":"Unprocessable Entity","status":422,"field":"Idempotency-Key","detail":"was used for a request with other contents`, key, "k-1")
	for _, bad := range [][]string{{key, ""}, {key, "a b"}, {key, "é"}, {key, strings.Repeat("x", 256)}, {key, "a", key, "b"}} {
		a.call(t, "POST", people, r, 400, `{"title":"Bad Request","status":400,"field":"Idempotency-Key"`, bad...)
	}
	a.call(t, "POST", people, r, 201, r, key, strings.Repeat("~", 255))
}

func TestBadRecordRequests(t *testing.T) {
	a := newApp(t)
	a.call(t, "POST", people, faux, 201, "")
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		field, detail            string
	}{
		{"no keys", "DELETE", people, "", 400, "", "eid, npi, ssn"},
		{"unknown key", "GET", people + "?name=x", "", 400, "name", "it takes eid, npi, ssn, row_from"},
		{"twice", "DELETE", people + "?eid=1&eid=2", "", 400, "eid", "give one value"},
		{"empty value", "GET", people + "?eid=", "", 400, "eid", "is empty"},
		{"empty bound", "DELETE", people + "?eid=F314&row_from=", "", 400, "row_from", "is empty"},
		{"unreadable", "DELETE", people + "?eid=F314&row_from=%zz", "", 400, "", "cannot be read"},
		{"top", "GET", people + "?eid=1&top=many", "", 400, "top", "1 to 1000"},
		{"top of a deletion", "DELETE", people + "?eid=F314&top=1", "", 400, "top", "it takes eid, npi, ssn, row_from, row_to"},
		{"cursor of a deletion", "DELETE", people + "?eid=F314&cursor=x", "", 400, "cursor", "not a parameter"},
		{"cursor", "GET", people + "?eid=1&cursor=x", "", 400, "cursor", "is not a cursor that this query returned"},
		{"deletion by a range", "DELETE", people + "?row_from=a", "", 400, "", "eid, npi, ssn"},
		{"selector by a range", "PUT", people + "?row_from=a", marriage, 400, "", "eid, npi, ssn"},
		{"no digits", "GET", people + "?ssn=x", "", 400, "ssn", "has no digits"},
		{"query with a record", "POST", people + "?eid=1", faux, 400, "eid", "not a parameter"},
		{"no body", "POST", people, "", 400, "", "must be a JSON object"},
		{"array", "PUT", people, "[]", 400, "", "must be a JSON object"},
		{"no first key", "POST", people, `{"npi":1,"lastname":"A"}`, 400, "eid", "is missing"},
		{"no row key", "POST", people, `{"eid":1}`, 400, "lastname", "is missing"},
		{"nested key", "POST", people, `{"eid":{},"lastname":"A"}`, 400, "eid", "must be text"},
		{"bad time", "POST", visits, `{"eid":"1","at":"today"}`, 400, "at", "neither a time"},
		{"long value", "POST", people, `{"eid":"1","lastname":"A","note":"` + strings.Repeat("x", 40<<10) + `"}`, 413, "note", "divide the value"},
		{"large body", "POST", people, faux + strings.Repeat(" ", 4<<20), 413, "", "larger than 4194304 bytes"},
		{"unknown catalog", "GET", "/api/catalog/nobody/records?eid=1", "", 404, "", `there is no catalog "nobody"; to create it, add it to the setting TABLESWEEP_CATALOGS; there are ["" "visits"]`},
		{"unknown path", "GET", "/api/catalog/nothing", "", 404, "", "there is no GET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a.refuse(t, tt.method, tt.path, tt.body, tt.status, tt.field, tt.detail)
		})
	}
	a.call(t, "GET", people+"?eid=F314", "", 200, `{"records":[`+faux+`],`) // the record is unchanged
	appOf(function.App{}).refuse(t, "GET", people, "", 404, "", "TABLE_CATALOG_NAME")
}

func TestListCatalogs(t *testing.T) {
	a := newApp(t)
	a.call(t, "GET", "/api/catalog", "", 200, `{"catalogs":[{"name":"","indexKeys":["eid","npi","ssn:digits"],"rowKey":"lastname"},{"name":"visits","indexKeys":["eid"],"rowKey":"at:newest"}]}`)
	a.call(t, "GET", "/api/catalog?top=1", "", 400, `{"title":"Bad Request","status":400,"field":"top"`)
	a.call(t, "POST", "/api/catalog", "", 405, `{"title":"Method Not Allowed"`)
	appOf(function.App{}).call(t, "GET", "/api/catalog/", "", 200, `{"catalogs":[]}`)
}

// Maintain continues with the other parts if some fail, and reports each failure.
func TestMaintainAllParts(t *testing.T) {
	a := newApp(t)
	maintain := func(status int, expected ...string) {
		t.Helper()
		w := a.send("POST", "/Maintain", timerBody)
		for _, want := range expected {
			if w.Code != status || !strings.Contains(w.Body.String(), want) {
				t.Errorf("Maintain: status %d, body %s; want %d and %s", w.Code, w.Body, status, want)
			}
		}
	}
	maintain(200, `"Logs":[]`)
	if _, ok := a.tables.Load("log"); !ok {
		t.Error("the event log was not maintained")
	}
	// Maintain leaves another program's records unchanged, and does not report them as a failure.
	foreign := a.account.Table("Foreign")
	if err := errors.Join(foreign.Create(t.Context()), a.account.Table("ForeignWAL").Create(t.Context()),
		foreign.Write(t.Context(), storage.Op{Row: storage.Row{Key: key.Key{Partition: "3_eid1", Row: "a:12345678"}}})); err != nil {
		t.Fatal(err)
	}
	a.parts.Catalogs["foreign"] = newCatalog(t, a.account, "Foreign", "eid", "lastname")
	maintain(200, "nothing to do: ")
	// A lost table is a failure. The catalog visits is still maintained.
	for _, table := range []string{"PeopleWAL", "tablesweep", "log"} {
		proof.Must(t, a.account.Table(table).Delete(t.Context()))
	}
	a.tables.Clear()
	maintain(500, "TableNotFound", "list open scans", "old rows of the log")
	if _, ok := a.tables.Load("VisitsWAL"); !ok {
		t.Error("the other catalog was not maintained")
	}
}
