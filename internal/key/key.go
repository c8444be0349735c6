// Package key compares table keys as the Table service does, and computes with their prefixes.
//
// The Table service sorts rows by PartitionKey, then RowKey. It compares both as ordinal UTF-16 code units. Go compares strings
// by their UTF-8 bytes, which is the order of code points. The two orders differ in one way: UTF-16 encodes characters above
// U+FFFF with surrogates (U+D800–U+DFFF), so these characters sort before U+E000–U+FFFF. All code in this project that
// compares keys uses this package.
package key

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key addresses one row. Either part may be empty.
type Key struct {
	Partition string // PartitionKey
	Row       string // RowKey
}

// Clone returns a copy of k that shares no memory with k. So if k was cut from a longer text, the copy does not keep that text in memory.
func (k Key) Clone() Key {
	return Key{Partition: strings.Clone(k.Partition), Row: strings.Clone(k.Row)}
}

// BehindPartition returns the first key after all rows of a partition.
func BehindPartition(partition string) Key { return Key{Partition: partition + "\x00"} }

// Behind returns the first key after k.
func (k Key) Behind() Key { return Key{Partition: k.Partition, Row: k.Row + "\x00"} }

// Compare orders two rows as the service does: by partition, then by row key.
func (k Key) Compare(other Key) int {
	if c := Compare(k.Partition, other.Partition); c != 0 {
		return c
	}
	return Compare(k.Row, other.Row)
}

// Compare orders two keys as the service does, by ordinal UTF-16 code units.
// Both must be valid UTF-8. The result is -1, 0 or +1.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			// a[i] and b[i] are the first bytes that differ. The bytes of UTF-8 sort as UTF-16 does, with one exception: the lead bytes
			// 0xEE and 0xEF (characters from U+E000 to U+FFFF) must sort after 0xF0 and greater bytes (characters above U+FFFF).
			return cmp.Compare(byteRank(a[i]), byteRank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// byteRank returns the byte's rank in UTF-16 order.
func byteRank(b byte) int {
	if b == 0xEE || b == 0xEF {
		return int(b) + 0x100
	}
	return int(b)
}

// Less reports whether a sorts before b.
func Less(a, b string) bool { return Compare(a, b) < 0 }

// Successor returns the smallest key that is greater than every key starting with prefix. If `prefix` is empty or contains only
// U+FFFF characters, no key is greater, and ok is false. The result never contains half a surrogate pair.
func Successor(prefix string) (next string, ok bool) {
	for len(prefix) > 0 {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if r != lastRune {
			return prefix + string(AtRank(Rank(r)+1)), true
		}
	}
	return "", false
}

// Units returns the key's length in UTF-16 code units. The service measures keys in these units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// In the service's order, the 0x100000 characters above U+FFFF come before U+E000.
const (
	surrogates = 0xD800
	supplement = 0x10000
	private    = 0xE000
	lastRune   = 0xFFFF
)

// Rank returns the position of a character in the service's order, beginning with 0. For U+D800 to U+DFFF, which are not
// characters, the result is undefined.
func Rank(char rune) rune {
	switch {
	case char >= supplement:
		return char - supplement + surrogates
	case char >= private:
		return char - private + surrogates + 0x100000
	}
	return char
}

// AtRank returns the character with the given rank.
func AtRank(rank rune) rune {
	switch {
	case rank >= surrogates+0x100000:
		return rank - 0x100000 - surrogates + private
	case rank >= surrogates:
		return rank - surrogates + supplement
	}
	return rank
}

// Ordinary reports whether the program may use the character in keys that it makes itself, such as the bounds of ranges. The
// service refuses control characters in keys, and some software refuses noncharacters.
func Ordinary(char rune) bool {
	return utf8.ValidRune(char) && !unicode.IsControl(char) && char&0xFFFE != 0xFFFE && char != utf8.RuneError
}
