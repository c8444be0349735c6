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

// Pages divides rows into pages, in table order. It encodes the pages on all cores, and passes them on in order.
type Pages struct {
	codec     *Codec
	timestamp bool // rows keep their Timestamps
	fileBytes int  // the bytes of JSON after which a file ends; 0 for a single file
	take      func(p *page, last bool) error

	page   page
	last   *key.Key       // the last key so far; nil before the first row
	json   int            // the bytes of JSON in the file before the current page
	coming []encodingPage // pages that are being encoded, in order
	err    error          // why a page could not be passed on; later pages are not passed on either
}

type encodingPage struct {
	page  *page
	last  bool // the page is the last of its file
	json  int  // the number of bytes of the page's JSON before compression
	group *task.Group
}

// NewStream returns a Pages that writes its pages to w.
func NewStream(w io.Writer, c *Codec, timestamp bool) *Pages {
	return &Pages{codec: c, timestamp: timestamp, take: func(p *page, _ bool) error {
		_, err := w.Write(p.text)
		return err
	}}
}

// Add adds rows, and does not keep them after the call. It fails at a row that does not follow the previous row in
// table order. An export with such a row could not be read.
func (p *Pages) Add(rows []storage.Row) error {
	last := p.last
	for i, row := range rows {
		if last != nil && last.Compare(row.Key) >= 0 {
			return fmt.Errorf("PartitionKey %q RowKey %q came after PartitionKey %q RowKey %q, but must be greater", row.Key.Partition, row.Key.Row, last.Partition, last.Row)
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

// flush encodes the page. If last is set, this page is the last of its file.
func (p *Pages) flush(last bool) error {
	if p.page.rows == 0 {
		return nil
	}
	p.page.countColumns()
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

// writeEncoded waits until the oldest page is encoded, and then passes it on. It repeats this while more than
// `most` pages are left.
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

// End encodes the remaining rows, and returns when all pages have been passed on. If err is not nil, End only passes on the pages that are already
// being encoded.
func (p *Pages) End(err error) error {
	if err == nil {
		err = p.flush(true)
	}
	if writeErr := p.writeEncoded(0); err == nil {
		err = writeErr
	}
	return err
}
