package entity_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/refusal"
)

func decode(t testing.TB, body string) entity.Entity {
	t.Helper()
	e, err := new(entity.Decoder).Decode([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return e
}

// TestStoredForm decodes several spellings of one row, which the conformance suite does not have.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, stored string }{
		{`{ "A" : 1 , "B" : "x" }`, `"A":1,"B":"x"`},
		{`{"A@odata.type":"Edm.Int64","B":1,"A":5}`, `"B":1,"A@odata.type":"Edm.Int64","A":"5"`},
		{`{"\u0041":1}`, `"A":1`},
		{`{"odata.etag":"x","odata.type":"y","A":1}`, `"A":1`},
		{`{"A":"-01","A@odata.type":"Edm.Int32","B":"true","B@odata.type":"Edm.Boolean"}`, `"A":-1,"B":true`},
		{`{"A":"007","A@odata.type":"Edm.Int64"}`, `"A@odata.type":"Edm.Int64","A":"7"`},
		{`{"A":"0F8FAD5B-D9CB-469F-A165-70867728950E","A@odata.type":"Edm.Guid"}`, `"A@odata.type":"Edm.Guid","A":"0f8fad5b-d9cb-469f-a165-70867728950e"`},
		{`{"A":"2026-01-02T03:04:05.1230000+01:00","A@odata.type":"Edm.DateTime"}`, `"A@odata.type":"Edm.DateTime","A":"2026-01-02T02:04:05.123Z"`},
		{`{"A":"\u00e9\"\\,\"B\":1"}`, `"A":"\u00e9\"\\,\"B\":1"`},
	} {
		if got := decode(t, c.sent).Properties; string(got) != c.stored {
			t.Errorf("%s: stored as %s, want %s", c.sent, got, c.stored)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `[]`, `{`, `{"A"}`, `{"A":1,}`, `{1:2}`, `{"A":1,"A":2}`, `{"A":1,"\u0041":2}`, `{"A":1} x`, `{"A":[1]}`, `{"A":"\x"}`, "{\"A\":\"\xff\"}",
		`{"A":1.5,"A@odata.type":"Edm.Int32"}`, `{"A":"1.0","A@odata.type":"Edm.Int64"}`, `{"A":"1","A@odata.type":7}`, `{"A":1e400}`,
		`{"A":"1.0","A@odata.type":"Edm.Int32"}`, `{"A":"","A@odata.type":"Edm.Int32"}`, `{"A":"yes","A@odata.type":"Edm.Boolean"}`, `{"A":True}`, `{"A":1,"A@odata.type":"Edm.Boolean"}`,
		`{"A":"","A@odata.type":"Edm.Double"}`, `{"A":"0x1p4","A@odata.type":"Edm.Double"}`, `{"A":"inf","A@odata.type":"Edm.Double"}`, `{"A":true,"A@odata.type":"Edm.Double"}`,
		`{"A":1,"A@odata.type":"Edm.String"}`, `{"A":true,"A@odata.type":"Edm.Int32"}`,
	} {
		if e, err := new(entity.Decoder).Decode([]byte(body)); err == nil {
			t.Errorf("%s is accepted as %s, want an error", body, e.Properties)
		}
	}
}

// The shortcut in Check must not accept an invalid row. The test compares Check with the exact limits.
func TestCheckAtTheLimits(t *testing.T) {
	t.Parallel()
	k := key.Key{Partition: "p", Row: "r"}
	many := func(n int, value string) entity.Properties {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"a%d":%s`, i, value)
		}
		return entity.Properties(strings.Join(parts, ","))
	}
	full := `"` + strings.Repeat("x", 32<<10) + `"`
	// Each of the 15 properties takes 8 + 2*len(name) + 4 + 64 KiB.
	taken := 4 + 4 + 15*(8+4+64<<10) + 10*4 + 5*6
	last := (1<<20 - taken - 8 - 4 - 4) / 2
	exact := func(extra int) entity.Properties {
		return many(15, full) + entity.Properties(`,"zz":"`+strings.Repeat("x", last+extra)+`"`)
	}
	for _, c := range []struct {
		name string
		p    entity.Properties
		want string
	}{
		{"252", many(252, "1"), ""},
		{"253", many(253, "1"), "TooManyProperties"},
		{"253 properties with names of one letter", entity.Properties(strings.TrimSuffix(strings.Repeat(`"a":1,`, 253), ",")), "TooManyProperties"},
		{"1 MiB", exact(0), ""},
		{"1 MiB and one character", exact(1), "EntityTooLarge"},
	} {
		err := entity.Check(k, c.p)
		var got *refusal.Error
		if errors.As(err, &got); err == nil && c.want != "" || err != nil && got.Code != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzDecode checks that any body is either refused, or stored in a form that decodes to itself.
func FuzzDecode(f *testing.F) {
	f.Add(`{"PartitionKey":"p","RowKey":"r","A":1.50,"B":"x\"y","C@odata.type":"Edm.Int64","C":"9"}`)
	f.Add(`{"D@odata.type":"Edm.DateTime","D":"2026-01-01T00:00:00Z","G@odata.type":"Edm.Guid","G":"0f8fad5b-d9cb-469f-a165-70867728950e"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var d entity.Decoder
		first, err := d.Decode([]byte(body))
		if err != nil {
			var p *refusal.Error
			if !errors.As(err, &p) {
				t.Fatalf("the error is not a *refusal.Error: %v", err)
			}
			return
		}
		second, err := d.Decode([]byte("{" + string(first.Properties) + "}"))
		if err != nil || second.Properties != first.Properties {
			t.Errorf("the stored form %s decodes to %s, %v", first.Properties, second.Properties, err)
		}
		names := make(map[string]bool)
		for p := range first.Properties.All() {
			names[p.Name] = true
			_ = p.Value()
		}
		merged := first.Properties.Merge(first.Properties)
		again := make(map[string]bool)
		for p := range merged.All() {
			again[p.Name] = true
		}
		if merged != first.Properties.Sorted() || !maps.Equal(names, again) {
			t.Errorf("%s merged with itself becomes %s, want the same properties, sorted", first.Properties, merged)
		}
	})
}
