package emulator_test

import (
	"fmt"
	"strings"
	"testing"
)

func batchProperties() []property {
	return []property{
		{"a batch may contain every kind of write", batchWrites},
		{"a batch's answers name their entities", batchNames},
		{"a batch is carried out completely or not at all", batchAtomic},
		{"a batch's entities must be in one partition", batchOnePartition},
		{"a batch may contain an entity once", batchDuplicate},
		{"a batch's entities must be in one table", batchOneTable},
		{"a batch has at most 100 operations", batchOperations},
		{"a batch has at most 4 MiB", batchBytes},
		{"quotes in a batch's paths are doubled", batchQuotes},
		{"a batch for a missing table, or without operations, is refused", batchNoTable},
	}
}

func anyETag() map[string]string { return map[string]string{"If-Match": "*"} }

func batchWrites(t *testing.T, b backend) {
	table := b.newTable(t)
	for _, row := range []string{"merged", "replaced", "deleted"} {
		check(t, "insert", b.insert(t, table, "p", row, `"A":1`), 204, "")
	}
	at := func(row string) string { return entityPath(table, "p", row) }
	got := b.batch(t, []batchOp{
		{"POST", "/" + table, map[string]string{"Prefer": "return-no-content"}, entityBody("p", "added", `"A":0`)},
		{"PATCH", at("merged"), anyETag(), `{"B":2}`},
		{"PUT", at("replaced"), anyETag(), `{"B":2}`},
		{"DELETE", at("deleted"), anyETag(), ""},
		{"PUT", at("upserted"), nil, `{"C":3}`},
		{"MERGE", at("upmerged"), nil, `{"D":4}`},
	})
	check(t, "batch", got, 202, "")
	same(t, "statuses", got.statuses(), []int{204, 204, 204, 204, 204, 204})
	if n := strings.Count(strings.ToLower(string(got.body)), "\r\netag: w/\"datetime'"); n != 5 {
		t.Errorf("got %d ETags in %s", n, got.body)
	}
	same(t, "rows", b.all(t, table, ""), []string{"p/added", "p/merged", "p/replaced", "p/upmerged", "p/upserted"})
	same(t, "merged", members(t, b.get(t, table, "p", "merged")), map[string]string{"A": "1", "B": "2"})
	same(t, "replaced", members(t, b.get(t, table, "p", "replaced")), map[string]string{"B": "2"})
}

// Microsoft's JavaScript SDK reads the RowKeys of its answers from these headers.
func batchNames(t *testing.T, b backend) {
	table := b.newTable(t)
	check(t, "insert", b.insert(t, table, "p", "there", ""), 204, "")
	add := func(row string) batchOp {
		return batchOp{"POST", "/" + table, map[string]string{"Prefer": "return-no-content", "Content-ID": "7" + row}, entityBody("p", row, "")}
	}
	got := b.batch(t, []batchOp{add("1"), add("2"), {"PUT", entityPath(table, "p", "there"), anyETag(), `{"A":2}`}})
	same(t, "statuses", got.statuses(), []int{204, 204, 204})
	has := func(a answer, line string) bool { return strings.Contains(string(a.body), "\r\n"+line+"\r\n") }
	echoes := either(t, b, true, false, "Azurite drops Content-IDs")
	for _, row := range []string{"1", "2"} {
		url := b.entityURL(table, "p", row)
		same(t, "Location", has(got, "Location: "+url), true)
		same(t, "DataServiceId", has(got, "DataServiceId: "+url), true)
		same(t, "Content-ID", has(got, "Content-ID: 7"+row), echoes)
	}
	clash := b.batch(t, []batchOp{add("3"), add("1")})
	refused(t, clash, 409, "EntityAlreadyExists", "1")
	same(t, "Content-ID of the refused operation", has(clash, "Content-ID: 71"), echoes)
}

// refused checks that a batch failed as a whole because of one operation.
func refused(t testing.TB, got answer, status int, code, index string) {
	t.Helper()
	if got.status != 202 {
		t.Errorf("got %v, want 202 with an error inside", got)
		return
	}
	gotCode, gotIndex := got.innerCode()
	if s := got.statuses(); len(s) != 1 || s[0] != status || gotCode != code || gotIndex != index {
		t.Errorf("got %v, %q, index %q, want %d %q, index %q\n%s", s, gotCode, gotIndex, status, code, index, got.body)
	}
}

