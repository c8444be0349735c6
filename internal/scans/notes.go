package scans

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"tablesweep/internal/split/scan"
)

// The row of each done step contains a note: where the step's pages ended, how many rows each page had, and how many of
// them could not be written. Ranges and hints are made from notes. A step's note is JSON. A folded row replaces several
// rows of done steps (see package ledger). Its note is compressed.

const (
	// MaxNote is the maximum number of bytes in a note. One Binary property stores the note.
	MaxNote = 60 << 10
	// maxEnds is the maximum number of page ends in a folded row's note.
	maxEnds = 512
)

// JoinNotes merges several notes into one.
func JoinNotes(notes [][]byte) []byte {
	var ends []scan.PageEnd
	for _, note := range notes {
		ends = append(ends, ParseNote(note)...)
	}
	if len(ends) == 0 {
		return nil
	}
	for most := maxEnds; ; most /= 2 {
		ends = scan.Thin(ends, most)
		if packed := Pack(JSON(ends)); len(packed) <= MaxNote {
			return packed
		}
	}
}

// ParseNote reads a note of one step or of several. An unreadable note counts as empty.
func ParseNote(note []byte) []scan.PageEnd {
	text := note
	if !bytes.HasPrefix(note, []byte("[")) {
		var err error
		if text, err = Unpack(note); err != nil {
			return nil
		}
	}
	var ends []scan.PageEnd
	if json.Unmarshal(text, &ends) != nil {
		return nil
	}
	return ends
}

// maxText is the maximum number of bytes in an unpacked text.
const maxText = 16 << 20

// Pack returns the stored form of a text.
func Pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		panic("engine: internal error: " + err.Error()) // writing to a buffer never fails
	}
	return b.Bytes()
}

// Unpack returns the text that was packed, or an error if it has more than maxText bytes.
func Unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("more than %d bytes", maxText)
	}
	return text, err
}
