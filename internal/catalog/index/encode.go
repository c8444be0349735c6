package index

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// maxUnits is the length of the longest key, in UTF-16 units: what other clients
// of the service count on. Its own documentation says both that and more.
const maxUnits = 512

// legal reports whether a key may hold the character, by the service's documented
// data model.
func legal(r rune) bool {
	switch r {
	case '/', '\\', '#', '?':
		return false
	}
	return r >= ' ' && (r < 0x7F || r > 0x9F)
}

func illegal(r rune) bool { return !legal(r) }

// partitionKey returns the PartitionKey of a normalised value. Illegal characters
// and the tilde are then written as a tilde and two hex digits, with one more
// tilde in front of it all, where other keys have a digit.
func partitionKey(field, value string) (string, error) {
	field = strings.ToLower(field)
	k := partitionStart(field) + value
	if strings.ContainsFunc(k, illegal) {
		k = escapedKey(k)
	}
	return k, checkLength(field, "PartitionKey", k)
}

// partitionStart returns what all PartitionKeys of a field in lower case start with,
// unless they are escaped.
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

// FirstPrefixes returns what the PartitionKeys of the first index key start with, those
// of no other key and those of all its values, in ascending order.
func (s Schema) FirstPrefixes() []string {
	start := partitionStart(strings.ToLower(s.Keys[0].Field))
	if strings.ContainsFunc(start, illegal) {
		return []string{escapedKey(start)}
	}
	return []string{start, escapedKey(start)}
}

// rowKey returns the RowKey for a normalised sort value.
func rowKey(field, sort, hash8 string) (string, error) {
	k := rowStem(sort) + hash8
	return k, checkLength(field, "RowKey", k)
}

// rowStem returns what all RowKeys of a sort value start with, and no others: all
// but the hash, which has 8 characters. The character before that tells whether
// the value is escaped.
func rowStem(sort string) string {
	if strings.ContainsFunc(sort, illegal) {
		return ordered(sort) + "!"
	}
	return sort + ":"
}

// mark is what tells an escape in [ordered] text from the character before it.
const mark = '\uFFFD'

// ordered writes a sort value in legal characters below mark, and mark, such that
// the results are in the order of the values: each other character becomes the
// greatest unescaped one before it, the mark, which sorts behind all that can
// follow that one otherwise, and two hex digits. Nothing can stand before the
// space; so U+0000 to U+001F, alone of all characters, sort out of their place,
// directly behind it. What sorts first, and whether a value starts with another,
// is the same before and after.
func ordered(sort string) string {
	i := strings.IndexFunc(sort, escaped)
	if i < 0 {
		return sort
	}
	var b strings.Builder
	b.WriteString(sort[:i])
	for _, r := range sort[i:] {
		if !escaped(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteRune(below(r))
		b.WriteRune(mark)
		b.WriteString(lowByte(r))
	}
	return b.String()
}

// escaped reports whether [ordered] escapes the character.
func escaped(r rune) bool { return !legal(r) || r >= mark && r <= 0xFFFF }

// below returns the greatest character before r that is not escaped.
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

// ceil returns the smallest key of legal characters that is not below k, in the
// order of [ordered].
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

// lowByte returns two hex digits for a character. They tell apart all those that
// are escaped after the same one.
func lowByte(r rune) string { return hex.EncodeToString([]byte{byte(r)}) }

// checkText refuses what can't be stored as text.
func checkText(field, value string) error {
	if !utf8.ValidString(value) {
		return problem.Invalidf(field, "is not valid Unicode text: %q", value)
	}
	return nil
}

func checkLength(field, what, k string) error {
	if n := key.Units(k); n > maxUnits {
		return problem.Invalidf(field, "is too long: its %s would have %d UTF-16 units, and %d are possible", what, n, maxUnits)
	}
	return nil
}
