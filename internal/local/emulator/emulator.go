// Package emulator serves Azure Table, Queue and Blob storage from memory. It never writes to disk.
//
// An [Emulator] is one storage account. Clients in the same process use its [Transport]. A Transport needs no sockets,
// so it works in the virtual time of testing/synctest. [Emulator.Serve] serves the account over HTTP. The emulator
// supports those parts of the services' REST interfaces that the SDKs use: tables, entities, queries, entity group
// transactions, queues, messages, and the requests for blobs that [ServedBlobs] lists. A client must sign its requests
// with SharedKey or SharedKeyLite. The emulator is as strict as the real service. It does not support Entra ID. It
// refuses shared access signatures, access policies, CORS, service properties and statistics. The error names the
// refused feature.
//
// The emulator ends a page after 250,000 visited rows or 16 MiB, whereas the real service ends a page after 5 seconds.
// The emulator disconnects a client that takes 30 seconds to send a body or to read an answer. It accepts keys of up to
// 512 UTF-16 units, and any date as x-ms-version. It returns Doubles in their shortest form, like Azurite: 3.10 as 3.1,
// 3 as 3.0, and -0.0 as 0.0. Tests compare the emulator's answers with recordings of the real service
// (testdata/README.md). scripts/jssdk and scripts/pysdk test the emulator with Microsoft's JavaScript and Python
// clients.
//
// With a fault spec (see package [fault]), requests fail as they fail in the real service. The emulator counts requests
// by kind, so tests and benchmarks can check a program's cost ([Counts]).
//
// # Administration over HTTP
//
// These requests to the table endpoint need no signature:
//
//	GET    /_emulator/counts   the counts as JSON
//	DELETE /_emulator/counts   sets the counts to zero
//	GET    /_emulator/faults   {"spec":"…","fired":{"busy":3,…}}
//	PUT    /_emulator/faults   replaces the spec by the body, and resets the fired counts
//	DELETE /_emulator/faults   removes all faults
package emulator

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/queue"
	"tablesweep/internal/local/emulator/table"
)

// The account of the storage emulators that Microsoft publishes. Its key is not secret.
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite
const (
	DefaultAccount = "devstoreaccount1"
	DefaultKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// NewKey returns a random key for an account.
func NewKey() string {
	key := make([]byte, 64)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key)
}

// Options configure an emulator. The zero value has no latency and no faults.
type Options struct {
	Latency time.Duration // minimum duration of a request
	Faults  string        // a fault spec; "" for none
	Account string        // the account's name; "" for DefaultAccount
	Key     string        // the account's key in base64; "" for DefaultKey

	// Clock is the clock for rows and answers; nil for this machine's clock. Signatures always use this machine's clock.
	Clock func() time.Time

	// Tables contains implementations of tables' rows, by the table's name. An implementation may compute the rows.
	Tables map[string]table.Rows

	// If OnRequest is set, it is called before a request is carried out, and again before the answer is sent. It may block,
	// and is called concurrently. Tests use it to stop a program at a chosen point.
	OnRequest func(Event)

	// If OnFault is set, it is called before the emulator sends a failure that a fault causes. It may block, and is called concurrently.
	OnFault func(fault.Request, fault.Name)
}

// Event is the argument of OnRequest.
type Event struct {
	fault.Request
	Applied bool // the request has been carried out
	Found   int  // the number of rows or messages in the answer, if Applied
}

// Emulator is one storage account in memory. Its methods may be called concurrently.
type Emulator struct {
	account    string
	keyText    string
	key        atomic.Pointer[[]byte]
	latency    time.Duration
	clientTime time.Duration // maximum time for a client to send a body or to read an answer
	clock      func() time.Time
	onRequest  func(Event)
	onFault    func(fault.Request, fault.Name)

	tables   *table.Store
	queues   *queue.Store
	blobs    *blobStore
	counts   counter
	injector atomic.Pointer[fault.Injector]
	requests atomic.Uint64 // numbers the requests
	buffers  sync.Pool     // of *[]byte; see buffer
}

// defaultClientTime is the services' limit on the duration of a request.
// https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-table-service-operations
const defaultClientTime = 30 * time.Second

// New returns an empty account. The error names the invalid option.
func New(o Options) (*Emulator, error) {
	e := &Emulator{
		account:    cmp.Or(o.Account, DefaultAccount),
		keyText:    cmp.Or(o.Key, DefaultKey),
		latency:    o.Latency,
		clientTime: defaultClientTime,
		clock:      o.Clock,
		onRequest:  o.OnRequest,
		onFault:    o.OnFault,
		tables:     table.NewStore(),
		queues:     queue.NewStore(),
		counts:     counter{requests: make(map[fault.Kind]int64)},
		blobs:      &blobStore{containers: make(map[string]*container), deleting: make(map[string]time.Time)},
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if err := e.SetKey(e.keyText); err != nil {
		return nil, err
	}
	for name, rows := range o.Tables {
		if err := e.tables.Add(name, rows); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return e, e.SetFaults(o.Faults)
}

// SetKey replaces the account's key. Requests signed with the old key are then refused. The emulator's connection strings keep the original key.
func (e *Emulator) SetKey(text string) error {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("account key is not base64: %w", err)
	}
	e.key.Store(&key)
	return nil
}

// SetFaults sets a new fault spec, and resets the counts of fired faults.
func (e *Emulator) SetFaults(spec string) error {
	injector, err := fault.NewInjector(spec)
	if err == nil {
		e.injector.Store(injector)
	}
	return err
}

// The method deleting is called when a table, queue or container is deleted. If the plan blocks the deleted name for a
// while, the fault [fault.Deletion] is counted.
func (e *Emulator) deleting(plan fault.Plan) {
	if plan.Deletion > 0 {
		e.injector.Load().Fired(fault.Deletion)
	}
}

// FaultCounts returns the number of times that each fault took effect since the spec was set. The keys of the map are the names of the faults, such
// as "busy".
func (e *Emulator) FaultCounts() map[string]int { return e.injector.Load().Counts() }

// buffer returns an empty buffer for a request's or an answer's body.
func (e *Emulator) buffer() []byte {
	if b, ok := e.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

func (e *Emulator) recycle(b []byte) {
	if cap(b) > 0 {
		e.buffers.Put(&b)
	}
}

func (e *Emulator) pipelines() [3]pipeline {
	return [...]pipeline{{e, "table", tableService{e}}, {e, "queue", queueService{e}}, {e, "blob", blobService{e}}}
}

func (e *Emulator) connectionString(tableURL, queueURL, blobURL string) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%[1]s;AccountKey=%[2]s;TableEndpoint=%[3]s/%[1]s;QueueEndpoint=%[4]s/%[1]s;BlobEndpoint=%[5]s/%[1]s;",
		e.account, e.keyText, tableURL, queueURL, blobURL)
}
