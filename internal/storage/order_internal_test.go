package storage

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"tablesweep/internal/key"
)

// BenchmarkOrderOfKeys reads a page of 1,000 rows of eight properties, about 330 bytes each, as a copy does. It reports what the look at the order of the
// keys takes of that, in percent: with keys of 32 digits, each in a partition of its own, and of 20 digits in one partition.
func BenchmarkOrderOfKeys(b *testing.B) {
	for _, one := range []bool{false, true} {
		b.Run(map[bool]string{false: "a partition a row", true: "one partition"}[one], func(b *testing.B) {
			var body bytes.Buffer
			body.WriteString(`{"value":[`)
			for i := range PageRows {
				k := key.Key{Partition: fmt.Sprintf("%032d", i), Row: "r"}
				if one {
					k = key.Key{Partition: "customer-00000000000042", Row: fmt.Sprintf("%020d", i)}
				}
				if i > 0 {
					body.WriteByte(',')
				}
				fmt.Fprintf(&body, `{"PartitionKey":%q,"RowKey":%q,"Timestamp":"2026-01-01T00:00:00.1234567Z","Name":"customer %d","City":"Springfield",`+
					`"Total":%d,"Price":12.5,"At@odata.type":"Edm.DateTime","At":"2026-01-01T00:00:00Z","Id@odata.type":"Edm.Int64","Id":"%d","Open":true,"Note":"to be delivered before noon"}`, k.Partition, k.Row, i, i, i)
			}
			body.WriteString(`]}`)
			var q Query
			var reading, looking time.Duration
			for b.Loop() {
				began := time.Now()
				rows, err := parsePage(body.Bytes())
				read := time.Now()
				if err == nil {
					err = q.inOrder(rows)
				}
				looking += time.Since(read)
				reading += read.Sub(began)
				if err != nil || len(rows) != PageRows {
					b.Fatal(len(rows), err)
				}
			}
			b.ReportMetric(100*looking.Seconds()/reading.Seconds(), "%-of-parsing")
		})
	}
}
