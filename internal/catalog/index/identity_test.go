package index_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
)

// fields is a record. The names of its fields are in lower case.
type fields map[string]string

func (f fields) get(field string) (string, bool) {
	v, ok := f[strings.ToLower(field)]
	return v, ok
}

func parse(t testing.TB, keys, sort string) index.Schema {
	t.Helper()
	s, err := index.Parse(keys, sort)
	proof.Must(t, err)
	return s
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	faux := fields{"eid": "F314", "npi": "1414213562", "ssn": "123-45-6789", "lastname": "Faux", "at": "2000-01-01"}
	for _, tt := range []struct {
		name, keys, sort string
		record           fields
		want             index.Identity
	}{
		{"the published vector", "eid,npi,ssn", "lastname", faux, index.Identity{
			Values:     []string{"f314", "1414213562", "123-45-6789"},
			Sort:       "faux",
			Partitions: []index.PartitionKey{"3_eidf314", "3_npi1414213562", "3_ssn123-45-6789"},
			Row:        "faux:56a9e459",
		}},
		{"settings in another order and case", "SSN,Npi,eid", "LastName", faux, index.Identity{
			Values:     []string{"123-45-6789", "1414213562", "f314"},
			Sort:       "faux",
			Partitions: []index.PartitionKey{"3_ssn123-45-6789", "3_npi1414213562", "3_eidf314"},
			Row:        "faux:56a9e459",
		}},
		{"the hash contains the values in the order of their keys' names", "eid,Z10,NPI,a:b:lower,a b,z2,a,Ä", "lastname",
			fields{"eid": "1", "z10": "2", "npi": "3", "a:b": "4", "a b": "5", "z2": "6", "a": "7", "ä": "8", "lastname": "Faux"}, index.Identity{
				Values:     []string{"1", "2", "3", "4", "5", "6", "7", "8"},
				Sort:       "faux",
				Partitions: []index.PartitionKey{"3_eid1", "3_z102", "3_npi3", "3_a:b4", "3_a b5", "2_z26", "1_a7", "1_ä8"},
				Row:        "faux:556a5082", // md5 of 7|5|4|1|3|2|6|8
			}},
		{"normalisers", "eid:exact,ssn:digits", "lastname", faux, index.Identity{
			Values:     []string{"F314", "123456789"},
			Sort:       "faux",
			Partitions: []index.PartitionKey{"3_eidF314", "3_ssn123456789"},
			Row:        "faux:74dfa3cf", // md5 of F314|123456789
		}},
		{"absent and empty keys", "eid,npi,ssn", "lastname", fields{"eid": "F314", "npi": "", "lastname": "Faux"}, index.Identity{
			Values:     []string{"f314", "", ""},
			Sort:       "faux",
			Partitions: []index.PartitionKey{"3_eidf314"},
			Row:        "faux:084aaf4e", // md5 of f314||
		}},
		{"newest first", "eid", "at:newest", faux, index.Identity{
			Values:     []string{"f314"},
			Sort:       "2524556159999999999",
			Partitions: []index.PartitionKey{"3_eidf314"},
			Row:        "2524556159999999999:ee3eab04",
		}},
		{"characters that are illegal in keys", "eid,npi", "lastname",
			fields{"eid": "a/~b\tc", "npi": "~", "lastname": "N/A ?\u0085\uFFFF"}, index.Identity{
				Values:     []string{"a/~b\tc", "~"},
				Sort:       "n/a ?\u0085\uFFFF",
				Partitions: []index.PartitionKey{"~3_eida~2f~7eb~09c", "3_npi~"},
				Row:        "n.\uFFFD2fa >\uFFFD3f~\uFFFD85\uFFFC\uFFFDff!021109db",
			}},
		{"Unicode", "name", "name", fields{"name": "ÅSA 😀"}, index.Identity{
			Values:     []string{"åsa 😀"},
			Sort:       "åsa 😀",
			Partitions: []index.PartitionKey{"4_nameåsa 😀"},
			Row:        "åsa 😀:1dc9205e",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, tt.keys, tt.sort)
			got, err := s.Identity(tt.record.get)
			proof.Must(t, err)
			tt.want.Schema = s.String()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the identity differs (-want +got):\n%s", diff)
			}
			if sort, err := s.SortOf(tt.record.get); sort != tt.want.Sort || err != nil {
				t.Errorf("SortOf = %q, %v, want %q", sort, err, tt.want.Sort)
			}
		})
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	s := index.Schema{Keys: []index.Key{
		{Field: "Eid"}, {Field: "a"}, {Field: "a:b"}, {"ssn", index.Digits}, {"part", index.Exact}, {Field: "größe"}, {Field: "p/q"},
	}}
	for _, tt := range []struct {
		field, value string
		partition    index.PartitionKey
		normalised   string
	}{
		{"eID", "F314", "3_eidf314", "f314"},
		{"a", "b:c", "1_ab:c", "b:c"},
		{"a:b", "c", "3_a:bc", "c"},
		{"SSN", "123-45-6789", "3_ssn123456789", "123456789"},
		{"part", "F314", "4_partF314", "F314"},
		{"GRÖSSE", "", "", ""}, // not a key, because ß is not ss
		{"GRÖßE", "XL", "5_größexl", "xl"},
		{"p/q", "R", "~3_p~2fqr", "r"},
		{"a", "o'brien", "1_ao'brien", "o'brien"},
	} {
		all, err := s.Partitions(tt.field, tt.value)
		var want []index.Partition
		if tt.partition != "" {
			want = []index.Partition{{Key: tt.partition, Value: tt.normalised}}
		}
		if !slices.Equal(all, want) || (err == nil) == (want == nil) {
			t.Errorf("Partitions(%q, %q) = %q, %v, want %q", tt.field, tt.value, all, err, want)
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	s := parse(t, "eid,ssn:digits", "lastname")
	newest := parse(t, "eid", "lastname:newest")
	with := func(field, value string) fields {
		f := fields{"eid": "F314", "ssn": "1", "lastname": "Faux"}
		f[field] = value
		return f
	}
	for _, tt := range []struct {
		name   string
		schema index.Schema
		record fields
		field  string
		want   string
	}{
		{"first key empty", s, with("eid", ""), "eid", "missing or empty"},
		{"sort empty", s, with("lastname", ""), "lastname", "missing or empty"},
		{"sort absent", s, fields{"eid": "F314"}, "lastname", "missing or empty"},
		{"nothing left", s, with("ssn", "n/a"), "ssn", `"n/a" has no digits`},
		{"other digits", s, with("ssn", "12٣"), "ssn", "non-ASCII digits"},
		{"not text", s, with("eid", "a\xed\xa0\x80"), "eid", "not valid Unicode"},
		{"sort not text", s, with("lastname", "a\xff"), "lastname", "not valid Unicode"},
		{"long value", s, with("eid", strings.Repeat("x", 508)), "eid", "513 UTF-16 units, but at most 512"},
		{"long sort", s, with("lastname", strings.Repeat("😀", 252)), "lastname", "513 UTF-16 units, but at most 512"},
		{"long by its escapes", s, with("eid", strings.Repeat("/", 200)), "eid", "606 UTF-16 units"},
		{"no time", newest, with("lastname", "2026-02"), "lastname", "neither a time"},
		{"no zone", newest, with("lastname", "2026-02-15T10:00:00"), "lastname", "neither a time"},
		{"no day", newest, with("lastname", "2026-02-30"), "lastname", "neither a time"},
		{"before the year 1", newest, with("lastname", "0001-01-01T00:00:00+01:00"), "lastname", "years 1 to 9999"},
		{"after the year 9999", newest, with("lastname", "9999-12-31T23:59:59-01:00"), "lastname", "years 1 to 9999"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, err := tt.schema.Identity(tt.record.get)
			var p *problem.Error
			if !errors.As(err, &p) || p.Kind != problem.Invalid || p.Field != tt.field || !strings.Contains(p.Detail, tt.want) {
				t.Errorf("Identity = %+v, %v, want an error for %s with %q", id, err, tt.field, tt.want)
			}
		})
	}
	_, err := s.Identity(fields{"ssn": "n/a"}.get)
	for _, field := range []string{"eid:", "ssn:", "lastname:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the error %v does not name the field %s", err, field)
		}
	}
	if _, err := s.Partitions("npi", "1"); err == nil || !strings.Contains(err.Error(), "the index keys are eid, ssn") {
		t.Errorf("the error for an unknown field is %v", err)
	}
	if _, err := s.Identity(with("eid", strings.Repeat("x", 507)).get); err != nil {
		t.Errorf("a PartitionKey of 512 units is refused: %v", err)
	}
	if _, err := s.Identity(with("lastname", strings.Repeat("x", 503)).get); err != nil {
		t.Errorf("a RowKey of 512 units is refused: %v", err)
	}
}

