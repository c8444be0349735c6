package emulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// clientProperties are properties on which other clients rely, in the form in which they send requests.
func clientProperties() []property {
	return []property{
		{"typed values may be sent as text", textValues},
		{"Doubles are returned in their shortest form", shortestDoubles},
		{"other methods may be tunneled through POST", tunneledMerges},
		{"the W of an ETag may be lower-case", smallETags},
		{"every date is accepted as a version", versions},
		{"a body must be JSON with a JSON content type", contentTypes},
		{"a table can be read by its name", tableByName},
		{"a row cannot be named by a single key", rowByName},
		{"a batch may contain a query", batchQuery},
	}
}

// Storage Explorer and azure-storage for JavaScript send values as the text that a user typed.
func textValues(t *testing.T, b backend) {
	table := b.newTable(t)
	const capitals = "Azurite refuses capitals"
	for i, c := range []struct{ edm, sent, want string }{
		{"Int32", `"1"`, "1"}, {"Int32", `"-7"`, "-7"},
		{"Double", `"3.5"`, "3.5"}, {"Double", `"3"`, "3.0"}, {"Double", `"3.50"`, "3.5"}, {"Double", `"1e3"`, "1000.0"},
		{"Boolean", `"true"`, "true"}, {"Boolean", `"false"`, "false"}, {"Boolean", `"True"`, either(t, b, "true", "", capitals)}, {"Boolean", `"FALSE"`, either(t, b, "false", "", capitals)},
		{"Int32", `"1.5"`, ""}, {"Int32", `""`, ""}, {"Int32", `"x"`, ""}, {"Double", `""`, ""}, {"Double", `"x"`, ""}, {"Boolean", `"yes"`, ""}, {"Boolean", `1`, ""}, {"String", `1`, ""},
	} {
		what := c.edm + " " + c.sent
		row := fmt.Sprint(i)
		got := b.insert(t, table, "p", row, `"X":`+c.sent+`,"X@odata.type":"Edm.`+c.edm+`"`)
		if c.want == "" {
			same(t, what, got.status, 400)
			continue
		}
		check(t, what, got, 204, "")
		same(t, what, members(t, b.get(t, table, "p", row))["X"], c.want)
	}
}

func shortestDoubles(t *testing.T, b backend) {
	table := b.newTable(t)
	for i, c := range []struct{ sent, want string }{
		{"3.10", "3.1"}, {"3.0", "3.0"}, {"3", "3.0"}, {"1e3", "1000.0"}, {"1e21", "1e+21"}, {"1e-7", "1e-7"}, {"0.000001", "0.000001"},
		{"0.1", "0.1"}, {"-0.0", "0.0"}, {"123456789012345678.0", "123456789012345680.0"}, {"1.7976931348623157e308", "1.7976931348623157e+308"},
		{`"NaN"`, `"NaN"`}, {`"-Infinity"`, `"-Infinity"`},
	} {
		row := fmt.Sprint(i)
		check(t, c.sent, b.insert(t, table, "p", row, `"X":`+c.sent+`,"X@odata.type":"Edm.Double"`), 204, "")
		same(t, c.sent, members(t, b.get(t, table, "p", row))["X"], c.want)
	}
}

// Microsoft.Azure.Cosmos.Table 1.0.8 and WindowsAzure.Storage 9.3.3 send every Merge and InsertOrMerge in this form.
func tunneledMerges(t *testing.T, b backend) {
	table := b.newTable(t)
	tunnel := func(method, row, ifMatch, members string) answer {
		return b.table(t, request{method: "POST", path: entityPath(table, "p", row), body: entityBody("p", row, members), header: map[string]string{
			"X-HTTP-Method": method, "If-Match": ifMatch, "Prefer": "return-no-content", "Accept-Charset": "UTF-8",
			"MaxDataServiceVersion": "3.0;NetFx", "DataServiceVersion": "3.0;", "x-ms-version": "2017-07-29",
		}})
	}
	check(t, "insert or merge", tunnel("MERGE", "r", "", `"A":1`), 204, "")
	merged := tunnel("MERGE", "r", "*", `"B":2`)
	check(t, "merge", merged, 204, "")
	check(t, "by PATCH", tunnel("PATCH", "r", merged.header.Get("ETag"), `"C":3`), 204, "")
	check(t, "old ETag", tunnel("MERGE", "r", merged.header.Get("ETag"), `"D":4`), 412, "UpdateConditionNotSatisfied")
	check(t, "by PUT", tunnel("PUT", "put", "", `"A":1`), 204, "")
	check(t, "by DELETE", tunnel("DELETE", "put", "*", ""), 204, "")
	direct := b.table(t, request{method: "PUT", path: entityPath(table, "p", "put"), body: "{}", header: map[string]string{"X-HTTP-Method": "DELETE", "If-Match": "*"}})
	check(t, "tunneled through PUT", direct, 404, "ResourceNotFound")
	check(t, "missing", tunnel("MERGE", "none", "*", `"D":4`), 404, "ResourceNotFound")
	signed := *b.account
	signed.lite = false // SharedKey signs POST
	b.account = &signed
	check(t, "SharedKey", tunnel("MERGE", "r", "*", `"E":5`), 204, "")
	same(t, "row", members(t, b.get(t, table, "p", "r")), map[string]string{"A": "1", "B": "2", "C": "3", "E": "5"})

	at := entityPath(table, "p", "r")
	got := b.batch(t, []batchOp{{"POST", at, map[string]string{"X-HTTP-Method": "MERGE", "If-Match": "*"}, `{"F":6}`}})
	if b.azurite { // Azurite does not distinguish an insert from a tunneled merge in a batch
		same(t, "in a batch", got.statuses(), []int{400})
		return
	}
	same(t, "in a batch", got.statuses(), []int{204})
	same(t, "F", members(t, b.get(t, table, "p", "r"))["F"], "6")
}

