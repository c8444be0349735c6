package scale

import (
	"time"

	"tablesweep/internal/emulator/refusal"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/key"
	"tablesweep/internal/odata"
)

// source is the table that is scanned: computed rows. It implements [table.Rows].
type source struct{ rows }

func (s source) Get(k key.Key) (table.Row, error) {
	if n := s.from(k); n < s.count && s.key(n) == k {
		return s.row(n), nil
	}
	return table.Row{}, table.NotFound()
}

func (s source) Query(q table.Query) table.Answer {
	var bounds odata.Span
	if q.Filter != nil {
		bounds = q.Filter.Span()
	}
	start := bounds.Low
	if start.Compare(q.From) < 0 {
		start = q.From
	}
	end := s.count
	if bounds.Bounded {
		end = s.from(bounds.High)
	}
	var page table.Answer
	for n := s.from(start); n < end; n++ {
		if len(page.Rows) == q.Top {
			page.Next, page.More = s.key(n), true
			break
		}
		if row := s.row(n); q.Filter == nil || q.Filter.Match(row) {
			page.Rows = append(page.Rows, row)
		}
	}
	return page
}

func (s source) Apply(time.Time, []table.Operation) ([]table.Row, error) {
	return nil, &table.OperationError{Err: refusal.New(refusal.InvalidInput, "the source is only read")}
}