func TestHashesDistinguishIdentities(t *testing.T) {
	t.Parallel()
	ids := []index.Identity{
		{Values: []string{"a|b", "c"}, Sort: "x"},
		{Values: []string{"a", "b|c"}, Sort: "x"},
		{Values: []string{"a", "b"}, Sort: "cx"},
		{Values: []string{"a", "bc"}, Sort: "x"},
		{Values: []string{"a1:b", ""}, Sort: "x"},
		{Values: []string{"a", "1:b"}, Sort: "x"},
		{Values: []string{"a", "1:b"}, Sort: "x", Schema: "b:lower,c:digits;d:text"},
	}
	seen := map[index.IdentityHash]bool{}
	for _, id := range ids {
		h := id.Hash()
		if len(h) != 32 || seen[h] {
			t.Errorf("the hash of %v is %s, which is also that of another identity: %v", id, h, seen[h])
		}
		seen[h] = true
		if id.First() != index.FirstHashOf(id.Values[0]) || len(id.First()) != 32 {
			t.Errorf("First of %v is %s, want another hash", id, id.First())
		}
	}
	if ids[1].First() != ids[2].First() || ids[0].First() == ids[1].First() {
		t.Error("First does not depend only on the first value")
	}
}

func TestShardsAreEvenAndStable(t *testing.T) {
	t.Parallel()
	const shards, n = 16, 16_000
	count := make([]int, shards)
	for i := range n {
		count[index.FirstHashOf(fmt.Sprint(i)).Shard(shards)]++
	}
	for i, c := range count {
		if c < n/shards*8/10 || c > n/shards*12/10 {
			t.Errorf("shard %d contains %d of %d hashes", i, c, n)
		}
	}
	// The shard of a value must never change, because rows are stored by shard.
	if got := index.FirstHashOf("f314").Shard(shards); got != 8 {
		t.Errorf("shard of f314 is %d, want 8", got)
	}
}

