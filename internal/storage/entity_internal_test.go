package storage

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
)

// page is an answer of the service with a value of every type. A decoder into Go numbers would change some of these
// values.
const page = `{"odata.metadata":"https://a/$metadata#T","value":[{
"odata.etag":"W/\"datetime'2020-01-01T00%3A00%3A00Z'\"",
"PartitionKey":"p'","RowKey":"😀\ud83d\ude00","Timestamp":"2020-01-01T00:00:00.1234567Z",
"S":"a\u00e9<&>","Half":"x\ud800y","Empty":"","B":true,"I":-3,"D":3.0,"Exp":1E+300,
"L@odata.type":"Edm.Int64","L":"9223372036854775807",
"N@odata.type":"Edm.Double","N":"NaN",
"T":"2020-01-01T00:00:00.1234567Z","T@odata.type":"Edm.DateTime",
"G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",
"X@odata.type":"Edm.Binary","X":"AAEC","Unselected":null}]}`

func decodeOne(t *testing.T, body string) Entity {
	t.Helper()
	entities, err := decodePage([]byte(body))
	proof.Must(t, err)
	if len(entities) != 1 {
		t.Fatalf("got %d entities, want 1", len(entities))
	}
	return entities[0]
}

func TestDecodePageKeepsEveryType(t *testing.T) {
	got := decodeOne(t, page)
	want := Entity{
		Key:       key.Key{Partition: "p'", Row: "😀😀"},
		ETag:      `W/"datetime'2020-01-01T00%3A00%3A00Z'"`,
		Timestamp: time.Date(2020, 1, 1, 0, 0, 0, 123456700, time.UTC),
		Properties: []Property{
			{"S", String, jsontext.Value(`"a\u00e9<&>"`)},
			{"Half", String, jsontext.Value(`"x\ud800y"`)}, // kept unchanged
			{"Empty", String, jsontext.Value(`""`)},
			{"B", Boolean, jsontext.Value(`true`)},
			{"I", Int32, jsontext.Value(`-3`)},
			{"D", Double, jsontext.Value(`3.0`)},
			{"Exp", Double, jsontext.Value(`1E+300`)},
			{"L", Int64, jsontext.Value(`"9223372036854775807"`)},
			{"N", Double, jsontext.Value(`"NaN"`)},
			{"T", DateTime, jsontext.Value(`"2020-01-01T00:00:00.1234567Z"`)},
			{"G", GUID, jsontext.Value(`"c9da6455-213d-42c9-9a79-3e9149a57833"`)},
			{"X", Binary, jsontext.Value(`"AAEC"`)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Get("S") != "aé<&>" || got.Int("L") != 9223372036854775807 || string(got.Bytes("X")) != "\x00\x01\x02" || got.Time("T").Nanosecond() != 123456700 {
		t.Errorf("wrong values: S %q, L %d, X %q, T %v", got.Get("S"), got.Int("L"), got.Bytes("X"), got.Time("T"))
	}
}

func TestEntityIsWrittenAsItWasRead(t *testing.T) {
	const want = `{"PartitionKey":"p'","RowKey":"😀😀","S":"a\u00e9<&>","Half":"x\ud800y","Empty":"","B":true,"I":-3,` +
		`"D@odata.type":"Edm.Double","D":3.0,"Exp@odata.type":"Edm.Double","Exp":1E+300,` +
		`"L@odata.type":"Edm.Int64","L":"9223372036854775807","N@odata.type":"Edm.Double","N":"NaN",` +
		`"T@odata.type":"Edm.DateTime","T":"2020-01-01T00:00:00.1234567Z",` +
		`"G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
		`"X@odata.type":"Edm.Binary","X":"AAEC"}`
	e := decodeOne(t, page)
	got := string(e.AppendJSON(nil))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if back := decodeOne(t, `{"value":[`+got+`]}`); !Equal(e, back) {
		t.Error("the entity is not equal to itself read back")
	}
}

func TestDecodePageRefusesInvalidPages(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"empty", ``},
		{"cut", page[:len(page)-20]},
		{"not an object", `[]`},
		{"value is no array", `{"value":{}}`},
		{"unknown type", `{"value":[{"A@odata.type":"Edm.Color","A":"red"}]}`},
		{"bad timestamp", `{"value":[{"Timestamp":"today"}]}`},
	} {
		if entities, err := decodePage([]byte(tt.body)); err == nil {
			t.Errorf("%s: got error %v, want an error", tt.name, entities)
		}
	}
	// A repaired key would be another row's key.
	if _, err := decodePage([]byte(`{"value":[{"PartitionKey":"p","RowKey":"x\ud800y"}]}`)); err == nil || !strings.Contains(err.Error(), "RowKey") {
		t.Errorf("an ill-formed key: got error %v, want RowKey in it", err)
	}
}

func TestEqual(t *testing.T) {
	entity := func(properties string) Entity {
		return decodeOne(t, `{"value":[{"PartitionKey":"p","RowKey":"r",`+properties+`}]}`)
	}
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"other order", `"A":1,"B":2`, `"B":2,"A":1`, true},
		{"other escapes", `"A":"\u00e9"`, `"A":"é"`, true},
		{"same double", `"A":100.0`, `"A":1.0E2`, true},
		{"same instant", `"A":"2020-01-01T00:00:00Z","A@odata.type":"Edm.DateTime"`, `"A":"2020-01-01T00:00:00.0000000Z","A@odata.type":"Edm.DateTime"`, true},
		{"not a number", `"A":"NaN","A@odata.type":"Edm.Double"`, `"A":"NaN","A@odata.type":"Edm.Double"`, true},
		{"double and int32", `"A":3.0`, `"A":3`, false},
		{"string and guid", `"A":"c9da6455-213d-42c9-9a79-3e9149a57833"`, `"A":"c9da6455-213d-42c9-9a79-3e9149a57833","A@odata.type":"Edm.Guid"`, false},
		{"signed zero", `"A":0.0`, `"A":-0.0`, false},
		{"a tick apart", `"A":"2020-01-01T00:00:00.0000001Z","A@odata.type":"Edm.DateTime"`, `"A":"2020-01-01T00:00:00Z","A@odata.type":"Edm.DateTime"`, false},
		{"other name", `"A":1`, `"B":1`, false},
		{"one more", `"A":1`, `"A":1,"B":1`, false},
		{"other case", `"A":"x"`, `"A":"X"`, false},
		{"half a surrogate pair", `"A":"\ud800x"`, `"A":"\ud800x"`, true},
		{"another half", `"A":"\ud800x"`, `"A":"\ud801x"`, false},
	} {
		if got := Equal(entity(tt.a), entity(tt.b)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func FuzzDecodePage(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte(`{"value":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		entities, err := decodePage(body)
		if err != nil {
			return
		}
		for _, e := range entities {
			back := e.Row().Entity()
			if len(back.Properties) != len(e.Properties) {
				t.Fatalf("%s has %d properties, want %d", e.AppendJSON(nil), len(back.Properties), len(e.Properties))
			}
			if all := names(e); !utf8.ValidString(strings.Join(all, "")) || len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
				continue // the service has no property of such a name, and no row with a repeated name
			}
			if diff := cmp.Diff(e, back, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-decoded +of its row)\n%s", e.AppendJSON(nil), diff)
			}
		}
	})
}

func names(e Entity) []string {
	var all []string
	for _, p := range e.Properties {
		all = append(all, p.Name)
	}
	return all
}
