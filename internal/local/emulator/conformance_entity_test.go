package emulator_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func urlQuery(s string) string { return url.QueryEscape(s) }

// fieldsOf returns one field of every row in a query's answer.
func fieldsOf(t testing.TB, a answer, name string) []string {
	t.Helper()
	var body struct{ Value []map[string]any }
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != 200 {
		t.Fatalf("%v: %v", a, err)
	}
	var fields []string
	for _, row := range body.Value {
		fields = append(fields, fmt.Sprint(row[name]))
	}
	return fields
}

// members returns the custom members of an entity's JSON. The values are texts as sent.
func members(t testing.TB, a answer) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &raw); err != nil || a.status != 200 {
		t.Fatalf("%v: %v", a, err)
	}
	m := make(map[string]string)
	for name, value := range raw {
		if !strings.HasPrefix(name, "odata.") && !slices.Contains([]string{"PartitionKey", "RowKey", "Timestamp"}, name) {
			m[name] = string(value)
		}
	}
	return m
}

func entityProperties() []property {
	return []property{
		{"values that do not fit their type are refused", badValues},
		{"an insert's answer has the requested form", insertAnswers},
		{"a deletion requires If-Match, which must match", deleteConditions},
		{"every legal key is accepted", legalKeys},
		{"illegal keys are refused", illegalKeys},
		{"properties have limits", propertyLimits},
		{"entities have limits", entityLimits},
	}
}

func badValues(t *testing.T, b backend) {
	table := b.newTable(t)
	const lax = "Azurite does not check this"
	for i, c := range []struct {
		members string
		azurite int
	}{
		{`"X":2147483648,"X@odata.type":"Edm.Int32"`, 204},
		{`"X":"9223372036854775808","X@odata.type":"Edm.Int64"`, 204},
		{`"X":"one","X@odata.type":"Edm.Int64"`, 204},
		{`"X":"yesterday","X@odata.type":"Edm.DateTime"`, 204},
		{`"X":"1600-12-31T23:59:59Z","X@odata.type":"Edm.DateTime"`, 204},
		{`"X":"not-a-guid","X@odata.type":"Edm.Guid"`, 204},
		{`"X":"***","X@odata.type":"Edm.Binary"`, 204},
		{`"X":"much","X@odata.type":"Edm.Double"`, 400},
		{`"X":1,"X@odata.type":"Edm.Decimal"`, 400},
		{`"X":{"y":1}`, 400},
		{`"X":[1]`, 400},
		{`"X":1,"X":2`, 204},
		{`"X":`, 400},
	} {
		got := b.insert(t, table, "p", fmt.Sprint(i), c.members)
		want := 400
		if c.azurite != want {
			want = either(t, b, 400, c.azurite, lax)
		}
		if got.status != want {
			t.Errorf("inserting %s: got %v, want status %d", c.members, got, want)
		}
	}
}

func insertAnswers(t *testing.T, b backend) {
	table := b.newTable(t)
	quiet := b.insert(t, table, "p", "1", `"A":1`)
	check(t, "return-no-content", quiet, 204, "")
	full := b.table(t, request{method: "POST", path: "/" + table, body: entityBody("p", "2", `"A":1`)})
	check(t, "default", full, 201, "")
	if !strings.Contains(string(full.body), `"A":1`) {
		t.Errorf("the answer is %s", full.body)
	}
	same(t, "Preference-Applied", quiet.header.Get("Preference-Applied"), "return-no-content")
	for row, got := range map[string]answer{"1": quiet, "2": full} {
		if !strings.HasPrefix(got.header.Get("ETag"), `W/"datetime'`) {
			t.Errorf("ETag is %q", got.header.Get("ETag"))
		}
		same(t, "Location", got.header.Get("Location"), either(t, b, b.entityURL(table, "p", row), "", "Azurite sends none"))
	}
	same(t, "DataServiceId", quiet.header.Get("DataServiceId"), either(t, b, b.entityURL(table, "p", "1"), "", "Azurite sends none"))
	update := b.write(t, "PUT", table, "1", "", `"A":2`)
	same(t, "Location of an update", update.header.Get("Location"), "")
}

// entityURL returns the whole URL of one entity.
func (b backend) entityURL(table, partition, row string) string {
	return b.tableURL + "/" + b.name + entityPath(table, partition, row)
}

// write replaces or merges an entity.
func (b backend) write(t testing.TB, method, table, row, ifMatch, members string) answer {
	t.Helper()
	r := request{method: method, path: entityPath(table, "p", row), body: entityBody("p", row, members)}
	if ifMatch != "" {
		r.header = map[string]string{"If-Match": ifMatch}
	}
	if method == "DELETE" {
		r.body = ""
	}
	return b.table(t, r)
}

