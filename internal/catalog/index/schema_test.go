package index_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/proof"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, keys, sort string
		want             index.Schema
		text             string
		set              string // the schema's parts in the form of settings
	}{
		{"the published settings", "eid,npi,ssn", "lastname",
			index.Schema{
				Keys: []index.Key{{"eid", index.Lower}, {"npi", index.Lower}, {"ssn", index.Lower}},
				Sort: index.Sort{Field: "lastname", Order: index.Text},
			},
			"eid:lower,npi:lower,ssn:lower;lastname:text", "eid,npi,ssn;lastname"},
		{"normalisers, spaces and case", " EID:exact , ssn : digits", "Timestamp:newest ",
			index.Schema{
				Keys: []index.Key{{"EID", index.Exact}, {"ssn", index.Digits}},
				Sort: index.Sort{Field: "Timestamp", Order: index.Newest},
			},
			"eid:exact,ssn:digits;timestamp:newest", "EID:exact,ssn:digits;Timestamp:newest"},
		{"names with colons", "a:b:lower,c:exact:digits", "x:newest:text",
			index.Schema{
				Keys: []index.Key{{"a:b", index.Lower}, {"c:exact", index.Digits}},
				Sort: index.Sort{Field: "x:newest", Order: index.Text},
			},
			"a:b:lower,c:exact:digits;x:newest:text", "a:b:lower,c:exact:digits;x:newest:text"},
		{"numbers", "eid", "wage : number",
			index.Schema{Keys: []index.Key{{"eid", index.Lower}}, Sort: index.Sort{Field: "wage", Order: index.Ascending}},
			"eid:lower;wage:number", "eid;wage:number"},
		{"numbers, greatest first", "eid", "Wage:number:desc",
			index.Schema{Keys: []index.Key{{"eid", index.Lower}}, Sort: index.Sort{Field: "Wage", Order: index.Descending}},
			"eid:lower;wage:number:desc", "eid;Wage:number:desc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := index.Parse(tt.keys, tt.sort)
			proof.Must(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the schema differs (-want +got):\n%s", diff)
			}
			if got.String() != tt.text {
				t.Errorf("String() = %q, want %q", got, tt.text)
			}
			var keys []string
			for _, k := range got.Keys {
				keys = append(keys, k.String())
			}
			if set := strings.Join(keys, ",") + ";" + got.Sort.String(); set != tt.set {
				t.Errorf("the schema's parts as settings are %q, want %q", set, tt.set)
			}
			if back := parsedAgain(t, got); back.String() != tt.text {
				t.Errorf("the line %q is parsed as %q", tt.text, back)
			}
		})
	}
}

func TestParseReportsAllErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, keys, sort string
		want             []string // texts that the error must contain
	}{
		{"nothing", "", "", []string{`index key "": the field's name is missing`, `row key "": the field's name is missing`}},
		{"empty item", "eid,,npi", "x", []string{`index key "": the field's name`}},
		{"only a normaliser", ":digits", "x", []string{`index key ":digits": the field's name`}},
		{"twice", "eid,npi,EID", "x", []string{`index key "EID" is named twice`}},
		{"unknown normaliser", "ssn:digit", "x", []string{`"digit"`, "lower, digits, exact", `"ssn:digit:lower"`}},
		{"unknown order", "eid", "t:oldest", []string{`"oldest"`, "text, newest"}},
		{"query parameters", "top,Cursor,row_from,ROW_TO,Code", "x",
			[]string{`"top" cannot be used in queries`, `"Cursor" cannot`, `"row_from" cannot`, `"ROW_TO" cannot`, `"Code" cannot be used in queries, because callers send the function key in a parameter of this name`}},
		{"too many", strings.Repeat("x,", 15) + "y", "x", []string{"16 index keys", "at most 15"}},
		{"too long", strings.Repeat("é", 256), "x", []string{"256 characters", "at most 255"}},
		{"too long to sort by", "eid", strings.Repeat("é", 256), []string{"256 characters"}},
		{"not text", "a\xff", "x", []string{"not valid UTF-8"}},
		{"separator", "a;b", "x", []string{"';'"}},
		{"several", "top,ssn:digit,top", "t:oldest",
			[]string{`"top" cannot`, `"digit"`, `"top" is named twice`, `"oldest"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := index.Parse(tt.keys, tt.sort)
			if err == nil {
				t.Fatalf("Parse returns %q, want an error", s)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not contain %q", err, want)
				}
			}
		})
	}
	if _, err := index.Parse(strings.Repeat("é", 255), "x"); err != nil {
		t.Errorf("a name of 255 characters is refused: %v", err)
	}
}

// parsedAgain parses the result of String.
func parsedAgain(t *testing.T, s index.Schema) index.Schema {
	t.Helper()
	keys, sort, _ := strings.Cut(s.String(), ";")
	return parse(t, keys, sort)
}

// FuzzParse checks that a schema that Parse has accepted is equal after it was stored and read.
func FuzzParse(f *testing.F) {
	f.Add("eid,npi,ssn:digits", "timestamp:newest")
	f.Add("a:b:lower, C :exact", "x:y:text")
	f.Add("İ,K,ſ", "ς")
	f.Fuzz(func(t *testing.T, keys, sort string) {
		s, err := index.Parse(keys, sort)
		if err != nil {
			return
		}
		if back := parsedAgain(t, s); back.String() != s.String() || len(back.Keys) != len(s.Keys) {
			t.Fatalf("Parse(%q, %q) returns %q, which is read as %q", keys, sort, s, back)
		}
	})
}
