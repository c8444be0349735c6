package place_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// readCSV returns all rows, and the defects of lines that are not rows. err is nil if the input was read to its end.
func readCSV(form place.CSV, text string) (rows []storage.Entity, bad []string, err error) {
	next := form.Lines(strings.NewReader(text))
	for {
		row, _, err := next()
		var line *place.BadLine
		switch {
		case errors.Is(err, io.EOF):
			return rows, bad, nil
		case errors.As(err, &line):
			bad = append(bad, line.Error())
		case err != nil:
			return rows, bad, err
		default:
			rows = append(rows, row.Entity())
		}
	}
}

// writeCSV writes rows as CSV.
func writeCSV(t *testing.T, c *place.Columns, rows []storage.Entity) []byte {
	t.Helper()
	proof.Must(t, c.See(storage.Rows(rows)))
	text, err := c.Append(c.Header(), storage.Rows(rows))
	proof.Must(t, err)
	return text
}

// TestCSVForms reads the forms that versions of Storage Explorer have written, and the forms that spreadsheets write.
func TestCSVForms(t *testing.T) {
	t.Parallel()
	types := map[string]storage.Type{"N": storage.Int32}
	for _, tt := range []struct {
		name, text string
		form       place.CSV
		want, bad  string
	}{
		{"types with Edm, a mark, line breaks in cells", "\ufeffPartitionKey,RowKey,Timestamp,Name,Name@type,N,N@type\r\np,1,2026-01-01T00:00:00Z,\"a\r\nb \"\"q\"\", c\",Edm.String,5,Edm.Int64\r\np,2,,,Edm.String,,\r\n", place.CSV{},
			`{"PartitionKey":"p","RowKey":"1","Name":"a\r\nb \"q\", c","N@odata.type":"Edm.Int64","N":"5"}{"PartitionKey":"p","RowKey":"2","Name":""}`, ""},
		{"types of keys, without Edm", "PartitionKey,PartitionKey@type,RowKey,RowKey@type,B,B@type\n1,Int32,2,String,True,Boolean", place.CSV{}, `{"PartitionKey":"1","RowKey":"2","B":true}`, ""},
		{"types in the first row only", "PartitionKey,RowKey,N,N@type,S,S@type\np,1,4,Int32,,String\np,2,5,,,\np,3,,,x,\n", place.CSV{},
			`{"PartitionKey":"p","RowKey":"1","N":4,"S":""}{"PartitionKey":"p","RowKey":"2","N":5}{"PartitionKey":"p","RowKey":"3","S":"x"}`, ""},
		{"types that are empty", "PartitionKey,RowKey,N,N@type\np,1,4,\n", place.CSV{}, `{"PartitionKey":"p","RowKey":"1","N":"4"}`, ""},
		{"types that are empty, and given by the option", "PartitionKey,RowKey,N,N@type\np,1,4,\np,2,,\n", place.CSV{Types: types}, `{"PartitionKey":"p","RowKey":"1","N":4}{"PartitionKey":"p","RowKey":"2"}`, ""},
		{"no types, a delimiter, blank lines", "RowKey;N;PartitionKey\n\n1;7;\"p;q\"\n\r\n", place.CSV{Delimiter: ';', Types: types}, `{"PartitionKey":"p;q","RowKey":"1","N":7}`, ""},
		{"trailing commas, in some lines", "PartitionKey,RowKey,N,N@type,\np,1,4,Int32,\np,2,5,,,,\np,3,6,Int32\n", place.CSV{}, `{"PartitionKey":"p","RowKey":"1","N":4}{"PartitionKey":"p","RowKey":"2","N":5}{"PartitionKey":"p","RowKey":"3","N":6}`, ""},
		{"text after a trailing comma", "PartitionKey,RowKey,\np,1,x\np,2,\n", place.CSV{}, `{"PartitionKey":"p","RowKey":"2"}`, "line 2 is not a row: it has 3 cells, but the first line names 2 columns"},
		{"blanks around names, keys in any case", " partitionkey , ROWKEY,\tN, N@type \np,1,4, Int32 \n", place.CSV{}, `{"PartitionKey":"p","RowKey":"1","N":4}`, ""},
		{"types in OData's form", "PartitionKey@odata.type,PartitionKey,RowKey,N@odata.type,N\nEdm.String,p,1,Edm.Int64,4\n", place.CSV{}, `{"PartitionKey":"p","RowKey":"1","N@odata.type":"Edm.Int64","N":"4"}`, ""},
		{"Excel's delimiter", "\ufeffsep=;\r\nPartitionKey;RowKey;N\r\np;1;7\r\np;2;x\r\n", place.CSV{Types: types}, `{"PartitionKey":"p","RowKey":"1","N":7}`, `line 4 is not a row: N must be an Edm.Int32; it is "x"`},
		{"values that a table would change", "PartitionKey,RowKey,N,N@type\np,1,9007199254740993,Double\np,2,2026-02-03T04:05:06.12345678Z,DateTime\np,3,1e400,Double\np,4,9007199254740993,Int64\n", place.CSV{},
			`{"PartitionKey":"p","RowKey":"4","N@odata.type":"Edm.Int64","N":"9007199254740993"}`, `line 2 is not a row: N must be a number that an Edm.Double stores exactly (an Edm.String can store any number); it is "9007199254740993"; ` +
				`line 3 is not a row: N must have at most 7 decimal places in its seconds; only an Edm.String can store more; it is "2026-02-03T04:05:06.12345678Z"; line 4 is not a row: N must be an Edm.Double; it is "1e400"`},
		{"bad values", "PartitionKey,RowKey,N,N@type\np,1,x,Int32\np,2,1,Int33\np,3,1\np,4,1,Int32,x\np,5,\"a\"b,String\np,6,a\"b,String\np,7,\xff,String\n\xff,8,1,Int32\np,9,1,Int32\n", place.CSV{},
			`{"PartitionKey":"p","RowKey":"9","N":1}`, `line 2 is not a row: N must be an Edm.Int32; it is "x"; line 3 is not a row: N has the type "Int33", which properties cannot have; line 4 is not a row: it has 3 cells, but the first line names 4 columns; ` +
				`line 5 is not a row: it has 5 cells, but the first line names 4 columns; line 6 is not a row: there is text after a closing quote; line 7 is not a row: there is a quote in a cell that does not begin with a quote; ` +
				`line 8 is not a row: N is not valid Unicode; it is "\xff"; line 9 is not a row: its key is not valid Unicode`},
	} {
		rows, bad, err := readCSV(tt.form, tt.text)
		if diff := cmp.Diff(tt.want, strings.ReplaceAll(linesOf(rows), "\n", "")); diff != "" || strings.Join(bad, "; ") != tt.bad || err != nil {
			t.Errorf("%s: error %v, defects %v (-want +got):\n%s", tt.name, err, strings.Join(bad, "; "), diff)
		}
	}
	const keys = "PartitionKey,RowKey,"
	for text, want := range map[string]string{
		"": "it is empty", "\xff\xfeP\x00a\x00": "line 1: it is UTF-16; save it as UTF-8", "\xfe\xff\x00P": "it is UTF-16", keys + "\xe4\n": "line 1: it is not UTF-8", "a,b\n": "no column PartitionKey; the first line must contain", "PartitionKey;RowKey\n": `the delimiter seems to be ";"`, keys + "A,A\n": `the column "A" twice`, keys + "A, A \n": `the column "A" twice, as "A" and " A "; rename or remove one`, keys + "rowkey\n": `the column "RowKey" twice, as "RowKey" and "rowkey"`,
		keys + "A,A@type,A@odata.type\n": `the column "A@type" twice, as "A@type" and "A@odata.type"`, keys + "A,,B\n": `"" is not a property name`, "sep=x\n" + keys: "line 1: the delimiter is", "sep=;\na\n": "line 2: it has no column PartitionKey", keys + "A@type\n": `no column "A"`,
		keys + "a b\n": "is not a property name", keys + "A\n": "--types names N", keys + "N\np,1,\"x\ny\"z\n": "lines 2 to 3 are not a row", keys + "N\np,1,\"x\np,2,y\n": "a quote is not closed", keys + "N\np,1,\"x": "a quote is not closed",
		keys + "N\np,1,\"x\np,2,\"y\"\np,3,1\n": "lines 2 to 5 are not a row: there is text after a closing quote; because of the quotes in these lines, the command cannot tell",
	} {
		if rows, bad, err := readCSV(place.CSV{Types: types}, text); err == nil || !strings.Contains(err.Error(), want) || rows != nil || bad != nil {
			t.Errorf("%q: got the defects %v and the error %v, want %q", text, rows, err, want)
		}
	}
}

