package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/record"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, record, patch, want string }{
		{"nothing", `{"a":1,"b":"x"}`, `{}`, `{"a":1,"b":"x"}`},
		{"changes, adds and removes", `{"a":1,"b":"x","c":true}`, `{"a":2.50,"b":null,"d":"new","z":null}`, `{"a":2.50,"c":true,"d":"new"}`},
		{"objects", `{"o":{"a":1,"b":{"c":2,"d":3}}}`, `{"o":{"b":{"c":null,"e":4},"f":[null]}}`, `{"o":{"a":1,"b":{"d":3,"e":4},"f":[null]}}`},
		{"an object in place of a value", `{"o":7}`, `{"o":{"a":null,"b":{"c":null}}}`, `{"o":{"b":{}}}`},
		{"a value in place of an object", `{"o":{"a":1}}`, `{"o":7}`, `{"o":7}`},
		{"arrays are replaced", `{"o":[1,2]}`, `{"o":[3]}`, `{"o":[3]}`},
		{"a type stays if it is named", `{"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`, `{"t@odata.type":"Edm.DateTime","t":"2026-02-01T00:00:00Z"}`, `{"t@odata.type":"Edm.DateTime","t":"2026-02-01T00:00:00Z"}`},
		{"a type is dropped with its value", `{"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`, `{"t":"today"}`, `{"t":"today"}`},
		{"a type for an unchanged value", `{"t":"2026-01-01T00:00:00Z"}`, `{"t@odata.type":"Edm.DateTime"}`, `{"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`},
		{"a type changes", `{"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`, `{"t":"x","t@odata.type":"Edm.String"}`, `{"t":"x"}`},
		{"a type is removed", `{"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`, `{"t@odata.type":null}`, `{"t":"2026-01-01T00:00:00Z"}`},
		{"a typed field is removed", `{"a":1,"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`, `{"t":null}`, `{"a":1}`},
		{"a typed field becomes an object", `{"n@odata.type":"Edm.Int64","n":"5"}`, `{"n":{"a":1}}`, `{"n":{"a":1}}`},
		{"a number in place of a large one", `{"n":9007199254740993}`, `{"n":5}`, `{"n":5}`},
		{"text in place of a large number", `{"n":9007199254740993}`, `{"n":"hello"}`, `{"n":"hello"}`},
		{"a large number", `{"n":5}`, `{"n":9007199254740993}`, `{"n@odata.type":"Edm.Int64","n":"9007199254740993"}`},
		{"a large number with a named type", `{"n":9007199254740993}`, `{"n@odata.type":"Edm.Int64","n":"9007199254740995"}`, `{"n@odata.type":"Edm.Int64","n":"9007199254740995"}`},
		{"a large number in another field", `{"n":9007199254740993}`, `{"a":1}`, `{"a":1,"n@odata.type":"Edm.Int64","n":"9007199254740993"}`},
		{"any name", `{"a\"b":1,"first name":"x"}`, `{"a\"b":{"\u0000":1},"first name":null}`, `{"a\"b":{"\u0000":1}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := record.Parse([]byte(tt.record))
			proof.Must(t, err)
			before := string(r.AppendJSON(nil))
			got, err := r.Merge([]byte(tt.patch))
			proof.Must(t, err)
			if text := string(got.AppendJSON(nil)); text != tt.want {
				t.Errorf("the merged record is %s, want %s", text, tt.want)
			}
			if after := string(r.AppendJSON(nil)); after != before {
				t.Errorf("Merge has changed the original record to %s", after)
			}
		})
	}
	for patch, want := range map[string]string{
		``: "JSON object", `[]`: "JSON object", `{"a":`: "not valid JSON", `{"a":1,"a":2}`: "twice", "{\"a\":\"\xff\"}": "UTF-8",
		`{"t":"yesterday","t@odata.type":"Edm.DateTime"}`: "must be a time", `{"x@odata.type":"Edm.Guid"}`: "that field is missing", `{"":1}`: "name of a field is empty",
		`{"a":"` + strings.Repeat("x", 40<<10) + `"}`: "divide the value",
	} {
		r, err := record.Parse([]byte(`{"a":1,"t@odata.type":"Edm.DateTime","t":"2026-01-01T00:00:00Z"}`))
		proof.Must(t, err)
		if got, err := r.Merge([]byte(patch)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the patch %.40s results in %s, error %v; want an error with %q", patch, got.AppendJSON(nil), err, want)
		}
	}
}

// TestLargePatchesAreRefusedFast merges patches that are far larger than a record can be. Merge must refuse them, and may take
// only a few times as long as reading the patches.
func TestLargePatchesAreRefusedFast(t *testing.T) {
	old, err := record.Parse([]byte(`{"a":{"b":1}}`))
	proof.Must(t, err)
	var wide strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&wide, `,"k%d":1`, i)
	}
	for name, patch := range map[string]string{
		"many fields":               `{"z":1` + wide.String() + `}`,
		"many fields to remove":     strings.ReplaceAll(`{"z":1`+wide.String()+`}`, ":1", ":null"),
		"a field with many members": `{"a":{"z":1` + wide.String() + `}}`,
		"a deep field":              strings.Repeat(`{"a":`, 9000) + `"` + strings.Repeat("x", 100_000) + `"` + strings.Repeat("}", 9000),
	} {
		t.Run(name, func(t *testing.T) {
			best := func(do func() error) (took time.Duration, err error) { // the best of five, because other processes may interrupt one
				for n := range 5 {
					began := time.Now()
					err = do()
					if t := time.Since(began); n == 0 || t < took {
						took = t
					}
				}
				return took, err
			}
			read, readErr := best(func() error { _, err := record.Parse([]byte(patch)); return err })
			merged, mergeErr := best(func() error { _, err := old.Merge([]byte(patch)); return err })
			if readErr == nil || mergeErr == nil {
				t.Errorf("reading returns the error %v, merging returns the error %v", readErr, mergeErr)
			}
			if merged > 30*read {
				t.Errorf("merging took %v, which is %.0f times as long as reading", merged, merged.Seconds()/read.Seconds())
			}
		})
	}
}
