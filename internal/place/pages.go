package place

import (
	"fmt"
	"io"
	"runtime"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Pages cuts rows in table order into pages, encodes them by all cores, and hands them on in order.
type Pages struct {
	codec     *Codec
	timestamp bool // of rows that have one
	fileBytes int  // of JSON, at which a file ends; 0 for never
	take      func(p *page, last bool) error

	page   page
	last   *key.Key       // of the rows so far, nil if there is none
	json   int            // of the file, before the page
	coming []encodingPage // are being encoded, in order
	err    error          // of a page that could not be handed on: none behind it is
}

// encodingPage is a page that is being encoded.
type encodingPage struct {
	page  *page
	last  bool // of its file
	json  int  // bytes, before it is encoded
	group *task.Group
}

// NewStream writes pages to w, one behind the other.
func NewStream(w io.Writer, c *Codec, timestamp bool) *Pages {
	return &Pages{codec: c, timestamp: timestamp, take: func(p *page, _ bool) error {
		_, err := w.Write(p.text)
		return err
	}}
}

// Add adds rows. It does not keep them. It fails at a row that does not stand behind the one before it in table order: such a file
// could not be read.
func (p *Pages) Add(rows []storage.Row) error {
	last := p.last
	for i, row := range rows {
		if last != nil && last.Compare(row.Key) >= 0 {
			return fmt.Errorf("PartitionKey %q RowKey %q came behind PartitionKey %q RowKey %q, but is not greater", row.Key.Partition, row.Key.Row, last.Partition, last.Row)
		}
		last = &rows[i].Key
		if !p.page.add(row, p.timestamp) {
			if err := p.flush(false); err != nil {
				return err
			}
			p.page.add(row, p.timestamp)
		}
		if p.fileBytes > 0 && p.json+len(p.page.text) >= p.fileBytes {
			if err := p.flush(true); err != nil {
				return err
			}
		}
	}
	if last != nil {
		k := *last
		p.last = &k
	}
	return nil
}

// flush encodes the page, the last one of a file or not.
func (p *Pages) flush(last bool) error {
	if p.page.rows == 0 {
		return nil
	}
	p.page.tally()
	full, size := p.page, len(p.page.text)
	p.page = page{text: make([]byte, 0, size+size/8)}
	if p.json += size; last {
		p.json = 0
	}
	next := encodingPage{&full, last, size, &task.Group{}}
	next.group.Go(func() error {
		full.text = p.codec.Encode(full.text)
		return nil
	})
	p.coming = append(p.coming, next)
	return p.writeEncoded(runtime.GOMAXPROCS(0))
}

// writeEncoded writes pages, until no more than most are being encoded.
func (p *Pages) writeEncoded(most int) error {
	for p.err == nil && len(p.coming) > most {
		first := p.coming[0]
		p.coming = slices.Delete(p.coming, 0, 1)
		if p.err = first.group.Wait(); p.err == nil {
			p.err = p.take(first.page, first.last)
		}
	}
	return p.err
}

// End encodes what is left, and returns when all of it was handed on. With an error that ended the rows, it only hands on
// what is under way.
func (p *Pages) End(err error) error {
	if err == nil {
		err = p.flush(true)
	}
	if handErr := p.writeEncoded(0); err == nil {
		err = handErr
	}
	return err
}
