package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/scans/ledger"
)

// witness reads the scans' rows in the ledger, with point reads. The app makes no point reads, and no fault applies to them. So the witness takes no time and
// changes nothing.
type witness struct {
	table *aztables.Client
	scans map[ledger.ScanID]scanRow // the rows that were read last, by id
	first time.Time                 // the time at which the first scan was recorded
	last  time.Time                 // the time at which a scan's row was last written

	events    int                   // the number of puts of blobs and of ends of scans
	puts      map[string]int        // for each request that puts a blob, the number of the event that put the blob first
	succeeded map[ledger.ScanID]int // the number of the event with which a scan succeeded
}

// blobPut returns the identity of a request that puts an object of an export.
func blobPut(prefix, name string) string { return "PUT " + exports + "/" + prefix + "/" + name }

// scanRow contains the relevant properties of a scan's row.
type scanRow struct {
	ETag    string `json:"odata.etag"`
	State   ledger.State
	Attempt int64 `json:",string"`
	Request []byte
	Error   string
}

func newWitness(e *emulator.Emulator) (*witness, error) {
	service, err := aztables.NewServiceClientFromConnectionString(e.ConnectionString(), &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: e.Transport()}})
	if err != nil {
		return nil, err
	}
	return &witness{table: service.NewClient(stateTable), scans: map[ledger.ScanID]scanRow{}, puts: map[string]int{}, succeeded: map[ledger.ScanID]int{}}, nil
}

// read returns a scan's row. If there is none, State is "".
func (w *witness) read(id ledger.ScanID) (scanRow, error) {
	resp, err := w.table.GetEntity(context.Background(), string(id), "s", nil)
	var status *azcore.ResponseError
	if errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
		return scanRow{}, nil
	}
	if err != nil {
		return scanRow{}, err
	}
	var row scanRow
	return row, json.Unmarshal(resp.Value, &row)
}

// observe is called after each request that the emulator has carried out. If the request wrote to a scan's partition, observe reads the scan's row. The row
// may only change from running to an end, and from there to the next attempt.
func (w *world) observe(ev emulator.Event) {
	if ev.Applied && ev.Kind == fault.PutBlob {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.witness.events++; w.witness.puts[ev.Identity] == 0 {
			w.witness.puts[ev.Identity] = w.witness.events
		}
	}
	if !ev.Applied || ev.Kind == fault.Query || ev.Kind == fault.Point || ev.Table != stateTable || ev.Partition == "" || ev.Partition == "scans" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := ledger.ScanID(ev.Partition)
	row, err := w.witness.read(id)
	if err != nil {
		w.violations = append(w.violations, "witness: "+err.Error())
	}
	old := w.witness.scans[id]
	if row.ETag == old.ETag {
		return
	}
	created := old.State == "" && row.State == ledger.Running && row.Attempt == 1
	ended := old.State == ledger.Running && row.State != ledger.Running && row.Attempt == old.Attempt
	restarted := (old.State == ledger.Failed || old.State == ledger.Canceled) && row.State == ledger.Running && row.Attempt == old.Attempt+1
	if !created && !ended && !restarted {
		w.violations = append(w.violations, fmt.Sprintf("the scan's row went from %+v to %+v", old, row))
	}
	w.witness.scans[id] = row
	if w.witness.events++; row.State == ledger.Succeeded {
		w.witness.succeeded[id] = w.witness.events
	}
	w.witness.last = time.Now()
	if w.witness.first.IsZero() {
		w.witness.first = w.witness.last
	}
	w.log.Info().Str("scan", ev.Partition).Str("state", string(row.State)).Int64("attempt", row.Attempt).Str("error", row.Error).Msg("state")
}
