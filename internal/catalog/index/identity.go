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
	Values     []string       // normalised values in the schema's order, "" for an absent key
	Sort       string         // the normalised sort value; inverted ticks for a time, 23 digits for a number
	Partitions []PartitionKey // for each present key, the first key's first; no duplicates
	Row        string         // the RowKey of all the rows
	Schema     string         // the schema's text
}

// Identity returns the record's identity. get returns the text of a field (for a number its [Number]) and ignores the case of the
// field's name. ok is false if the field is absent or null. Empty text counts as absent. All index keys but the first may be
// absent. An absent key has no row, and an empty value in the hash.
//
// The RowKey's hash is computed from the normalised values; for Lower, that is the published form. Therefore different
// spellings of one identifier result in one RowKey. With Exact, F314 and f314 are two identifiers. They result in two RowKeys,
// so they do not collide in the partition of a third key. Different identities may still have the same hash, because it has 32
// bits and ignores that a value may contain a "|". [Identity.Hash] distinguishes such records.
//
// Keys cannot contain '/', '\', '#', '?', U+0000–U+001F and U+007F–U+009F. If a value contains one of them, the PartitionKey
// starts with "~" instead of a digit, and the RowKey has "!" instead of ":" before its hash. No two values have the same escaped
// form.
//
// All errors are [problem.Invalid], name the field, and are joined.
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

// SortOf returns the record's normalised sort value, for [Window.Contains]. get is
// as in [Schema.Identity].
func (s Schema) SortOf(get func(field string) (value string, ok bool)) (string, error) {
	raw, ok := get(s.Sort.Field)
	if !ok || raw == "" {
		return "", problem.Invalidf(s.Sort.Field, "is missing or empty; every record needs the field that sorts it")
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

// value returns the sort value of a non-empty text.
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
	Value string // normalised
}

// Partitions returns the partitions that a query by an index key's value reads. One is that of the text. If the text is a
// number in another spelling than in keys, that of its [Number] is the other. It ignores the case of the field's name. Errors
// are [problem.Invalid]. For an unknown field, the error lists the index keys.
func (s Schema) Partitions(field, value string) ([]Partition, error) {
	i := s.Rank(field)
	if i < 0 {
		return nil, problem.Invalidf(field, "is not an index key; there are %s", s.Fields())
	}
	if value == "" {
		return nil, problem.Invalidf(field, "is empty; give the value to find")
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

// IdentityHash is 32 hex digits that are different for different identities, including those of different schemas.
type IdentityHash string

// FirstHash is 32 hex digits that all records with one normalised value of the first index key share, and no others.
type FirstHash string

// HashLength is the number of hex digits in an [IdentityHash] and a [FirstHash].
const HashLength = 32

// Hash returns the identity's hash.
func (id Identity) Hash() IdentityHash {
	return IdentityHash(digest(append(slices.Clip(id.Values), id.Sort, id.Schema)...))
}

// First returns the hash of the first index value.
func (id Identity) First() FirstHash { return FirstHashOf(id.Values[0]) }

// FirstHashOf returns the hash of a normalised value of the first index key.
func FirstHashOf(normalised string) FirstHash { return FirstHash(digest(normalised)) }

// Shard returns the number of the hash's shard, 0 to shards-1. It never changes for the same number of shards.
func (f FirstHash) Shard(shards int) int {
	h := fnv.New64a()
	h.Write([]byte(f))
	return int(h.Sum64() % uint64(shards))
}

// partition returns the PartitionKey of a non-empty value, and the normalised value.
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

// hash8 returns the 8 hex digits at the end of a RowKey. The values are joined in the alphabetical order of their fields, so the
// order of the schema's keys does not matter. The form is published and stored in rows, so it must not change. MD5 is not used
// for security here.
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

// digest returns half a SHA-256 of the texts, each preceded by its length.
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
