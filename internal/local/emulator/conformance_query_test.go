package emulator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

func queryProperties() []property {
	return []property{
		{"rows are in the order of UTF-16 units", ordinalOrder},
		{"a page has $top rows, or 1000", pageSizes},
		{"tokens continue where the page ended", tokensGoOn},
		{"$top has limits", topBounds},
		{"unsupported options are refused", unsupportedOptions},
		{"filters select", filters},
		{"wrong filters are refused", wrongFilters},
		{"a filter may have 15 comparisons", comparisonLimit},
		{"$select projects", projection},
	}
}

func ordinalOrder(t *testing.T, b backend) {
	table := b.newTable(t)
	inOrder := []string{"", "A", "B", "a", "aa", "b", "z", "ü", "\u0800", "\ud7ff", "😀", "\ue000", "\ufb00", "\uffff"}
	mixed := slices.Clone(inOrder)
	slices.Sort(mixed)
	slices.Reverse(mixed)
	var want []string
	for _, k := range mixed {
		check(t, "insert", b.insert(t, table, k, "x", ""), 204, "")
		check(t, "insert", b.insert(t, table, "q", "_"+k, ""), 204, "")
	}
	for _, k := range inOrder {
		if k == "z" { // partition q is directly before
			for _, r := range inOrder {
				want = append(want, "q/_"+r)
			}
		}
		want = append(want, k+"/x")
	}
	same(t, "order", b.all(t, table, ""), want)
}

// fill inserts rows in batches: partitions p0, p1, … with rows 0000, 0001, ….
func (b backend) fill(t testing.TB, table string, partitions, rows int) {
	t.Helper()
	for p := range partitions {
		for start := 0; start < rows; start += 100 {
			ops := inserts(table, fmt.Sprintf("p%d", p), start, min(start+100, rows))
			if got := b.batch(t, ops); got.status != 202 || slices.Max(got.statuses()) != 204 {
				t.Fatalf("fill: %v", got)
			}
		}
	}
}

// inserts returns operations that insert rows of five properties.
func inserts(table, partition string, start, end int) (ops []batchOp) {
	for r := start; r < end; r++ {
		properties := fmt.Sprintf(`"N":%d,"S":"value %d","D":%d.5,"B":true,"L":"%d","L@odata.type":"Edm.Int64"`, r, r, r, r)
		body := entityBody(partition, fmt.Sprintf("%04d", r), properties)
		ops = append(ops, batchOp{"POST", "/" + table, map[string]string{"Prefer": "return-no-content"}, body})
	}
	return ops
}

func pageSizes(t *testing.T, b backend) {
	table := b.newTable(t)
	b.fill(t, table, 1, 1001)
	for _, c := range []struct {
		options string
		pages   []int
	}{
		{"", []int{1000, 1}},
		{"$top=1000", []int{1000, 1}},
		{"$top=600", []int{600, 401}},
		{"$top=1&$filter=" + urlQuery("RowKey ge '0999'"), []int{1, 1}},
		{"$filter=" + urlQuery("N gt 5000"), []int{0}},
	} {
		var pages []int
		for next := "start"; next != ""; {
			p := b.query(t, table, c.options, strings.TrimPrefix(next, "start"))
			pages = append(pages, len(p.rows))
			next = p.next
		}
		same(t, "pages of "+c.options, pages, c.pages)
	}
}

func tokensGoOn(t *testing.T, b backend) {
	table := b.newTable(t)
	b.fill(t, table, 3, 40)
	all := b.all(t, table, "")
	same(t, "rows", len(all), 120)
	for _, top := range []int{1, 7, 39, 40, 41} {
		same(t, fmt.Sprintf("pages of %d", top), b.all(t, table, fmt.Sprintf("$top=%d", top)), all)
	}
	first := b.query(t, table, "$top=40", "")
	check(t, "delete the next row", b.table(t, request{method: "DELETE", path: entityPath(table, "p1", "0000"), header: map[string]string{"If-Match": "*"}}), 204, "")
	check(t, "add rows before", b.insert(t, table, "p0", "0000a", ""), 204, "")
	second := b.query(t, table, "$top=40", first.next)
	if !strings.Contains(string(second.rows[0]), `"0001"`) {
		t.Errorf("the second page starts with %s, want row 0001", second.rows[0])
	}
}

