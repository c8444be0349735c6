package rowmap_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

func typed(name string, t storage.Type, json string) storage.Property {
	return storage.Property{Name: name, Type: t, Value: jsontext.Value(json)}
}

// order is a row with a property of each type. All values are different.
var order = storage.Entity{Key: key.Key{Partition: "p", Row: "r"}, Properties: []storage.Property{
	typed("S", storage.String, `"text"`), typed("B", storage.Boolean, `true`), typed("I", storage.Int32, `5`), typed("L", storage.Int64, `"9007199254740993"`),
	typed("D", storage.Double, `3.0`), typed("T", storage.DateTime, `"2020-02-29T23:59:59.1234567Z"`), typed("G", storage.GUID, `"c9da6455-213d-42c9-9a79-3e9149a57833"`),
	typed("Y", storage.Binary, `"AAH+/w=="`), typed("N", storage.Double, `"NaN"`), typed("E", storage.Double, `1.50E+2`), typed("H", storage.String, `"\ud800"`),
}}

// TestTypes checks the types of mapped properties. A property with an unchanged value keeps its type and text. A property with a new value
// keeps its type if the value fits. Otherwise the value determines the type.
func TestTypes(t *testing.T) {
	t.Parallel()
	const all = `"S":"text","B":true,"I":5,"L@odata.type":"Edm.Int64","L":"9007199254740993","D@odata.type":"Edm.Double","D":3.0,` +
		`"T@odata.type":"Edm.DateTime","T":"2020-02-29T23:59:59.1234567Z","G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
		`"Y@odata.type":"Edm.Binary","Y":"AAH+/w==","N@odata.type":"Edm.Double","N":"NaN","E@odata.type":"Edm.Double","E":1.50E+2,"H":"\ud800"`
	for program, want := range map[string]string{
		`.`: all, `. as $r | [.[]] | $r`: all, `.odata = null | ."odata.etag" = "x" | .Timestamp = "now"`: all,
		`{PartitionKey, RowKey, L: (.L + 1)}`:                                                            `"L@odata.type":"Edm.Int64","L":"9007199254740994"`,
		`{PartitionKey, RowKey, L: (.L | floor)}`:                                                        `"L@odata.type":"Edm.Int64","L":"9007199254740992"`, // floor converts to a floating point number, which is rounded
		`{PartitionKey, RowKey, D: 4}`:                                                                   `"D@odata.type":"Edm.Double","D":4.0`,
		`{PartitionKey, RowKey, I: (.I * 2)}`:                                                            `"I":10`,
		`{PartitionKey, RowKey, I: 3000000000}`:                                                          `"I@odata.type":"Edm.Double","I":3000000000.0`,
		`{PartitionKey, RowKey, T: "2021-01-01T00:00:00Z", G: "none", Y: "AQ=="}`:                        `"T@odata.type":"Edm.DateTime","T":"2021-01-01T00:00:00Z","G":"none","Y@odata.type":"Edm.Binary","Y":"AQ=="`,
		`{PartitionKey, RowKey, S: 1.5, New: "x", A: 7, C: false, Z: null, I: null, Inf: -infinite}`:     `"S@odata.type":"Edm.Double","S":1.5,"A":7,"C":false,"Inf@odata.type":"Edm.Double","Inf":"-Infinity","New":"x"`,
		`{PartitionKey, RowKey, X: 5, "X@odata.type": "Edm.Int64", U: "7", "U@odata.type": "Edm.Int64"}`: `"U@odata.type":"Edm.Int64","U":"7","X@odata.type":"Edm.Int64","X":"5"`,
		`{PartitionKey, RowKey, J: ("{\"a\":12}" | fromjson.a)}`:                                         `"J":12`,
	} {
		checkRows(t, program, `{"PartitionKey":"p","RowKey":"r",`+want+`}`)
	}
	checkRows(t, `empty`)
	checkRows(t, `{PartitionKey: ("a","b"), RowKey: .S}`, `{"PartitionKey":"a","RowKey":"text"}`, `{"PartitionKey":"b","RowKey":"text"}`)
	m := compile(t, rowmap.Options{Program: `{PartitionKey, RowKey, Moved: .T, I: "five"}`, Rename: map[string]string{"L": "Long"}, Drop: []string{"B"}})
	if _, err := m.Rows(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	var changes []string
	m.Changes(func(c rowmap.Change) { changes = append(changes, c.String()) })
	if diff := cmp.Diff([]string{"I: Edm.Int32 became Edm.String", "Moved: Edm.DateTime became Edm.String"}, changes); diff != "" {
		t.Errorf("the reported changes differ (-want +got):\n%s", diff)
	}
	rows, err := compile(t, rowmap.Options{Rename: map[string]string{"T": "When", "L": "Long"}, Drop: []string{"S", "B", "I", "D", "G", "Y", "N", "E", "H"}}).Rows(t.Context(), order)
	if got := fmt.Sprintf("%s %v", rows[0].AppendJSON(nil), err); got != `{"PartitionKey":"p","RowKey":"r","Long@odata.type":"Edm.Int64","Long":"9007199254740993","When@odata.type":"Edm.DateTime","When":"2020-02-29T23:59:59.1234567Z"} <nil>` {
		t.Errorf("the renamed row is %s", got)
	}
}

func compile(t *testing.T, o rowmap.Options) *rowmap.Map {
	t.Helper()
	m, err := rowmap.New(o)
	proof.Must(t, err)
	return m
}

// checkRows checks the rows that a program returns for the row order.
func checkRows(t *testing.T, program string, want ...string) {
	t.Helper()
	rows, err := compile(t, rowmap.Options{Program: program}).Rows(t.Context(), order)
	var got []string
	for _, row := range rows {
		got = append(got, string(row.AppendJSON(nil)))
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the program %s returns the error %v; the rows differ (-want +got):\n%s", program, err, diff)
	}
}

// TestErrors checks that a result that is not a row is an error of this row only, and that programs with forbidden functions
// are refused before they run.
func TestErrors(t *testing.T) {
	t.Parallel()
	const searched = "searches by a regular expression in a text of more than 100 KiB"
	for program, want := range map[string]string{
		`.S`: "returns a string \"text\", not a row", `[.]`: "returns an array", `del(.RowKey)`: "whose RowKey is null, not a string", `.PartitionKey = 1`: "whose PartitionKey is 1",
		`.X = [1]`: "X is an array", `.["a b"] = 1`: "is not a property name", `.X = .L`: "which a Double cannot store exactly", `.L += 9223372036854775000`: "tostring converts the value to text", `null`: "returns null, not a row", `"9" * 2000 | tonumber`: "1024 digits", `"9" * 2000 | fromjson`: "1024 digits", `[] | nth(100000000) = 1`: "an index of more than", `."X@odata.type" = "Edm.Int32" | .X = "five"`: "which is not an Edm.Int32",
		`."X@odata.type" = "Int32" | .X = 1`: "which is not a type", `error("no \(.S)")`: "no text", `"x CET" | strptime("x %Z")`: "%Z or %+", `"%Z" as $f | try ("CET" | strptime($f)) catch 1`: "%Z or %+", `"Mon Jan  2 15:04:05 CET 2006" | strptime("%+")`: "%Z or %+", `"%Z5" | strptime("%%Z%d") | error("read")`: "read", `repeat(.)`: "returns more than 100 rows",
		`.X = ("x" * 200000 | . , . | [.,.,.,.,.,.] | join(""))`:                                   "a text of more than 256 KiB",
		`range(6) as $i | .["P\($i)"] = 1 | reduce range(6) as $j (.; .["Q\($j)"] = "x" * 200000)`: "a row of more than 1 MiB",
		`"x" * 200000000`: "a text of more than 256 KiB", `.S *= 200000000`: "a text of more than 256 KiB", `reduce range(40) as $i ("x"; . + .)`: "256 KiB", `reduce range(40) as $i ("x"; . += .)`: "256 KiB",
		`reduce range(60) as $i (1; [., .]) | tojson`: "more than 32768 values", `reduce range(60) as $i ({}; .a = . | .b = .) | tojson`: "more than 32768 values", `.[100000000] = 1`: "an index of more than",
		`[] | .[length + 100000000] = 1`: "an index of more than", `[] | setpath([100000000]; 1)`: "an index of more than", `[] | getpath([100000000]) = 1`: "an index of more than",
		`[range(30000)] as $all | last(range(1e9) | $all - $all)`: "instructions", `[range(30000)] as $all | last(range(1e9) | $all | . -= $all)`: "instructions", `["a", "b"] | join("x" * 2000)`: "joins with a text of more than 1 KiB",
		`reduce range(40) as $i (10; . * .) | tojson`: "1024 digits", `def f: f; f`: "instructions", `until(false; .)`: "instructions",
		`def f: try ("x" * 200000000) catch f; f`: "a text of more than 256 KiB", `range(10000) | "x" * 200000 | select(false)`: "instructions", `reduce range(40) as $i ("\""; tojson)`: "256 KiB",
		`"x" * 250000 | test("y")`: searched, `"x" * 250000 | gsub("X"; "y"; "i")`: searched, `"x" * 250000 | sub("X"; "y")`: searched, `"x" * 250000 | [scan("x")]`: searched, `"x" * 250000 | capture("(?<a>x)")`: searched,
		`"x" * 250000 | [splits("(x)")]`: searched, `"x" * 250000 | split("x"; "g")`: searched, `"x" * 250000 | [match("x"; "g")]`: searched, `"x" * 60000 | match("x"; "") | error("one")`: "one",
		`reduce range(40) as $i ("x"; "\(.)\(.)")`: "256 KiB", `reduce range(400) as $i ("<"; @html | . + .)`: "256 KiB", `[limit(3; repeat("x" * 200000))] | add | add`: "256 KiB",
	} {
		_, err := compile(t, rowmap.Options{Program: program}).Rows(t.Context(), order)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of the program %s is %v, want %q", program, err, want)
		}
	}
	for program, want := range map[string]string{
		"def f(_check): .; .": "defines _check", "def _check: .; .": "defines _check", ". as $__c | $__c": "uses $__c", "jn(1000000000; 1)": "uses jn",
		"now": "uses now", ".T = (now|todate)": "uses now", "localtime": "uses localtime", `strflocaltime("%H")`: "uses strflocaltime", "halt": "uses halt", "halt_error": "uses halt_error", "input": "uses input",
		"[inputs]": "uses inputs", "env": "uses env", "$ENV.PATH": "uses $ENV", "builtins": "uses builtins", `import "a" as a; .`: "uses modules", `include "a"; .`: "uses modules", "modulemeta": "uses modulemeta",
		`_multiply("x"; 9)`: "uses _multiply", "transpose": "uses transpose", "debug": "uses debug", `"\(now)"`: "uses now", `{(input): 1}`: "uses input", `. as {a: $x} ?// [$x] | now`: "uses now", "def f(g): g; f(halt)": "uses halt",
		".a |": "is not a jq program: unexpected EOF", "nofunction": "is not a jq program", strings.Repeat(" ", 20_000): "at most 16384 are allowed",
	} {
		if _, err := rowmap.New(rowmap.Options{Program: program}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of the program %.40s is %v, want %q", program, err, want)
		}
	}
	many := storage.Entity{Key: order.Key}
	for i := range 252 {
		many.Properties = append(many.Properties, storage.StringProperty(fmt.Sprintf("P%03d", i), strings.Repeat("x", 4000)))
	}
	for _, program := range []string{`with_entries(.value |= (if length < 600 then . else ascii_upcase end))`, `to_entries | map(select(.key | startswith("P0") | not)) | from_entries`, `walk(if type == "string" then ascii_downcase else . end)`, `reduce keys[] as $k (.; .[$k] += "")`,
		`.P001 |= (.[:3900] | gsub("x"; "y"; null) | sub("y"; "z") | [scan("z(y)")][0][0])`, `.P001 |= ("some line \n" * 3000 | gsub("\n"; "") | [match("line"; "g")] | length)`, `first(.P001, .P002 | select(test("x"))) |= "y" | getpath(["P005"]) |= length | (.. | strings) |= ascii_downcase`, `("xy" * 10000 | sub("x"; "z"), split("xy") | length) as $n | .`} {
		if _, err := compile(t, rowmap.Options{Program: program}).Rows(t.Context(), many); err != nil {
			t.Errorf("the program %s fails for the largest row: %v", program, err)
		}
	}
}