func smallETags(t *testing.T, b backend) {
	table := b.newTable(t)
	current := b.insert(t, table, "p", "r", "").header.Get("ETag")
	small := "w" + strings.TrimPrefix(current, "W")
	check(t, "current", b.write(t, "MERGE", table, "r", small, `"A":1`), either(t, b, 204, 412, "Azurite compares case-sensitively"),
		either(t, b, "", "UpdateConditionNotSatisfied", "as above"))
	check(t, "old", b.write(t, "PUT", table, "r", `w/"datetime'2020-01-01T00%3A00%3A00Z'"`, `"A":1`), 412, "UpdateConditionNotSatisfied")
	check(t, "none", b.write(t, "PUT", table, "r", `"x"`, `"A":1`), 400, "InvalidInput")
}

func versions(t *testing.T, b backend) {
	queue := b.newQueue(t)
	send := func(version string) map[string]answer {
		header := map[string]string{"x-ms-version": version}
		return map[string]answer{
			"table " + version: b.table(t, request{method: "GET", path: "/Tables", query: "$top=1", header: header}),
			"queue " + version: b.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata", header: header}),
		}
	}
	for _, version := range []string{"", "2009-09-19", "2013-08-15", "2017-07-29", "2019-02-02", "2021-12-02", "2026-04-06"} {
		for what, got := range send(version) {
			check(t, what, got, 200, "")
		}
	}
	signed := *b.account
	signed.lite = false
	create := func(version string) answer {
		return signed.queue(t, request{method: "PUT", path: "/" + queue, header: map[string]string{"x-ms-version": version}})
	}
	check(t, "SharedKey", create("2015-02-21"), 204, "")
	const never = "Azurite does not sign a length of zero"
	check(t, "SharedKey of old versions", create("2014-02-14"), either(t, b, 204, 403, never), either(t, b, "", "AuthenticationFailed", never))
	for _, version := range []string{"latest", "2019-2-2", "2019-13-01", "20190202"} {
		for what, got := range send(version) {
			check(t, what, got, either(t, b, 400, 200, "Azurite was started with --skipApiVersionCheck"), either(t, b, "InvalidHeaderValue", "", "as above"))
		}
	}
}

