package engine

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxText keeps a text from filling the memory once it is unpacked.
const maxText = 16 << 20

// pack compresses a text.
func pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		panic("engine: internal error: " + err.Error()) // a buffer takes everything
	}
	return b.Bytes()
}

// unpack returns the text that was packed. A text of more than maxText bytes is an error.
func unpack(packed []byte) ([]byte, error) {
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
