package place

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compress is a compression of pages.
type Compress string

// The compressions.
const (
	Zstd Compress = "zstd"
	Gzip Compress = "gzip"
	None Compress = "none"
)

// Compressions lists all compressions.
var Compressions = []Compress{Zstd, Gzip, None}

// exts are the endings that compression adds to the names of files.
var exts = map[Compress]string{Zstd: ".zst", Gzip: ".gz", None: ""}

// Codec encodes and decodes pages. It is safe for concurrent use.
type Codec struct {
	compress Compress
	encoder  *zstd.Encoder
	decoder  *zstd.Decoder
}

// NewCodec returns a codec.
func NewCodec(c Compress) (*Codec, error) {
	codec := &Codec{compress: c}
	if c != Zstd {
		return codec, nil
	}
	var err error
	if codec.encoder, err = zstd.NewWriter(nil, zstd.WithZeroFrames(true), zstd.WithWindowSize(pageBytes), zstd.WithLowerEncoderMem(true)); err != nil {
		return nil, err
	}
	codec.decoder, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderConcurrency(0))
	return codec, err
}

// Encode returns a page's compressed text, which is a separate zstd frame or gzip member.
func (c *Codec) Encode(text []byte) []byte {
	switch c.compress {
	case Zstd:
		return c.encoder.EncodeAll(text, make([]byte, 0, len(text)/4))
	case Gzip:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(text) // writing to memory cannot fail
		_ = w.Close()
		return b.Bytes()
	}
	return text
}

// size returns the length of a page's text, in bytes. A compressed page records this length.
func (c *Codec) size(page []byte) int64 {
	switch c.compress {
	case Zstd:
		var h zstd.Header
		if h.Decode(page) == nil && h.HasFCS {
			return int64(min(h.FrameContentSize, maxPage))
		}
		return maxPage
	case Gzip:
		if n := len(page); n >= 4 {
			return min(int64(binary.LittleEndian.Uint32(page[n-4:])), maxPage)
		}
	}
	return int64(len(page))
}

// decode returns the text of a page. It fails if the text is longer than 16 MiB.
func (c *Codec) decode(page []byte) (text []byte, err error) {
	switch c.compress {
	case Zstd:
		text, err = c.decoder.DecodeAll(page, nil)
	case Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(page)); err == nil {
			text, err = io.ReadAll(io.LimitReader(r, maxPage+1))
		}
	default:
		return page, nil
	}
	if len(text) > maxPage || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, fmt.Errorf("it decompresses to more than %d MiB", maxPage>>20)
	}
	return text, err
}