func contentTypes(t *testing.T, b backend) {
	table := b.newTable(t)
	n := 0
	send := func(contentType string) map[string]answer {
		n++
		row := fmt.Sprint(n)
		header := map[string]string{"Content-Type": contentType, "Prefer": "return-no-content"}
		return map[string]answer{
			"insert " + contentType:  b.table(t, request{method: "POST", path: "/" + table, header: header, body: entityBody("p", row, "")}),
			"replace " + contentType: b.table(t, request{method: "PUT", path: entityPath(table, "p", "put"), header: header, body: "{}"}),
			"create " + contentType:  b.table(t, request{method: "POST", path: "/Tables", header: header, body: `{"TableName":"` + b.newName() + `"}`}),
		}
	}
	for _, contentType := range []string{"application/json", "application/json;odata=nometadata", "Application/JSON; charset=utf-8"} {
		for what, got := range send(contentType) {
			check(t, what, got, 204, "")
		}
	}
	for contentType, code := range map[string]string{
		"": "MediaTypeNotSupported", "text/plain": "MediaTypeNotSupported", "application/xml": "MediaTypeNotSupported", "application/atom+xml": "AtomFormatNotSupported",
	} {
		for what, got := range send(contentType) {
			if b.azurite { // Azurite answers with several errors, and accepts some replacements
				same(t, what, got.status == 400 || got.status == 204, true)
				continue
			}
			check(t, what, got, 415, code)
		}
	}
	if !b.azurite {
		got := b.table(t, request{method: "GET", path: "/" + table + "()", header: map[string]string{"Accept": "application/atom+xml,application/xml"}})
		check(t, "an answer in Atom", got, 415, "AtomFormatNotSupported")
		op := batchOp{"PUT", entityPath(table, "p", "r"), nil, "{}"}
		body := strings.Replace(b.batchBody([]batchOp{op}), "Content-Type: application/json\r\n", "", 1)
		got = b.table(t, request{method: "POST", path: "/$batch", header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_b"}, body: body})
		refused(t, got, 415, "MediaTypeNotSupported", "")
	}
}

// azure-storage for JavaScript creates a table only if this request shows that the table does not exist.
func tableByName(t *testing.T, b backend) {
	name := b.newTable(t)
	at := func(name string) request { return request{method: "GET", path: "/Tables('" + name + "')"} }
	found := b.table(t, at(name))
	check(t, "found", found, 200, "")
	if !b.azurite { // Azurite answers with the table's rows
		var table struct{ TableName string }
		if err := json.Unmarshal(found.body, &table); err != nil {
			t.Fatalf("%v: %v", found, err)
		}
		same(t, "name", table.TableName, name)
	}
	check(t, "missing", b.table(t, at("missing")), 404, either(t, b, "ResourceNotFound", "TableNotFound", "Azurite searches for rows"))
	lists := map[string]request{
		"keys":           {method: "GET", path: entityPath("Tables", "p", "r")},
		"put":            {method: "PUT", path: "/Tables('" + name + "')", body: "{}"},
		"create by name": {method: "POST", path: "/Tables('" + name + "')", body: `{"TableName":"` + name + `"}`},
		"delete all":     {method: "DELETE", path: "/Tables"},
	}
	for what, r := range lists {
		if got := b.table(t, r); got.status < 400 || got.status >= 500 {
			t.Errorf("%s: got %v", what, got)
		}
	}
}

func rowByName(t *testing.T, b backend) {
	name := b.newTable(t)
	check(t, "insert", b.insert(t, name, "p", "r", ""), 204, "")
	const broken = "Azurite fails"
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		send := func(table string) answer {
			body := ""
			if method == "POST" || method == "PUT" {
				body = entityBody("p", "r2", "")
			}
			return b.table(t, request{method: method, path: "/" + table + "('r')", body: body, header: anyETag()})
		}
		check(t, method+" missing table", send("nothing"), either(t, b, 404, 500, broken), either(t, b, "TableNotFound", "", broken))
		check(t, method, send(name), either(t, b, 400, 500, broken), either(t, b, "InvalidInput", "", broken))
	}
	same(t, "rows", b.all(t, name, ""), []string{"p/r"})
}

// The .NET and JavaScript clients send Retrieve in a batch in this form.
func batchQuery(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "insert", b.insert(t, table, "p", "r", `"A":1`), 204, "")
	send := func(line, accept string) answer {
		body := "--batch_b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
			strings.Replace(line, " /", " "+b.tableURL+"/"+b.name+"/", 1) + " HTTP/1.1\r\nAccept: " + accept + "\r\nDataServiceVersion: 3.0;\r\n\r\n\r\n--batch_b--\r\n"
		return b.table(t, request{method: "POST", path: "/$batch", header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_b"}, body: body})
	}
	content := func(a answer) answer { // the answer inside the batch's answer
		if len(a.statuses()) != 1 {
			t.Fatal(a)
		}
		_, rest, _ := strings.Cut(string(a.body), "HTTP/1.1 ")
		_, body, _ := strings.Cut(rest, "\r\n\r\n")
		body, _, _ = strings.Cut(body, "\r\n--")
		return answer{status: a.statuses()[0], body: []byte(body)}
	}
	const json = "application/json;odata=minimalmetadata"
	found := send("GET "+entityPath(table, "p", "r"), json)
	check(t, "found", found, 202, "")
	query := send("GET /"+table+"()?$filter="+urlQuery("A eq 1")+"&$select=RowKey", "application/json;odata=nometadata")
	check(t, "query", query, 202, "")
	if b.azurite { // Azurite's answer has no empty line before the row, and is a change set
		same(t, "has the row", strings.Contains(string(found.body), `"A":1`), true)
		return
	}
	same(t, "row", members(t, content(found)), map[string]string{"A": "1"})
	same(t, "change sets", strings.Count(string(found.body), "changeset"), 0)
	same(t, "rows", string(content(query).body), `{"value":[{"RowKey":"r"}]}`)
	refused(t, send("GET "+entityPath(table, "p", "none"), json), 404, "ResourceNotFound", "")
	refused(t, send("GET /nothing()", json), 404, "TableNotFound", "")
	refused(t, send("GET /"+table+"()?$orderby=A", json), 501, "NotImplemented", "")
	refused(t, send("GET /$batch", json), 405, "UnsupportedHttpVerb", "")
	check(t, "a write without a change set", send("DELETE "+entityPath(table, "p", "r"), json), 400, "InvalidInput")
	same(t, "rows", b.all(t, table, ""), []string{"p/r"})
}
