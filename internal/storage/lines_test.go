package storage_test

import (
	"errors"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A line of any program keeps the values that its writer meant. If a table would change a value, the error names it.
func TestParseLine(t *testing.T) {
	t.Parallel()
	const keys = `{"PartitionKey":"p","RowKey":"r"`
	for _, tt := range []struct {
		name, members string
		want          string // the row's members; "" if an error is expected
		err           string
		exact         bool // the error is about the line
	}{
		{"whole numbers", `"A":1,"B":-2147483648,"C":2147483648,"D":9007199254740993,"E":-9223372036854775808`,
			`"A":1,"B":-2147483648,"C@odata.type":"Edm.Int64","C":"2147483648","D@odata.type":"Edm.Int64","D":"9007199254740993","E@odata.type":"Edm.Int64","E":"-9223372036854775808"`, "", false},
		{"a number that is an Int64", `"A@odata.type":"Edm.Int64","A":5`, `"A@odata.type":"Edm.Int64","A":"5"`, "", false},
		{"a whole number of 65 bits", `"A":9223372036854775808`, "", "A must be a whole number of 64 bits, or an Edm.String; it is 9223372036854775808", false},
		{"Doubles", `"A":3.0,"B":0.1,"C":1.7976931348623157E+308,"D":5e-324,"E":0.30000000000000004,"F@odata.type":"Edm.Double","F":3,"G@odata.type":"Edm.Double","G":"NaN"`,
			`"A@odata.type":"Edm.Double","A":3.0,"B@odata.type":"Edm.Double","B":0.1,"C@odata.type":"Edm.Double","C":1.7976931348623157E+308,"D@odata.type":"Edm.Double","D":5e-324,` +
				`"E@odata.type":"Edm.Double","E":0.30000000000000004,"F@odata.type":"Edm.Double","F":3,"G@odata.type":"Edm.Double","G":"NaN"`, "", false},
		{"a Double of too many digits", `"A":0.12345678901234567890123`, "", "A must be a number that an Edm.Double stores exactly (an Edm.String can store any number); it is 0.123", false},
		{"a whole Double of too many digits", `"A@odata.type":"Edm.Double","A":9007199254740993`, "", "A must be a number that", false},
		{"the type after the value", `"A":"9007199254740993","A@odata.type":"Edm.Double"`, "", "A must be a number that", false},
		{"a Double that is too large", `"A":1e400`, "", "A must be a number that", false},
		{"a Double that is too small", `"A":1e-400`, "", "A must be a number that", false},
		{"times", `"A@odata.type":"Edm.DateTime","A":"2026-02-03T04:05:06.1234567Z","B@odata.type":"Edm.DateTime","B":"2026-02-03T04:05:06.123456700Z"`,
			`"A@odata.type":"Edm.DateTime","A":"2026-02-03T04:05:06.1234567Z","B@odata.type":"Edm.DateTime","B":"2026-02-03T04:05:06.123456700Z"`, "", false},
		{"the 8th digit of a second", `"A@odata.type":"Edm.DateTime","A":"2026-02-03T04:05:06.12345678Z"`, "", "A must have at most 7 decimal places in its seconds", false},
		{"the 8th digit, and an offset", `"A@odata.type":"Edm.DateTime","A":"2026-02-03T04:05:06.12345678+01:00"`, "", "A must have at most 7 decimal places in its seconds", false},
		{"a text that looks like a DateTime", `"A":"2026-02-03T04:05:06.12345678Z","B":"0.12345678901234567890123"`, `"A":"2026-02-03T04:05:06.12345678Z","B":"0.12345678901234567890123"`, "", false},
		{"later OData", `"@odata.etag":"W/x","@odata.type":"#account.Table","A@odata.type":"#Int64","A":"5","B@odata.type":"#Edm.Guid","B":"7e08a6c5-7e0e-4c65-9e1d-2f3a4b5c6d7e"`,
			`"A@odata.type":"Edm.Int64","A":"5","B@odata.type":"Edm.Guid","B":"7e08a6c5-7e0e-4c65-9e1d-2f3a4b5c6d7e"`, "", false},
		{"half a surrogate pair", `"A":"x\ud800y","B":"\udc00"`, `"A":"x\ud800y","B":"\udc00"`, "", false},
		{"a Timestamp in any form", `"Timestamp":1700000000000,"A":1`, `"A":1`, "", false},
		{"a Timestamp in any form, beside a decoded value", `"Timestamp":"2024-01-01 00:00:00","A":"\u0061"`, `"A":"\u0061"`, "", false},
		{"a repeated name", `"A":1,"A":2`, "", "duplicate object member name", true},
		{"an unknown type", `"A@odata.type":"#Int65","A":5`, "", `unknown type "#Int65"`, true},
		{"two rows", `"A":5} {"B":6`, "", "there is text after the row", true},
	} {
		text := keys + "," + tt.members + "}"
		row, err := storage.ParseLine([]byte(text))
		var inexact *storage.Inexact
		switch {
		case tt.want != "" && (err != nil || string(row.JSON()) != keys+","+tt.want+"}"):
			t.Errorf("%s: got row %s, error %v", tt.name, row.JSON(), err)
		case tt.want == "" && (err == nil || !strings.Contains(err.Error(), tt.err) || errors.As(err, &inexact) == tt.exact || !tt.exact && row.Key != key.Key{Partition: "p", Row: "r"}):
			t.Errorf("%s: got key %v, error %+v", tt.name, row.Key, err)
		}
	}
	for text, want := range map[string]string{
		`{"PartitionKey":5,"RowKey":"r"}`: "PartitionKey must be a string in quotes, not 5", `{"PartitionKey":"p","RowKey":true}`: "RowKey must be a string in quotes, not true",
		`{"PartitionKey":null,"RowKey":"r"}`: "PartitionKey must be a string in quotes, not null", `{"PartitionKey":"p\ud800","RowKey":"r"}`: `is not valid Unicode`,
	} {
		if _, err := storage.ParseLine([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("line %s: got error %v", text, err)
		}
	}
}
