package job

import (
	"context"
	"fmt"
	"io"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
)

// writeCSV writes rows as CSV. The argument `each` is a function that reads all rows, and writeCSV calls this function twice. The first call finds
// the columns. The second call, in which the argument `last` is true, writes the rows.
func (o Options) writeCSV(form place.CSV, c *place.Codec, out io.Writer, each func(last bool, fn func([]storage.Row) error) (sweep.Totals, error)) (t sweep.Totals, err error) {
	columns := &place.Columns{CSV: form, Lossy: func(k key.Key, name string) {
		o.Meter.Print("changed", fmt.Sprintf("PartitionKey %q RowKey %q: CSV cannot hold the invalid Unicode in %s; the file has U+FFFD instead", k.Partition, k.Row, name))
	}}
	if t, err = each(false, columns.See); err != nil {
		return t, err
	}
	if _, err := out.Write(c.Encode(columns.Header())); err != nil {
		return t, err
	}
	var text []byte // a page as CSV
	return each(true, func(rows []storage.Row) error {
		if text, err = columns.Append(text[:0], rows); err == nil {
			_, err = out.Write(c.Encode(text))
		}
		return err
	})
}

// ScanCSV writes the rows of a place as CSV.
func ScanCSV(ctx context.Context, o ScanOptions, form place.CSV, out io.Writer) (sweep.Totals, error) {
	c, err := place.NewCodec(place.None)
	if err != nil {
		return sweep.Totals{}, err
	}
	if len(o.Select) > 0 {
		o.Select = append(o.Select, "Timestamp")
	}
	quiet := o
	quiet.quiet = true
	return o.writeCSV(form, c, out, func(last bool, fn func([]storage.Row) error) (sweep.Totals, error) {
		if !last {
			return Scan(ctx, quiet, fn)
		}
		return Scan(ctx, o, fn)
	})
}