// TestLargeValues checks that a function that reads or creates a large value counts as many instructions.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	all := []string{`$text | length`, `$text | tonumber?`, `$text + "x"`, `$text[:90000] | test("y")`, `test("\($i)x{1000}")`, `"x" | IN($text, $text)`, `$all | any`, `try .[$all] catch 1`, `$all | sort_by($all)`,
		`add($text, $text)`, `"xx" | gsub("x"; $text)`, `$text | @base64 | length`, `"\($text)" | length`}
	for _, does := range all[:testsize.Of(4, len(all))] {
		program := `("x" * 120000) as $text | [range(30000)] as $all | [range(1e9) as $i | "x" | ` + does + ` | select(false)]`
		_, err := compile(t, rowmap.Options{Program: program}).Rows(t.Context(), order)
		if err == nil || !strings.Contains(err.Error(), "takes more than 1048576 instructions with this row") {
			t.Errorf("the error of %s is %v, want one about too many instructions", does, err)
		}
	}
}

// TestInterrupted checks that the work for a row ends when its context ends. The row must not count as failed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := compile(t, rowmap.Options{Program: `last(range(1e9))`})
	if _, err := m.Rows(ctx, order); !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted row returns the error %v", err)
	}
	if _, err := m.Keep(ctx, storage.Rows([]storage.Entity{order}), true); !errors.Is(err, context.Canceled) {
		t.Errorf("Keep of an interrupted row returns the error %v", err)
	}
}

