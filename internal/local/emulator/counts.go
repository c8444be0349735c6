package emulator

import (
	"sync"

	"tablesweep/internal/local/emulator/fault"
)

// Counts are the numbers of requests by kind since the start or the last reset. They include retries, refused
// requests and failed requests, but no malformed requests.
type Counts struct {
	Query         int64 `json:"query"`     // queries of entities
	QueryRows     int64 `json:"queryRows"` // rows in the answers to queries
	Point         int64 `json:"point"`     // reads of one entity by its key
	Insert        int64 `json:"insert"`
	Update        int64 `json:"update"` // replaced or upserted
	Merge         int64 `json:"merge"`
	Delete        int64 `json:"delete"`
	Batch         int64 `json:"batch"`         // entity group transactions
	BatchEntities int64 `json:"batchEntities"` // entities in the entity group transactions
	Tables        int64 `json:"tables"`        // creating, deleting and listing tables

	QueuePut      int64 `json:"queuePut"`
	QueueGet      int64 `json:"queueGet"`
	QueueMessages int64 `json:"queueMessages"` // messages in the answers to Get Messages
	QueuePeek     int64 `json:"queuePeek"`
	QueueUpdate   int64 `json:"queueUpdate"`
	QueueDelete   int64 `json:"queueDelete"`
	QueueOther    int64 `json:"queueOther"` // clearing messages; creating, deleting and listing queues; queue metadata

	BlobPut    int64 `json:"blobPut"`
	BlobGet    int64 `json:"blobGet"`
	BlobList   int64 `json:"blobList"`
	BlobDelete int64 `json:"blobDelete"`
	Containers int64 `json:"containers"` // creating containers
}

// TableTransactions returns the number of requests to the Table service.
func (c Counts) TableTransactions() int64 {
	return c.Query + c.Point + c.Insert + c.Update + c.Merge + c.Delete + c.Batch + c.Tables
}

// QueueTransactions returns the number of requests to the Queue service.
func (c Counts) QueueTransactions() int64 {
	return c.QueuePut + c.QueueGet + c.QueuePeek + c.QueueUpdate + c.QueueDelete + c.QueueOther
}

// Counts returns the current counts.
func (e *Emulator) Counts() Counts {
	c := &e.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.requests
	return Counts{
		Query: n[fault.Query], QueryRows: c.rows, Point: n[fault.Point], Insert: n[fault.Insert], Update: n[fault.Update], Merge: n[fault.Merge],
		Delete: n[fault.Delete], Batch: n[fault.Batch], BatchEntities: c.batched, Tables: n[fault.Tables],
		QueuePut: n[fault.Put], QueueGet: n[fault.Get], QueueMessages: c.messages, QueuePeek: n[fault.Peek],
		QueueUpdate: n[fault.UpdateMessage], QueueDelete: n[fault.DeleteMessage], QueueOther: n[fault.Clear] + n[fault.Queues],
		BlobPut: n[fault.PutBlob], BlobGet: n[fault.GetBlob], BlobList: n[fault.ListBlobs], BlobDelete: n[fault.DeleteBlob], Containers: n[fault.Containers],
	}
}

// ResetCounts sets all counts to zero.
func (e *Emulator) ResetCounts() {
	c := &e.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.requests)
	c.rows, c.messages, c.batched = 0, 0, 0
}

type counter struct {
	mu                      sync.Mutex // guards the fields below
	requests                map[fault.Kind]int64
	rows, messages, batched int64
}

func (c *counter) request(r fault.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[r.Kind]++
	if r.Kind == fault.Batch {
		c.batched += int64(r.Entities)
	}
}

func (c *counter) results(rows, messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows += int64(rows)
	c.messages += int64(messages)
}