// checkKey fails the test if the service would refuse the key.
func checkKey(t *testing.T, k string) {
	t.Helper()
	bad := strings.ContainsFunc(k, func(r rune) bool {
		return r < 0x20 || r >= 0x7F && r <= 0x9F || strings.ContainsRune(`/\#?`, r)
	})
	if bad || !utf8.ValidString(k) || key.Units(k) > 512 {
		t.Fatalf("the service would refuse the key %q (%d units)", k, key.Units(k))
	}
}

func FuzzPartitionsDiffer(f *testing.F) {
	f.Add("eid", "F314", "a", "b:c")
	f.Add("a", "b:c", "a:b", "c")
	f.Add("a", "1_b", "a1", "_b")
	f.Add("e", "a/b", "e", "a~2fb")
	f.Add("e", "~", "e", "/")
	f.Add("e", "/~2f", "e", "//")
	f.Add("e/", "~7e", "e/", "~")
	f.Fuzz(func(t *testing.T, field1, value1, field2, value2 string) {
		if !utf8.ValidString(field1 + field2) {
			return
		}
		partition := func(field, value string) (index.PartitionKey, string, bool) {
			s := index.Schema{Keys: []index.Key{{Field: field}}}
			all, err := s.Partitions(field, value)
			if err != nil {
				return "", "", false
			}
			checkKey(t, string(all[0].Key))
			return all[0].Key, strings.ToLower(field) + "\xff" + all[0].Value, true
		}
		p1, is1, ok1 := partition(field1, value1)
		p2, is2, ok2 := partition(field2, value2)
		if ok1 && ok2 && (p1 == p2) != (is1 == is2) {
			t.Fatalf("the values %q and %q have the partitions %q and %q", is1, is2, p1, p2)
		}
	})
}

func FuzzRowKeysDiffer(f *testing.F) {
	f.Add("Faux", "faux")
	f.Add("a/b", "a.\uFFFD2fb")
	f.Add("a/\uFFFD", "a/\uFFFC\uFFFDfd")
	f.Add("a/!", "a/!ee3eab04")
	f.Add("x/\x00", "x/ \uFFFD00")
	f.Add("2026/02", "2026:02")
	f.Fuzz(func(t *testing.T, sort1, sort2 string) {
		s := index.Schema{Keys: []index.Key{{Field: "eid"}}, Sort: index.Sort{Field: "sort"}}
		id1, err1 := s.Identity(fields{"eid": "F314", "sort": sort1}.get)
		id2, err2 := s.Identity(fields{"eid": "F314", "sort": sort2}.get)
		if err1 != nil || err2 != nil {
			return
		}
		checkKey(t, id1.Row)
		checkKey(t, id2.Row)
		if (id1.Row == id2.Row) != (id1.Sort == id2.Sort) {
			t.Fatalf("the sort values %q and %q have the RowKeys %q and %q", id1.Sort, id2.Sort, id1.Row, id2.Row)
		}
	})
}