func topBounds(t *testing.T, b backend) {
	table := b.newTable(t)
	for _, c := range []struct {
		top     string
		azurite int
	}{{"1001", 200}, {"-1", 400}, {"many", 400}} {
		got := b.table(t, request{method: "GET", path: "/" + table + "()", query: "$top=" + c.top})
		check(t, "$top="+c.top, got, either(t, b, 400, c.azurite, "Azurite accepts more than 1000"),
			either(t, b, "InvalidInput", "", "Azurite sends no code"))
	}
	check(t, "insert", b.insert(t, table, "p", "r", ""), 204, "")
	const endless = "Azurite sends a token, which leads to the same page"
	none := b.query(t, table, "$top=0", "")
	same(t, "rows", len(none.rows), 0)
	same(t, "more rows", none.next != "", either(t, b, false, true, endless))
	tables := b.table(t, request{method: "GET", path: "/Tables", query: "$top=0"})
	same(t, "tables", len(fieldsOf(t, tables, "TableName")) > 0, either(t, b, false, true, "Azurite lists all tables"))
	same(t, "more tables", tables.header.Get("x-ms-continuation-NextTableName") != "", false)
}

func unsupportedOptions(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "insert", b.insert(t, table, "p", "r", ""), 204, "")
	const lax = "Azurite ignores these"
	for _, path := range []string{"/" + table + "()", entityPath(table, "p", "r"), "/Tables"} {
		for _, option := range []string{"$orderby=RowKey", "$skip=1", "$inlinecount=allpages"} {
			got := b.table(t, request{method: "GET", path: path, query: option})
			check(t, path+option, got, either(t, b, 501, 200, lax), either(t, b, "NotImplemented", "", lax))
		}
		check(t, path, b.table(t, request{method: "GET", path: path, query: "timeout=30&$format=" + urlQuery("application/json;odata=nometadata")}), 200, "")
	}
}

func filters(t *testing.T, b backend) {
	table := b.newTable(t)
	rows := []struct{ partition, row, members string }{
		{"a", "1", `"S":"x","I":1,"D":1.5,"T":true,"L":"10","L@odata.type":"Edm.Int64"`},
		{"a", "2", `"S":"it's","I":2,"D":-2.5,"T":false,"L":"9007199254740993","L@odata.type":"Edm.Int64"`},
		{"b", "1", `"S":"ü","W":"2026-02-03T04:05:06.1234567Z","W@odata.type":"Edm.DateTime"`},
		{"b", "2", `"G":"0f8fad5b-d9cb-469f-a165-70867728950e","G@odata.type":"Edm.Guid","B":"AAH/","B@odata.type":"Edm.Binary"`},
		{"c", "3", `"N":"NaN","N@odata.type":"Edm.Double"`},
	}
	for _, r := range rows {
		check(t, "insert", b.insert(t, table, r.partition, r.row, r.members), 204, "")
	}
	const ticks = "Azurite compares times to the millisecond"
	for _, c := range []struct {
		filter, want string // want lists the keys, without slashes
	}{
		{"PartitionKey eq 'a'", "a1 a2"},
		{"'a' eq PartitionKey", "a1 a2"},
		{"PartitionKey gt 'a'", "b1 b2 c3"},
		{"PartitionKey ge 'b' and PartitionKey le 'b'", "b1 b2"},
		{"PartitionKey lt 'b'", "a1 a2"},
		{"PartitionKey ne 'b'", "a1 a2 c3"},
		{"PartitionKey eq 'a' and RowKey gt '1'", "a2"},
		{"PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '2'", "a1"},
		{"RowKey eq '1'", "a1 b1"},
		{"PartitionKey eq 'a' or PartitionKey eq 'c'", "a1 a2 c3"},
		{"PartitionKey eq 'c' or RowKey eq '1' and PartitionKey eq 'a'", "a1 c3"},
		{"(PartitionKey eq 'c' or RowKey eq '1') and PartitionKey eq 'a'", "a1"},
		{"not (PartitionKey eq 'a')", "b1 b2 c3"},
		{"not (I eq 1) and PartitionKey eq 'a'", "a2"},
		{"S eq 'it''s'", "a2"},
		{"S gt 'x'", "b1"},
		{"S ge ''", "a1 a2 b1"},
		{"I eq 1", "a1"}, {"I ne 1", "a2"}, {"I gt 1", "a2"}, {"I ge 1", "a1 a2"}, {"I lt 2", "a1"}, {"I le 2", "a1 a2"},
		{"I gt -5", "a1 a2"},
		{"D eq 1.5", "a1"}, {"D lt 0.0", "a2"}, {"D gt -2.5", "a1"}, {"D le 1.5e0", either(t, b, "a1 a2", "", "Azurite does not parse exponents")},
		{"T eq true", "a1"}, {"T eq false", "a2"}, {"T ne true", "a2"},
		{"T eq True", "a1"}, {"T eq FALSE", "a2"},
		{"L eq 10L", "a1"}, {"L gt 10L", "a2"}, {"L eq 9007199254740993L", "a2"}, {"L lt 9007199254740993L", "a1"},
		{"W eq datetime'2026-02-03T04:05:06.1234567Z'", "b1"},
		{"W gt datetime'2026-02-03T04:05:06Z'", "b1"},
		{"W lt datetime'2026-02-03T04:05:06.1234568Z'", either(t, b, "b1", "", ticks)},
		{"G eq guid'0f8fad5b-d9cb-469f-a165-70867728950e'", "b2"},
		{"B eq X'0001FF'", "b2"}, {"B eq binary'0001ff'", "b2"},
		{"Timestamp gt datetime'2020-01-01T00:00:00Z'", "a1 a2 b1 b2 c3"},
		{"Missing eq 'x'", ""},
		{"true", "a1 a2 b1 b2 c3"}, {"false", ""}, {"true and I eq 1", "a1"}, {"false or I eq 1", "a1"},
	} {
		var got []string
		for _, k := range b.all(t, table, "$filter="+urlQuery(c.filter)) {
			got = append(got, strings.ReplaceAll(k, "/", ""))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("the filter %s: got %v, want %s", c.filter, got, c.want)
		}
	}
}

