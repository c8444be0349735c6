package steal

import (
	"slices"
	"strings"

	"tablesweep/internal/key"
)

// text is a row's whole key as one sequence of ranks in key order: the partition
// key, the boundary, the row key. Texts compare as their keys do, since the
// boundary sorts before every character.
type text []rune

// boundary separates the partition key from the row key.
const boundary rune = 0

func textOf(k key.Key) text {
	t := make(text, 0, len(k.Partition)+1+len(k.Row))
	for _, c := range k.Partition {
		t = append(t, key.Rank(c)+1)
	}
	t = append(t, boundary)
	for _, c := range k.Row {
		t = append(t, key.Rank(c)+1)
	}
	return t
}

// key returns the first key that the text is a prefix of.
func (t text) key() key.Key {
	partition, row := t, text(nil)
	if i := slices.Index(t, boundary); i >= 0 {
		partition, row = t[:i], t[i+1:]
	}
	return key.Key{Partition: partition.chars(), Row: row.chars()}
}

// chars returns the text's characters; it must not hold the boundary.
func (t text) chars() string {
	var b strings.Builder
	for _, c := range t {
		b.WriteRune(key.AtRank(c - 1))
	}
	return b.String()
}

func common(a, b text) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// kind is a kind of character. What follows a character depends on its kind.
type kind uint8

const (
	start kind = iota // no character: a partition key begins
	begin             // the boundary: a row key begins
	mark              // punctuation and spaces
	digit
	lower
	upper
	other
	kinds
)

func kindOf(c rune) kind {
	switch c--; {
	case c < 0:
		return begin
	case '0' <= c && c <= '9':
		return digit
	case 'a' <= c && c <= 'z':
		return lower
	case 'A' <= c && c <= 'Z':
		return upper
	case c < 0x80:
		return mark
	}
	return other
}

// before returns the kind of the character before a position.
func (t text) before(position int) kind {
	if position == 0 {
		return start
	}
	return kindOf(t[position-1])
}
