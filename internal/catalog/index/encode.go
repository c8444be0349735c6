package index

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// maxUnits is the maximum number of UTF-16 units in a key. The service's documentation states two limits. maxUnits is
// the smaller one, because other clients rely on it.
const maxUnits = 512

// legal reports whether a key may contain the character, according to the service's documentation of its data model.
func legal(r rune) bool {
	switch r {
	case '/', '\\', '#', '?':
		return false
	}
	return r >= ' ' && (r < 0x7F || r > 0x9F)
}

func illegal(r rune) bool { return !legal(r) }

// partitionKey returns the PartitionKey of a normalised value. If the value contains illegal characters, the key starts with a
// tilde, and each illegal character and each tilde becomes a tilde and two hex digits. Other keys start with a digit.
func partitionKey(field, value string) (PartitionKey, error) {
	field = strings.ToLower(field)
	k := partitionStart(field) + value
	if strings.ContainsFunc(k, illegal) {
		k = escapedKey(k)
	}
	return PartitionKey(k), checkLength(field, "PartitionKey", k)
}

// partitionStart returns the prefix of all unescaped PartitionKeys of a field. The field must be in lower case.
func partitionStart(field string) string {
	return strconv.Itoa(utf8.RuneCountInString(field)) + "_" + field
}

func escapedKey(k string) string {
	var b strings.Builder
	b.WriteByte('~')
	for _, r := range k {
		if legal(r) && r != '~' {
			b.WriteRune(r)
		} else {
			b.WriteString("~" + lowByte(r))
		}
	}
	return b.String()
}

// FirstPrefixes returns, in ascending order, the prefixes of the first index key's PartitionKeys. PartitionKeys of other index
// keys do not start with these prefixes.
func (s Schema) FirstPrefixes() []string {
	start := partitionStart(strings.ToLower(s.Keys[0].Field))
	if strings.ContainsFunc(start, illegal) {
		return []string{escapedKey(start)}
	}
	return []string{start, escapedKey(start)}
}

func rowKey(field, sort, hash8 string) (string, error) {
	k := rowStem(sort) + hash8
	return k, checkLength(field, "RowKey", k)
}

// rowStem returns the RowKey of a sort value without the 8 characters of the hash. All RowKeys of the sort value start with
// this stem. The stem's last character shows whether the value is escaped.
func rowStem(sort string) string {
	if strings.ContainsFunc(sort, illegal) {
		return ordered(sort) + "!"
	}
	return sort + ":"
}

// mark is the second part of an escaped character; see [ordered].
const mark = '\uFFFD'

// ordered escapes a sort value, so that the results sort like the values. A legal character that sorts before the mark is kept
// as it is. Every other character becomes three parts: the greatest unescaped character that sorts before it, then the mark, then
// two hex digits. The mark sorts after every other character that can follow the first part. Only U+0000 to U+001F change their
// order: they sort directly after the space instead of before it, because their first part is the space. If a value a is
// a prefix of a value b, ordered(a) is a prefix of ordered(b).
func ordered(sort string) string {
	i := strings.IndexFunc(sort, isEscaped)
	if i < 0 {
		return sort
	}
	var b strings.Builder
	b.WriteString(sort[:i])
	for _, r := range sort[i:] {
		if !isEscaped(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteRune(below(r))
		b.WriteRune(mark)
		b.WriteString(lowByte(r))
	}
	return b.String()
}

func isEscaped(r rune) bool { return !legal(r) || r >= mark && r <= 0xFFFF }

// below returns the greatest unescaped character before r.
func below(r rune) rune {
	switch {
	case r < ' ':
		return ' '
	case r >= mark:
		return mark - 1
	case r >= 0x7F && r <= 0x9F:
		return 0x7E
	}
	return r - 1
}

// ceil returns the smallest key that has only legal characters and is not less than k. It compares keys in the order of
// [ordered].
func ceil(k string) string {
	i := strings.IndexFunc(k, illegal)
	if i < 0 {
		return k
	}
	r, _ := utf8.DecodeRuneInString(k[i:])
	for r = max(r, ' ') + 1; illegal(r); r++ {
	}
	return k[:i] + string(r)
}

// lowByte returns a character's low byte as two hex digits. If [below] returns the same result for two escaped
// characters, their low bytes differ.
func lowByte(r rune) string { return hex.EncodeToString([]byte{byte(r)}) }

func checkText(field, value string) error {
	if !utf8.ValidString(value) {
		return problem.Invalidf(field, "is not valid Unicode text: %q", value)
	}
	return nil
}

func checkLength(field, what, k string) error {
	if n := key.Units(k); n > maxUnits {
		return problem.Invalidf(field, "is too long: its %s would have %d UTF-16 units, but at most %d are allowed", what, n, maxUnits)
	}
	return nil
}