func wrongFilters(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "insert", b.insert(t, table, "p", "r", `"A":1`), 204, "")
	for filter, azurite := range map[string]int{
		"PartitionKey eq":              400,
		"PartitionKey eq 'a":           200,
		"PartitionKey eq 'a' and":      400,
		"(PartitionKey eq 'a'":         400,
		"PartitionKey eq 'a')":         400,
		"PartitionKey like 'a'":        400,
		"startswith(PartitionKey,'a')": 400,
		"A eq datetime'soon'":          200,
		"A eq guid'x'":                 200,
		"1":                            400,
		"'a'":                          400,
		"1 eq 1":                       400,
	} {
		got := b.table(t, request{method: "GET", path: "/" + table + "()", query: "$filter=" + urlQuery(filter)})
		if want := either(t, b, 400, azurite, "Azurite accepts some errors"); got.status != want {
			t.Errorf("%s: got %v, want %d", filter, got, want)
		}
	}
}

func comparisonLimit(t *testing.T, b backend) {
	table := b.newTable(t)
	filter := func(n int) string {
		return "$filter=" + urlQuery(strings.TrimSuffix(strings.Repeat("RowKey ne 'x' and ", n), " and "))
	}
	send := func(n int) answer {
		return b.table(t, request{method: "GET", path: "/" + table + "()", query: filter(n)})
	}
	check(t, "15", send(15), 200, "")
	check(t, "16", send(16), either(t, b, 400, 200, "Azurite does not have this limit"), either(t, b, "InvalidInput", "", "as above"))
}

func projection(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "insert", b.insert(t, table, "p", "r", `"A":1,"B":"2","B@odata.type":"Edm.Int64","C":3`), 204, "")
	for _, c := range []struct{ columns, want string }{
		{"RowKey", `{"RowKey":"r"}`},
		{"PartitionKey,RowKey", `{"PartitionKey":"p","RowKey":"r"}`},
		{"B, A", `{"A":1,"B":"2","B@odata.type":"Edm.Int64"}`},
		{"", `{"PartitionKey":"p","RowKey":"r","A":1,"B":"2","B@odata.type":"Edm.Int64","C":3}`},
		{"X,A", either(t, b, `{"A":1,"X":null}`, `{"A":1}`, "Azurite leaves out properties that a row lacks")},
	} {
		p := b.query(t, table, "$select="+urlQuery(c.columns), "")
		var got, want map[string]any
		proof.Must(t, json.Unmarshal(p.rows[0], &got))
		delete(got, "odata.etag")
		if c.columns == "" {
			delete(got, "Timestamp")
		}
		_ = json.Unmarshal([]byte(c.want), &want)
		same(t, c.columns, got, want)
	}
	row := b.table(t, request{method: "GET", path: entityPath(table, "p", "r"), query: "$select=A,X", header: map[string]string{"Accept": "application/json;odata=nometadata"}})
	same(t, "a single row", string(row.body), either(t, b, `{"A":1,"X":null}`, `{"A":1}`, "as above"))
	all := b.query(t, table, "$select=*", "")
	same(t, "* selects all", strings.Contains(string(all.rows[0]), `"C":3`), either(t, b, true, false, "Azurite treats * as a name"))
}