// TestKeylessRows checks that rows without keys are returned with their text, and that columns may have any names.
func TestKeylessRows(t *testing.T) {
	t.Parallel()
	form := place.CSV{Keyless: true, Types: map[string]storage.Type{"the age": storage.Int32}}
	first, next, err := form.Records(strings.NewReader("sep=;\r\n\"eid\";the age;Timestamp;partitionkey;N;N@odata.type;\r\n012;7;now;p;5;Int64\r\n\r\n\"a\r\nb\";x;;;;\r\n\n1;2;3\r\n3;;;;\"\";String"))
	if err != nil || string(first) != "sep=;\r\n\"eid\";the age;Timestamp;partitionkey;N;N@odata.type;" {
		t.Fatalf("got the first text %q, error %v", first, err)
	}
	for _, want := range []string{
		`3 "012;7;now;p;5;Int64" {"PartitionKey":"","RowKey":"","eid":"012","the age":7,"Timestamp":"now","partitionkey":"p","N@odata.type":"Edm.Int64","N":"5"} <nil>`,
		`5 "\"a\r\nb\";x;;;;" the age must be an Edm.Int32; it is "x"`, `8 "1;2;3" it has 3 cells, but the first line names 6 columns`, `9 "3;;;;\"\";String" {"PartitionKey":"","RowKey":"","eid":"3","N":""} <nil>`,
	} {
		r, err := next()
		got := fmt.Sprintf("%d %q ", r.Line, r.Text)
		if r.Err == nil {
			got += string(storage.Entity{Properties: r.Properties}.AppendJSON(nil)) + " "
		}
		if got += fmt.Sprint(r.Err); got != want || err != nil {
			t.Errorf("got %s, error %v, want %s", got, err, want)
		}
	}
	if r, err := next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end, got %v, error %v", r, err)
	}
	for text, want := range map[string]string{"": "it is empty", "a,a\n": `the column "a" twice`, "a,,b\n": `"" is not a property name`, "a\n": "--types names the age, but there is no such column", "the age@type\n": `no column "the age"`} {
		if _, _, err := form.Records(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// Rows may share their columns with earlier rows, or have only the first columns of an earlier row. The earlier row is not always part of the output.
func TestRowsShareColumns(t *testing.T) {
	t.Parallel()
	rows, err := storage.ParseLines([]byte(`{"PartitionKey":"p","RowKey":"1","A":1,"B":2}` + "\n" + `{"PartitionKey":"p","RowKey":"2","A":1}` + "\n" + `{"PartitionKey":"p","RowKey":"3","A":1,"B":2}`))
	proof.Must(t, err)
	c := &place.Columns{}
	proof.Must(t, c.See(rows[1:]))
	if _, err := c.Append(nil, rows[1:]); err != nil {
		t.Error(err)
	}
}

// TestUnusualRowsAsCSV writes unusual rows and reads equal rows. A property with half a surrogate pair, which a text file cannot contain, must be
// named.
func TestUnusualRowsAsCSV(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := emulatortest.NastyRows(testsize.Of(1000, 8833))
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	half := storage.Entity{Key: key.Key{Partition: "~", Row: "half"}, Properties: []storage.Property{{Name: "Half", Value: jsontext.Value(`"x\ud800"`)}}}
	var lossy []string
	c := &place.Columns{Lossy: func(k key.Key, name string) { lossy = append(lossy, k.Row+" "+name) }}
	text := writeCSV(t, c, append(slices.Clone(rows), half))
	half.Properties[0].Value = jsontext.Value(`"x` + "\ufffd" + `"`)
	got, bad, err := readCSV(place.CSV{}, string(text))
	if err != nil || bad != nil || len(got) != len(rows)+1 || fmt.Sprint(lossy) != "[half Half]" {
		t.Fatalf("read %d rows of %d, defects %v, error %v, lossy properties %v", len(got), len(rows)+1, bad, err, lossy)
	}
	for i, want := range append(rows, half) {
		if !storage.Equal(got[i], want) {
			t.Fatalf("%.300s became %.300s", want.AppendJSON(nil), got[i].AppendJSON(nil))
		}
	}
	rows = append(rows, storage.Entity{Properties: []storage.Property{storage.StringProperty("Late", "")}})
	if _, err := c.Append(nil, storage.Rows(rows)); err == nil || !strings.Contains(err.Error(), "the property Late was added after") {
		t.Errorf("a row with a late column: got error %v", err)
	}
}

// TestTypesOfColumns checks that a text without a type gets the type of its column, whatever the order of the rows. An input that is read only once
// must give the same rows, or end where a second reading would be necessary.
func TestTypesOfColumns(t *testing.T) {
	t.Parallel()
	const head = "PartitionKey,RowKey,N,N@type\n"
	for _, tt := range []struct {
		name, text string
		given      bool   // the option gives the type Int32
		want       string // the type of texts without a type
		mixed      bool
		ends       int // the line at which a single reading ends early; 0 if it does not
	}{
		{"one type, above", "p,1,4,Edm.Int32\np,2,5,\np,3,6,\n", false, "Edm.Int32", false, 0},
		{"one type, below", "p,1,4,\np,2,5,\np,3,6,Edm.Int32\n", false, "Edm.Int32", false, 4},
		{"one type, below an empty cell", "p,1,,\np,2,5,Int32\np,3,6,\n", false, "Edm.Int32", false, 0},
		{"String, below", "p,1,4,\np,2,5,Edm.String\n", false, "Edm.String", false, 0},
		{"no type", "p,1,4,\np,2,5,\n", false, "Edm.String", false, 0},
		{"several types, one of them in the first row", "p,1,4,Edm.Int64\np,2,5,\np,3,6,Edm.Int32\np,4,7,\n", false, "Edm.Int64", true, 0},
		{"several types, none in the first row", "p,1,,\np,2,5,Edm.Int64\np,3,6,Edm.Int32\np,4,7,\n", false, "Edm.String", true, 0},
		{"several types, and a text without a type between them", "p,1,,\np,2,5,Edm.Int64\np,3,6,\np,4,7,Edm.Int32\n", false, "Edm.String", true, 5},
		{"several types, and no text without a type", "p,1,4,Edm.Int64\np,2,5,Edm.Int32\np,3,,\n", false, "", false, 0},
		{"a type given by the option", "p,1,4,\np,2,5,Edm.Int64\np,3,6,Edm.Double\n", true, "Edm.Int32", false, 0},
		{"an unknown type does not count", "p,1,4,\np,2,5,Edm.Int33\n", false, "Edm.String", false, 0},
		{"types in a line that is not a row do not count", "p,1,4,\np,2,5,Edm.Int32,x\np,3,6,\n", false, "Edm.String", false, 0},
		{"types after an unclosed quote do not count", "p,1,4,\np,2,5,Edm.String\np,3,\"6,\np,4,7,Edm.Int32\n", false, "Edm.String", false, 0},
	} {
		for _, once := range []bool{false, true} {
			var mixed []string
			form := place.CSV{Mixed: func(text string) { mixed = append(mixed, text) }}
			if tt.given {
				form.Types = map[string]storage.Type{"N": storage.Int32}
			}
			if !once {
				var err error
				form, err = form.Learn(t.Context(), strings.NewReader(head+tt.text))
				proof.Must(t, err)
			}
			rows, _, err := readCSV(form, head+tt.text)
			if once && tt.ends > 0 {
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d: N is an Edm.", tt.ends)) || !strings.Contains(err.Error(), "use --types N:Edm.") || len(rows) != tt.ends-2 {
					t.Errorf("%s, read once: got %d rows, error %v", tt.name, len(rows), err)
				}
				continue
			}
			if err != nil && !strings.Contains(err.Error(), "a quote is not closed") {
				t.Errorf("%s, read once %v: got error %v", tt.name, once, err)
			}
			for _, row := range rows {
				line := strings.Split(tt.text, "\n")[row.Key.Row[0]-'1']
				if p := row.Properties; strings.HasSuffix(line, ",") && len(p) > 0 && p[0].Type.String() != tt.want {
					t.Errorf("%s, read once %v: %s became %v", tt.name, once, line, p[0].Type)
				}
			}
			if want := "[N has several types; its values without a type become " + tt.want + "]"; fmt.Sprint(mixed) != want && tt.mixed || mixed != nil && !tt.mixed {
				t.Errorf("%s, read once %v: the mixed columns are %v", tt.name, once, mixed)
			}
		}
	}
}
