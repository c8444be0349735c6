package place

import (
	"context"
	"io"
	"runtime"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Pages cuts rows in table order into pages, encodes them by all cores, and hands them on in order.
type Pages struct {
	codec     *Codec
	timestamp bool // of rows that have one
	fileBytes int  // of JSON, at which a file ends; 0 for never
	take      func(p Page, end *Properties) error

	draft      Draft
	json       int // of the file, before the draft
	properties Properties

	ctx   context.Context
	group *task.Group
	queue chan queued
}

// queued is a page that is being encoded.
type queued struct {
	page chan Page
	end  *Properties // of the file, if the page is its last one
}

// NewStream writes pages to w, one behind the other.
func NewStream(ctx context.Context, w io.Writer, c *Codec, timestamp bool) *Pages {
	p := &Pages{codec: c, timestamp: timestamp, take: func(p Page, _ *Properties) error {
		_, err := w.Write(p.Text)
		return err
	}}
	p.start(ctx)
	return p
}

func (p *Pages) start(ctx context.Context) {
	p.group, p.ctx = task.WithContext(context.WithoutCancel(ctx))
	p.queue = make(chan queued, runtime.GOMAXPROCS(0))
	p.group.Go(func() error { // ends with the queue
		for q := range p.queue {
			select {
			case page := <-q.page:
				if err := p.take(page, q.end); err != nil {
					return err
				}
			case <-p.ctx.Done():
				return context.Cause(p.ctx)
			}
		}
		return nil
	})
}

// Add adds rows. It does not keep them.
func (p *Pages) Add(rows []storage.Entity) error {
	for _, row := range rows {
		if !p.draft.Add(row, p.timestamp) {
			if err := p.flush(false); err != nil {
				return err
			}
			p.draft.Add(row, p.timestamp)
		}
		p.properties.Count(row)
		if p.fileBytes > 0 && p.json+len(p.draft.text) >= p.fileBytes {
			if err := p.flush(true); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush encodes the draft, the last page of a file or not.
func (p *Pages) flush(last bool) error {
	if p.draft.rows == 0 {
		return nil
	}
	draft := p.draft
	p.draft = Draft{text: make([]byte, 0, len(draft.text)+len(draft.text)/8)}
	p.json += len(draft.text)
	q := queued{page: make(chan Page, 1)}
	if last {
		properties := p.properties
		q.end, p.properties, p.json = &properties, Properties{}, 0
	}
	select {
	case p.queue <- q:
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	p.group.Go(func() error {
		q.page <- draft.Encode(p.codec)
		return nil
	})
	return nil
}

// End encodes what is left, and returns when all of it was handed on. With an error that ended the rows, it only waits for
// what is under way.
func (p *Pages) End(err error) error {
	if err == nil {
		err = p.flush(true)
	}
	close(p.queue)
	if waitErr := p.group.Wait(); err == nil {
		err = waitErr
	}
	return err
}