func batchAtomic(t *testing.T, b backend) {
	table := b.newTable(t)
	stale := b.insert(t, table, "p", "there", `"A":1`).header.Get("ETag")
	check(t, "change", b.write(t, "PUT", table, "there", "*", `"A":2`), 204, "")
	add := batchOp{"POST", "/" + table, nil, entityBody("p", "new", "")}
	for _, c := range []struct {
		name   string
		op     batchOp
		status int
		code   string
	}{
		{"exists", batchOp{"POST", "/" + table, nil, entityBody("p", "there", "")}, 409, "EntityAlreadyExists"},
		{"missing", batchOp{"MERGE", entityPath(table, "p", "none"), anyETag(), `{"A":1}`}, 404, "ResourceNotFound"},
		{"stale", batchOp{"PUT", entityPath(table, "p", "there"), map[string]string{"If-Match": stale}, `{"A":1}`}, 412, "UpdateConditionNotSatisfied"},
		{"delete missing", batchOp{"DELETE", entityPath(table, "p", "none"), anyETag(), ""}, 404, "ResourceNotFound"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, b.batch(t, []batchOp{add, c.op}), c.status, c.code, "1")
		})
	}
	same(t, "rows", b.all(t, table, ""), []string{"p/there"})
}

func batchOnePartition(t *testing.T, b backend) {
	table := b.newTable(t)
	got := b.batch(t, []batchOp{
		{"POST", "/" + table, nil, entityBody("p", "1", "")},
		{"POST", "/" + table, nil, entityBody("q", "2", "")},
	})
	rows := either(t, b, []string{}, []string{"p/1", "q/2"}, "Azurite accepts batches across partitions")
	if !b.azurite {
		refused(t, got, 400, "CommandsInBatchActOnDifferentPartitions", "1")
	}
	same(t, "rows", b.all(t, table, ""), rows)
}

func batchDuplicate(t *testing.T, b backend) {
	table := b.newTable(t)
	got := b.batch(t, []batchOp{
		{"POST", "/" + table, nil, entityBody("p", "1", "")},
		{"POST", "/" + table, nil, entityBody("p", "2", "")},
		{"PUT", entityPath(table, "p", "1"), nil, `{"A":1}`},
	})
	refused(t, got, 400, "InvalidDuplicateRow", "2")
	same(t, "rows", b.all(t, table, ""), []string{})
}

func batchOneTable(t *testing.T, b backend) {
	one, two := b.newTable(t), b.newTable(t)
	got := b.batch(t, []batchOp{
		{"POST", "/" + one, nil, entityBody("p", "1", "")},
		{"POST", "/" + two, nil, entityBody("p", "2", "")},
	})
	if !b.azurite {
		refused(t, got, 400, "InvalidInput", "1")
	}
	rows := either(t, b, []string{}, []string{"p/1"}, "Azurite does not check the second operation's table")
	same(t, "rows", b.all(t, one, ""), rows)
}

func batchOperations(t *testing.T, b backend) {
	table := b.newTable(t)
	ops := func(n int) []batchOp {
		var ops []batchOp
		for i := range n {
			ops = append(ops, batchOp{"PUT", entityPath(table, "p", fmt.Sprint(i)), nil, `{"A":1}`})
		}
		return ops
	}
	got := b.batch(t, ops(101))
	same(t, "status of 101 operations", got.status, either(t, b, 400, 202, "Azurite's answer is malformed, and has the error in a part"))
	same(t, "rows", len(b.all(t, table, "")), 0)
	check(t, "100 operations", b.batch(t, ops(100)), 202, "")
	same(t, "rows", len(b.all(t, table, "")), 100)
}

func batchBytes(t *testing.T, b backend) {
	table := b.newTable(t)
	value := strings.Repeat("x", 30_000)
	ops := func(n int) []batchOp {
		var ops []batchOp
		for i := range n {
			// 140 properties of 30,000 characters are more than 4 MiB in UTF-8
			ops = append(ops, batchOp{"PUT", entityPath(table, "p", fmt.Sprint(i)), nil, `{"A":"` + value + `","B":"` + value + `"}`})
		}
		return ops
	}
	check(t, "below", b.batch(t, ops(60)), 202, "")
	check(t, "above", b.batch(t, ops(70)), 413, "RequestBodyTooLarge")
	same(t, "rows", len(b.all(t, table, "")), 60)
}

func batchQuotes(t *testing.T, b backend) {
	table := b.newTable(t)
	doubled := batchOp{"PUT", entityPath(table, "it's", "1"), nil, `{"A":1}`}
	check(t, "doubled", b.batch(t, []batchOp{doubled}), 202, "")
	check(t, "get", b.get(t, table, "it's", "1"), 200, "")
	single := batchOp{"PUT", "/" + table + "(PartitionKey='it%27s',RowKey='2')", nil, `{"A":1}`}
	got := b.batch(t, []batchOp{single})
	if !b.azurite {
		refused(t, got, 400, "InvalidInput", "")
	}
	rows := either(t, b, []string{"it's/1"}, []string{"it's/1", "it's/2"}, "Azurite accepts single quotes within quotes")
	same(t, "rows", b.all(t, table, ""), rows)
}

func batchNoTable(t *testing.T, b backend) {
	refused(t, b.batch(t, []batchOp{{"POST", "/nothing", nil, entityBody("p", "1", "")}}), 404, "TableNotFound", either(t, b, "", "0", "Azurite numbers a single operation"))
	if !b.azurite {
		check(t, "no operations", b.batch(t, nil), 202, "")
	}
}
