package odata_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
)

type row map[string]odata.Value

func (r row) Property(name string) (odata.Value, bool) {
	v, ok := r[name]
	return v, ok
}

func text(s string) odata.Value { return odata.Value{Type: odata.String, Text: s} }

func TestMatch(t *testing.T) {
	t.Parallel()
	r := row{
		"PartitionKey": text("p"), "S": text("it's"), "Flag": {Type: odata.Boolean, Int: 1},
		"I": {Type: odata.Int32, Int: 3}, "L": {Type: odata.Int64, Int: math.MaxInt64},
		"D": {Type: odata.Double, Float: 9223372036854775808}, "No": {Type: odata.Double, Float: math.NaN()},
		"W": {Type: odata.DateTime, Int: key.Ticks(time.Date(2026, 2, 3, 4, 5, 6, 700, time.UTC))},
	}
	for _, c := range []struct {
		filter string
		want   bool
	}{
		{"S eq 'it''s'", true},
		{"Flag", true},
		{"not Flag", false},
		{"not not Flag", true},
		{"I eq 3 and not (I eq 4)", true},
		{"I eq 3L and I eq 3.0 and 2 lt I and 4 gt I and 3 le I and 3 ge I", true},
		{"L lt 9223372036854775808.0", true},
		{"L eq 9223372036854775807L", true},
		{"D gt 9223372036854775807L", true},
		{"I gt -INF and I lt INF and D lt Infinity and D gt -Infinity", true},
		{"No eq NaN", false},
		{"No ne 1.0", true},
		{"I ne NaN", true},
		{"S gt 5", false},
		{"S ne 5", false},
		{"not (S gt 5)", true},
		{"Missing ne 'x'", false},
		{"not (Missing eq 'x')", true},
		{"W gt datetime'2026-02-03T04:05:06.0000006Z' and W lt datetime'2026-02-03T04:05:06.0000008Z'", true},
		{"W eq datetime'2026-02-03T05:05:06.0000007+01:00'", true},
		{"I eq 3 or I eq 4 and I eq 5", true},
		{"(I eq 3 or I eq 4) and I eq 5", false},
		{"true", true},
		{"false", false},
		{"not false and (true) and I eq 3", true},
		{"false or I eq 3", true},
		{"true eq Flag", true},
	} {
		f, err := odata.Parse(c.filter)
		if err != nil {
			t.Errorf("the filter %s is refused: %v", c.filter, err)
			continue
		}
		if got := f.Match(r); got != c.want {
			t.Errorf("the filter %s matches: %v", c.filter, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ filter, want string }{
		{"", "expected a property"},
		{"A eq", "expected a property"},
		{"A eq 'x", "no closing quote"},
		{"A eq 1x", "number suffix"},
		{"A eq 1 2", `or the end of the filter`},
		{"A eq B", "a property on one side"},
		{"1 eq 2", "a property on one side"},
		{"'a'", `expected one of "eq"`},
		{"(A eq 1", "expected )"},
		{"A eq 1)", `or the end of the filter`},
		{"A eq day'x'", "unknown literal type"},
		{"A eq datetime'x'", "not a datetime"},
		{"A eq 99999999999999999999L", "not an Int64"},
		{"A eq 1-2", "not a number"},
		{"and", "unexpected and"},
		{"A eq eq", "unexpected eq"},
		{"A eq null", "unexpected null"},
		{strings.Repeat("(", 200) + "A" + strings.Repeat(")", 200), "too many nested parentheses"},
		{"A eq '\xff'", "UTF-8"},
	} {
		if _, err := odata.Parse(c.filter); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error of the filter %.40s is %v, want %q", c.filter, err, c.want)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	at := func(k string) *key.Bound { return &key.Bound{Key: k} }
	open := func(k string) *key.Bound { return &key.Bound{Key: k, Open: true} }
	p := "p"
	for _, c := range []struct {
		filter string
		want   key.Range
	}{
		{"A eq 1", key.Range{}},
		{"RowKey gt 'r'", key.Range{}},
		{"PartitionKey eq 'p' or PartitionKey eq 'q'", key.Range{}},
		{"not (PartitionKey eq 'p')", key.Range{}},
		{"PartitionKey ne 'p'", key.Range{}},
		{"PartitionKey gt 5", key.Range{}},
		{"true", key.Range{}},
		{"false or PartitionKey eq 'p'", key.Range{}},
		{"false", key.Range{High: open("")}},
		{"PartitionKey eq 'p' and false", key.Range{Low: at("p"), High: open("")}},
		{"PartitionKey gt 'p'", key.Range{Low: open("p")}},
		{"PartitionKey ge 'p' and PartitionKey lt 'q'", key.Range{Low: at("p"), High: open("q")}},
		{"'q' ge PartitionKey and RowKey gt 'r'", key.Range{High: at("q")}},
		{"PartitionKey eq 'p'", key.Range{Partition: &p}},
		{"PartitionKey ge 'p' and PartitionKey le 'p'", key.Range{Partition: &p}},
		{"PartitionKey eq 'p' and RowKey eq 'r'", key.Range{Partition: &p, Low: at("r"), High: at("r")}},
		{"PartitionKey eq 'p' and (RowKey gt 'a' and RowKey le 'z') and RowKey ge 'b' and A eq 1", key.Range{Partition: &p, Low: at("b"), High: at("z")}},
	} {
		f, err := odata.Parse(c.filter)
		if err != nil {
			t.Fatalf("the filter %s is refused: %v", c.filter, err)
		}
		if diff := cmp.Diff(c.want, f.Range()); diff != "" {
			t.Errorf("the range of the filter %s differs (-want +got)\n%s", c.filter, diff)
		}
	}
}

func TestDateTimeText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, out string }{
		{"2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z"},
		{"2026-02-03T04:05:06.1234567Z", "2026-02-03T04:05:06.1234567Z"},
		{"2026-02-03T04:05:06.12345678Z", "2026-02-03T04:05:06.1234567Z"},
		{"2026-02-03T04:05:06.1200000Z", "2026-02-03T04:05:06.12Z"},
		{"2026-02-03T04:05:06+02:00", "2026-02-03T02:05:06Z"},
		{"2026-02-03T04:05:06", "2026-02-03T04:05:06Z"},
		{"2026-02-03", "2026-02-03T00:00:00Z"},
		{"1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"},
		{"0001-01-01T00:00:00.0000001Z", "0001-01-01T00:00:00.0000001Z"},
		{"9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"},
	} {
		ticks, ok := odata.ParseDateTime(c.in)
		if got := string(odata.AppendDateTime(nil, ticks)); !ok || got != c.out {
			t.Errorf("the DateTime %s is written as %s, %v, want %s", c.in, got, ok, c.out)
		}
	}
	if ticks, _ := odata.ParseDateTime("9999-12-31T23:59:59.9999999Z"); ticks != 3155378975999999999 {
		t.Errorf("the DateTime of the last tick is read as %d", ticks)
	}
}

// FuzzParse checks that the parser does not panic, and that each accepted filter means the same within parentheses and when
// negated twice.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"PartitionKey eq 'a' and RowKey gt 'b''c'", "not (A eq 1 or B lt 2.5e3)", "W ge datetime'2026-01-01T00:00:00Z'",
		"G eq guid'0f8fad5b-d9cb-469f-a165-70867728950e'", "X eq X'00ff'", "L le -5L and Flag", "((A ne true))",
	} {
		f.Add(seed, "x", int32(3))
	}
	f.Fuzz(func(t *testing.T, filter, s string, i int32) {
		parsed, err := odata.Parse(filter)
		if err != nil {
			return
		}
		twice, err := odata.Parse("not (not (" + filter + "))")
		if err != nil {
			if strings.Contains(err.Error(), "nested") {
				return
			}
			t.Fatalf("the filter %q is accepted, but not within parentheses: %v", filter, err)
		}
		r := row{"PartitionKey": text(s), "A": {Type: odata.Int32, Int: int64(i)}, "Flag": {Type: odata.Boolean, Int: 1}}
		if parsed.Match(r) != twice.Match(r) || parsed.Comparisons() != twice.Comparisons() {
			t.Errorf("the filter %q has another meaning within parentheses", filter)
		}
		_ = parsed.Range()
	})
}
