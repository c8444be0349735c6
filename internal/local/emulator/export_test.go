package emulator

import (
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/table"
)

// Fill stores rows of five small properties directly, in partitions of 100.
func Fill(e *Emulator, name string, rows int) error {
	t, err := e.tables.Create(name, time.Now())
	if err != nil {
		return err
	}
	var decoder entity.Decoder
	var contents [1000]entity.Properties // decoding each row would take most of the time
	for i := range contents {
		body := fmt.Sprintf(`{"N":%d,"S":"value %d","D":%d.5,"B":true,"L":"%d","L@odata.type":"Edm.Int64"}`, i, i, i, i)
		decoded, err := decoder.Decode([]byte(body))
		if err != nil {
			return err
		}
		contents[i] = decoded.Properties
	}
	operations := make([]table.Operation, 0, 100)
	for i := range rows {
		operations = append(operations, table.Operation{
			Key:        key.Key{Partition: FillPartition(i), Row: fmt.Sprintf("%010d", i)},
			Properties: contents[i%len(contents)],
		})
		if len(operations) == cap(operations) || i == rows-1 {
			if _, err := t.Apply(time.Now(), operations); err != nil {
				return err
			}
			operations = operations[:0]
		}
	}
	return nil
}

// FillPartition returns the partition of the i-th row of Fill.
func FillPartition(i int) string { return fmt.Sprintf("p%08d", i/100) }

// SetClientTime changes how long a client may take to send a body or to read an answer. It must not be called during a request.
func SetClientTime(e *Emulator, d time.Duration) { e.clientTime = d }
