package index

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// PartitionKey is the PartitionKey of index rows.
type PartitionKey string

// Identity distinguishes records, and determines the keys of a record's index rows.
type Identity struct {
	Values     []string       // the normalised values, in the schema's order; "" for an absent key
	Sort       string         // the normalised sort value: inverted ticks for a time, 23 digits for a number
	Partitions []PartitionKey // a partition for each key with a value, in the schema's order, without duplicates
	Row        string         // the RowKey of all index rows
	Schema     string         // the schema's text
}

// Identity returns the record's identity. The function `get` returns the text of a field or, for a number, its canonical text
// (see [Number]). The function ignores the case of the field's name. If the field is absent or null, `get` returns false. Empty
// text counts as absent. All index keys except the first may be absent. An absent key has no index row, and counts as an empty
// value in the hash.
//
// The RowKey's hash is computed from the normalised values, so all spellings of one identifier have one RowKey. With the normaliser
// Lower, the hash equals the hash that other programs compute for the record. With Exact, F314 and f314 are different identifiers,
// and their records have different RowKeys. So if the records have the same value of another index key, the partition of this value
// contains both records. Different identities may have the same hash: the hash has only 32 bits, and does not distinguish "|" in a
// value from "|" between values. [Identity.Hash] distinguishes them.
//
// Keys cannot contain '/', '\', '#', '?', U+0000–U+001F and U+007F–U+009F. If a value contains one of these characters, the
// PartitionKey starts with "~" instead of a digit, and the RowKey has "!" instead of ":" before its hash. Different values
// have different escaped forms.
//
// Every error is a [problem.Invalid] and names its field. Several errors are joined.
func (s Schema) Identity(get func(field string) (value string, ok bool)) (Identity, error) {
	id := Identity{Values: make([]string, len(s.Keys)), Schema: s.String()}
	var errs []error
	for i, k := range s.Keys {
		raw, ok := get(k.Field)
		switch {
		case ok && raw != "":
			partition, value, err := k.partition(raw)
			errs = append(errs, err)
			id.Values[i] = value
			id.Partitions = append(id.Partitions, partition)
		case i == 0:
			errs = append(errs, problem.Invalidf(k.Field, "is missing or empty; every record needs the first index key"))
		}
	}
	var err error
	if id.Sort, err = s.SortOf(get); err == nil {
		id.Row, err = rowKey(s.Sort.Field, id.Sort, s.hash8(id.Values))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// SortOf returns the record's normalised sort value, for [Window.Contains]. [Schema.Identity] explains the function `get`.
func (s Schema) SortOf(get func(field string) (value string, ok bool)) (string, error) {
	raw, ok := get(s.Sort.Field)
	if !ok || raw == "" {
		return "", problem.Invalidf(s.Sort.Field, "is missing or empty; every record needs the field that sorts the records")
	}
	if err := checkText(s.Sort.Field, raw); err != nil {
		return "", err
	}
	value, err := s.Sort.value(raw)
	if err != nil {
		return "", problem.Invalidf(s.Sort.Field, "%v", err)
	}
	return value, nil
}

func (s Sort) value(raw string) (string, error) {
	switch s.Order {
	case Newest:
		t, err := recordTime(raw)
		return key.Inverted(t), err
	case Ascending:
		return sortNumber(raw)
	case Descending:
		value, err := sortNumber(raw)
		return complement(value), err
	}
	return strings.ToLower(raw), nil
}

// Partition is the partition of an index key's value.
type Partition struct {
	Key   PartitionKey
	Value string // the normalised value
}

// Partitions returns the partition of an index key's value. If the value is a number, Partitions also returns the partition of
// its canonical text (see [Number]), because the query must read both partitions. Partitions ignores the case of the field's
// name. Errors are [problem.Invalid]. For an unknown field, the error lists the index keys.
func (s Schema) Partitions(field, value string) ([]Partition, error) {
	i := s.Rank(field)
	if i < 0 {
		return nil, problem.Invalidf(field, "is not an index key; the index keys are %s", s.Fields())
	}
	if value == "" {
		return nil, problem.Invalidf(field, "is empty; give a value to find")
	}
	spellings := []string{value}
	if n, ok := Number(value); ok && n != value {
		spellings = append(spellings, n)
	}
	var all []Partition
	for _, text := range spellings {
		partition, normalised, err := s.Keys[i].partition(text)
		if err != nil {
			return nil, err
		}
		all = append(all, Partition{partition, normalised})
	}
	return all, nil
}

// IdentityHash is the hash of an identity, 32 hex digits. Different identities have different hashes. The hash also depends on
// the schema.
type IdentityHash string

// FirstHash is the hash of a normalised value of the first index key, 32 hex digits. Different values have different hashes.
type FirstHash string

// HashLength is the number of hex digits in an [IdentityHash] and a [FirstHash].
const HashLength = 32

// Hash returns the hash of the identity.
func (id Identity) Hash() IdentityHash {
	return IdentityHash(digest(append(slices.Clip(id.Values), id.Sort, id.Schema)...))
}

// First returns the hash of the value of the first index key.
func (id Identity) First() FirstHash { return FirstHashOf(id.Values[0]) }

// FirstHashOf returns the hash of a normalised value of the first index key.
func FirstHashOf(normalised string) FirstHash { return FirstHash(digest(normalised)) }

// Shard returns the number of the hash's shard, 0 to shards-1. For the same number of shards, the result never changes.
func (f FirstHash) Shard(shards int) int {
	h := fnv.New64a()
	h.Write([]byte(f))
	return int(h.Sum64() % uint64(shards))
}

func (k Key) partition(raw string) (partition PartitionKey, value string, err error) {
	if err := checkText(k.Field, raw); err != nil {
		return "", "", err
	}
	if value, err = k.normalise(raw); err != nil {
		return "", "", err
	}
	partition, err = partitionKey(k.Field, value)
	return partition, value, err
}

func (k Key) normalise(raw string) (string, error) {
	switch k.normaliser() {
	case Exact:
		return raw, nil
	case Digits:
		return k.digits(raw)
	}
	return strings.ToLower(raw), nil
}

// hash8 returns the 8 hex digits at the end of a RowKey. It joins the values in the alphabetical order of their fields, so the
// order of the schema's keys does not matter. This computation must not change: stored rows contain its results, and other
// programs use it too. MD5 is not used for security here.
func (s Schema) hash8(values []string) string {
	type named struct{ name, value string }
	all := make([]named, len(values))
	for i, v := range values {
		all[i] = named{strings.ToLower(s.Keys[i].Field), v}
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
	joined := make([]string, len(all))
	for i, n := range all {
		joined[i] = n.value
	}
	sum := md5.Sum([]byte(strings.Join(joined, "|")))
	return hex.EncodeToString(sum[:4])
}

// digest returns the first half of a SHA-256 of the texts, each preceded by its length.
func digest(texts ...string) string {
	var b []byte
	for _, t := range texts {
		b = strconv.AppendInt(b, int64(len(t)), 10)
		b = append(b, ':')
		b = append(b, t...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:HashLength]
}