// TestRowsAreIndependent checks that the result for a row does not depend on earlier rows. Some of these fail, end early or set
// variables.
func TestRowsAreIndependent(t *testing.T) {
	t.Parallel()
	programs := []string{
		`def f: if .I % 3 == 0 then error("three") else .S += "x" end; f as $r | .PartitionKey = ("a", "b" | . + ($r.S // "")) | label $out | ., (if .I % 5 == 0 then break $out else empty end), (.RowKey = "z")`,
		`if .I % 4 == 1 then repeat(.) elif .I % 4 == 2 then [.] elif .I % 4 == 3 then empty else reduce range(.I) as $i (.; .N += $i) | first(., error("never")) end`,
		`if .I % 20 == 9 then last(range(1e9)) else . end`, `(if .I % 7 == 0 then null else . end) as $x | .S = ($x.S | test("t+") | tostring) | try (., error) catch (.RowKey = "caught")`,
	}
	for _, program := range programs {
		m := compile(t, rowmap.Options{Program: program})
		for i := range 40 {
			row := order.Clone()
			row.Properties[2].Value = jsontext.Value(fmt.Sprint(i))
			got, gotErr := m.Rows(t.Context(), row)
			want, wantErr := compile(t, rowmap.Options{Program: program}).Rows(t.Context(), row)
			if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("the program %s returns for row %d the error %v, but for the row alone %v (-alone +got):\n%s", program, i, gotErr, wantErr, diff)
			}
		}
	}
}

