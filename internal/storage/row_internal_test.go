package storage

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// servicePage is an answer as the service writes it, with all those values of [page] that this form can have.
const servicePage = `{"odata.metadata":"https://a/$metadata#T","value":[` +
	`{"odata.etag":"W/\"datetime'2020-01-01T00%3A00%3A00Z'\"","PartitionKey":"p'","RowKey":"é😀","Timestamp":"2020-01-01T00:00:00.1234567Z",` +
	`"S":"a\u00e9<&>\ud800\\","Empty":"","B":true,"F":false,"I":-3,"Min":-2147483648,"Zero":0,"D":3.0,"Exp":1E+300,"Minus":-0.0,"Large":2147483648,` +
	`"L@odata.type":"Edm.Int64","L":"9223372036854775807","N@odata.type":"Edm.Double","N":"NaN","W@odata.type":"Edm.Double","W":3,` +
	`"T@odata.type":"Edm.DateTime","T":"2020-01-01T00:00:00.1234567Z","G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
	`"X@odata.type":"Edm.Binary","X":"AAEC","Unselected":null},` +
	` {"RowKey":"2", "S" :1,"Empty":"","PartitionKey":"p'","Größe":1}]}`

func TestPlainPage(t *testing.T) {
	rows, ok := plainPage([]byte(servicePage))
	if !ok || len(rows) != 2 {
		t.Fatalf("got %d rows, ok %v", len(rows), ok)
	}
	want := `{"PartitionKey":"p'","RowKey":"é😀",` +
		`"S":"a\u00e9<&>\ud800\\","Empty":"","B":true,"F":false,"I":-3,"Min":-2147483648,"Zero":0,` +
		`"D@odata.type":"Edm.Double","D":3.0,"Exp@odata.type":"Edm.Double","Exp":1E+300,"Minus@odata.type":"Edm.Double","Minus":-0.0,"Large@odata.type":"Edm.Double","Large":2147483648,` +
		`"L@odata.type":"Edm.Int64","L":"9223372036854775807","N@odata.type":"Edm.Double","N":"NaN","W@odata.type":"Edm.Double","W":3,` +
		`"T@odata.type":"Edm.DateTime","T":"2020-01-01T00:00:00.1234567Z","G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
		`"X@odata.type":"Edm.Binary","X":"AAEC"}`
	if diff := cmp.Diff(want, string(rows[0].json)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	checkRows(t, []byte(servicePage), rows)
}

// plainPage refuses forms that the service does not write.
func TestPlainPageRefusesOtherForms(t *testing.T) {
	for _, row := range []string{
		`{"PartitionKey":"p","RowKey":"r","D":3.0,"D@odata.type":"Edm.Double"}`, // annotated after the property
		`{"D@odata.type":"Edm.Double","PartitionKey":"p","RowKey":"r","D":3}`,   // annotated long before the property
		`{"PartitionKey":"p","RowKey":"r","I@odata.type":"Edm.Int32","I":"3"}`,
		`{"PartitionKey":"p","RowKey":"r","C@odata.type":"Edm.Color","C":"red"}`,
		`{"PartitionKey":"p","RowKey":"r","L@odata.type":"Edm.Int64","L":null}`,
		`{"PartitionKey":"p","RowKey":"r","O":{"A":1}}`,
		`{"PartitionKey":"p","RowKey":"r","\u0041":1}`,
		`{"PartitionKey":"\u0070","RowKey":"r"}`,
		`{"PartitionKey":"p","RowKey":1}`,
		`{"PartitionKey":"p","RowKey":"r","RowKey":"s"}`,
		`{"PartitionKey":"p"}`, `{}`,
		`{"PartitionKey":"p","RowKey":"r","A":01}`, `{"PartitionKey":"p","RowKey":"r","A":"\x"}`, `{"PartitionKey":"p","RowKey":"r","A":"` + "\n" + `"}`,
		`{"PartitionKey":"p","RowKey":"r","A":tru}`, `{"PartitionKey":"p","RowKey":"r","A":1.}`, `{"PartitionKey":"p","RowKey":"r",}`,
		`{"PartitionKey":"` + "\xff" + `","RowKey":"r"}`,
	} {
		if rows, ok := plainPage([]byte(`{"value":[` + row + `]}`)); ok {
			t.Errorf("%s is read as %s", row, rows[0].json)
		}
		decoded, err := decodePage([]byte(`{"value":[` + row + `]}`))
		rows, rowsErr := parsePage([]byte(`{"value":[` + row + `]}`))
		if (err == nil) != (rowsErr == nil) {
			t.Errorf("%s: entities have error %v, rows have error %v", row, err, rowsErr)
		} else if err == nil && !Equal(rows[0].Entity(), decoded[0]) {
			t.Errorf("%s: got %+v, want %+v", row, rows[0], decoded[0])
		}
	}
	for _, body := range []string{``, servicePage[:len(servicePage)-3], `[]`, `{"value":{}}`, `{"value":[],"value":[]}`, `{"v\u0061lue":[]}`} {
		if rows, ok := plainPage([]byte(body)); ok {
			t.Errorf("%s is read as %v", body, rows)
		}
	}
}

// checkRows compares rows with the entities that decodePage reads from the page: the keys, and the properties by name,
// type and text.
func checkRows(t *testing.T, body []byte, rows []Row) {
	t.Helper()
	want, err := decodePage(slices.Clone(body))
	if err != nil && strings.Contains(err.Error(), "Timestamp") {
		return // a row parses its Timestamp only when a caller reads it
	}
	if err != nil || len(want) != len(rows) {
		t.Fatalf("%s: got %d rows, decoded %d, error %v", body, len(rows), len(want), err)
	}
	for i, w := range want {
		names := map[string]bool{}
		for _, p := range w.Properties {
			names[p.Name] = true
		}
		if len(names) < len(w.Properties) {
			continue // an annotation after one of several equal names applies to all of them
		}
		if diff := cmp.Diff(w.Row().JSON(), rows[i].JSON()) + cmp.Diff(w.Row().Columns, rows[i].Columns, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: properties (-decoded +row)\n%s", body, diff)
		}
		if diff := cmp.Diff(w, rows[i].Entity(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: columns (-decoded +row)\n%s", body, diff)
		}
	}
}

// FuzzPlainPage compares plainPage with decodePage.
func FuzzPlainPage(f *testing.F) {
	// The inputs are small, because fuzzing first reduces each new input.
	for _, properties := range []string{
		`"Timestamp":"2020-01-01T00:00:00.1234567Z","S":"a\u00e9<&>\ud800\\","Empty":""`, `"B":true,"I":-3,"D":3.0,"Exp":1E+300,"Large":2147483648`,
		`"L@odata.type":"Edm.Int64","L":"9","N@odata.type":"Edm.Double","N":"NaN"`, `"T":"2020-01-01T00:00:00.1Z","T@odata.type":"Edm.DateTime"`,
		`"odata.x":1,"A@odata.type":"Edm.Guid","A":"g","B":null,"C":1e5`, `"X@odata.type":"Edm.Binary","X":"AAEC","Größe":1`,
	} {
		f.Add([]byte(`{"value":[{"PartitionKey":"p'","RowKey":"é😀",` + properties + `}]}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := slices.Clone(body)
		rows, ok := plainPage(body)
		if !ok {
			return
		}
		if string(kept) != string(body) {
			t.Fatal("the page was changed")
		}
		clear(body) // the rows must not refer to the body
		checkRows(t, kept, rows)
	})
}