func deleteConditions(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "missing", b.write(t, "DELETE", table, "none", "*", ""), 404, "ResourceNotFound")
	old := b.insert(t, table, "p", "r", "").header.Get("ETag")
	b.write(t, "MERGE", table, "r", "", `"A":2`)
	check(t, "old ETag", b.write(t, "DELETE", table, "r", old, ""), 412, "UpdateConditionNotSatisfied")
	check(t, "no If-Match", b.write(t, "DELETE", table, "r", "", ""), 400, either(t, b, "MissingRequiredHeader", "", "Azurite sends no code"))
	check(t, "any", b.write(t, "DELETE", table, "r", "*", ""), 204, "")
	check(t, "get", b.get(t, table, "p", "r"), 404, "ResourceNotFound")
}

func legalKeys(t *testing.T, b backend) {
	table := b.newTable(t)
	keys := []string{"", " ", "a b", "it's", "''", "%", "%41", "a+b", "a&b=c", "~:;,()", "ü", "日本", "😀", "\uffff", `"q"`, strings.Repeat("k", 512)}
	for _, k := range keys {
		check(t, fmt.Sprintf("insert %q", k), b.insert(t, table, k, k, `"A":1`), 204, "")
		got := b.get(t, table, k, k)
		check(t, fmt.Sprintf("get %q", k), got, 200, "")
		check(t, fmt.Sprintf("merge %q", k), b.table(t, request{method: "MERGE", path: entityPath(table, k, k), body: `{"B":2}`}), 204, "")
	}
	rows := b.all(t, table, "")
	same(t, "number of rows", len(rows), len(keys))
}

func illegalKeys(t *testing.T, b backend) {
	table := b.newTable(t)
	for _, k := range []string{"a/b", `a\b`, "a#b", "a?b", "a\u0001", "a\u007f", "a\u0085"} {
		got := b.insert(t, table, "p", k, "")
		if got.status != 400 {
			t.Errorf("the key %q: got %v", k, got)
		}
		if !b.azurite {
			same(t, "code", got.code(), "OutOfRangeInput")
		}
	}
	check(t, "long key", b.insert(t, table, "p", strings.Repeat("k", 513), ""), 400, either(t, b, "KeyValueTooLarge", "InvalidInput", "Azurite does not have this code"))
	missing := b.table(t, request{method: "POST", path: "/" + table, body: `{"PartitionKey":"p"}`})
	check(t, "no RowKey", missing, 400, "PropertiesNeedValue")
}

func propertyLimits(t *testing.T, b backend) {
	table := b.newTable(t)
	const lax = "Azurite does not check this"
	for _, c := range []struct {
		name, members string
		status        int
		code          string
		azurite       int
	}{
		{"32 Ki characters", `"S":"` + strings.Repeat("x", 32<<10) + `"`, 204, "", 204},
		{"more characters", `"S":"` + strings.Repeat("x", 32<<10+1) + `"`, 400, "PropertyValueTooLarge", 400},
		{"supplementary characters", `"S":"` + strings.Repeat("😀", 16<<10+1) + `"`, 400, "PropertyValueTooLarge", 400},
		{"64 KiB of bytes", `"B@odata.type":"Edm.Binary","B":"` + strings.Repeat("AAAA", 64<<10/3) + `AA=="`, 204, "", 204},
		{"more bytes", `"B@odata.type":"Edm.Binary","B":"` + strings.Repeat("AAAA", 64<<10/3+1) + `"`, 400, "PropertyValueTooLarge", 400},
		{"a name with a dash", `"a-b":1`, 400, "PropertyNameInvalid", 204},
		{"the same name twice", `"A":1,"\u0041":2`, 400, "DuplicatePropertiesSpecified", 204},
		{"a name that starts with a digit", `"1a":1`, 400, "PropertyNameInvalid", 204},
		{"a name with letters of any language", `"größe_1":1`, 204, "", 204},
		{"long name", `"` + strings.Repeat("n", 256) + `":1`, 400, "PropertyNameTooLong", 204},
	} {
		got := b.insert(t, table, "p", c.name, c.members)
		if c.status != c.azurite {
			check(t, c.name, got, either(t, b, c.status, c.azurite, lax), either(t, b, c.code, "", lax))
		} else {
			check(t, c.name, got, c.status, c.code)
		}
	}
}

func entityLimits(t *testing.T, b backend) {
	table := b.newTable(t)
	many := func(n int, value string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"P%d":%s`, i, value)
		}
		return strings.Join(parts, ",")
	}
	check(t, "252 properties", b.insert(t, table, "p", "252", many(252, "1")), 204, "")
	check(t, "253 properties", b.insert(t, table, "p", "253", many(253, "1")),
		either(t, b, 400, 204, "Azurite does not check this"), either(t, b, "TooManyProperties", "", "as above"))
	check(t, "merge to 253", b.write(t, "MERGE", table, "252", "*", `"Another":1`),
		either(t, b, 400, 204, "Azurite does not check this"), either(t, b, "TooManyProperties", "", "as above"))
	big := `"` + strings.Repeat("x", 32<<10) + `"`
	check(t, "nearly 1 MiB", b.insert(t, table, "p", "big", many(15, big)), 204, "")
	check(t, "1 MiB and more", b.insert(t, table, "p", "huge", many(16, big)),
		either(t, b, 400, 204, "Azurite checks this only in updates"), either(t, b, "EntityTooLarge", "", "as above"))
}