// TestKeep checks that Keep returns rows with unchanged keys, and otherwise names the first row whose key has changed.
func TestKeep(t *testing.T) {
	t.Parallel()
	rows := []storage.Entity{order, {Key: key.Key{Partition: "q"}}}
	for program, want := range map[string]string{`.`: "2 <nil>", `select(.S)`: "1 <nil>", `.RowKey += "x"`: ErrText, `., .`: ErrText, `.RowKey = .S`: `0 PartitionKey "p" RowKey "r": map: the map changes the key of the row to PartitionKey "p" RowKey "text"`, `error("no")`: `0 PartitionKey "p" RowKey "r": map: error: no`} {
		kept, err := compile(t, rowmap.Options{Program: program}).Keep(t.Context(), storage.Rows(rows), false)
		if got := fmt.Sprint(len(kept), " ", err); got != want && !(want == ErrText && errors.Is(err, rowmap.ErrMoved)) {
			t.Errorf("Keep with the program %s returns %s, want %s", program, got, want)
		}
	}
	if kept, err := compile(t, rowmap.Options{Program: `if .S then error("no") else . end`}).Keep(t.Context(), storage.Rows(rows), true); err != nil || len(kept) != 1 {
		t.Errorf("Keep returns %d rows, error %v", len(kept), err)
	}
}

// ErrText means that the error is [rowmap.ErrMoved].
const ErrText = "moved"
