package emulator

import (
	"sync"

	"tablesweep/internal/emulator/fault"
)

// Counts are the requests since the start or the last reset, by kind. Refused and failed
// requests count if their form was right, and so does every retry.
type Counts struct {
	Query         int64 `json:"query"`     // queries of entities
	QueryRows     int64 `json:"queryRows"` // rows that these returned
	Point         int64 `json:"point"`     // reads of one entity by its key
	Insert        int64 `json:"insert"`
	Update        int64 `json:"update"` // replaced or upserted
	Merge         int64 `json:"merge"`
	Delete        int64 `json:"delete"`
	Batch         int64 `json:"batch"`         // entity group transactions
	BatchEntities int64 `json:"batchEntities"` // entities in them
	Tables        int64 `json:"tables"`        // creating, deleting and listing tables

	QueuePut      int64 `json:"queuePut"`
	QueueGet      int64 `json:"queueGet"`
	QueueMessages int64 `json:"queueMessages"` // messages that gets returned
	QueuePeek     int64 `json:"queuePeek"`
	QueueUpdate   int64 `json:"queueUpdate"`
	QueueDelete   int64 `json:"queueDelete"`
	QueueOther    int64 `json:"queueOther"` // clearing messages; creating, deleting and listing queues, and their metadata

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

// Counts returns the counts as they are now.
func (e *Emulator) Counts() Counts {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return e.counts.Counts
}

// ResetCounts sets all counts to zero.
func (e *Emulator) ResetCounts() {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	e.counts.Counts = Counts{}
}

type counter struct {
	mu sync.Mutex // guards Counts
	Counts
}

// request counts a request.
func (c *counter) request(r fault.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.of(r.Kind)++
	if r.Kind == fault.Batch {
		c.BatchEntities += int64(r.Entities)
	}
}

func (c *counter) of(kind fault.Kind) *int64 {
	switch kind {
	case fault.Query:
		return &c.Query
	case fault.Point:
		return &c.Point
	case fault.Insert:
		return &c.Insert
	case fault.Update:
		return &c.Update
	case fault.Merge:
		return &c.Merge
	case fault.Delete:
		return &c.Delete
	case fault.Batch:
		return &c.Batch
	case fault.Tables:
		return &c.Tables
	case fault.Put:
		return &c.QueuePut
	case fault.Get:
		return &c.QueueGet
	case fault.Peek:
		return &c.QueuePeek
	case fault.UpdateMessage:
		return &c.QueueUpdate
	case fault.DeleteMessage:
		return &c.QueueDelete
	case fault.PutBlob:
		return &c.BlobPut
	case fault.GetBlob:
		return &c.BlobGet
	case fault.ListBlobs:
		return &c.BlobList
	case fault.DeleteBlob:
		return &c.BlobDelete
	case fault.Containers:
		return &c.Containers
	}
	return &c.QueueOther
}

// results counts what a request returned.
func (c *counter) results(rows, messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.QueryRows += int64(rows)
	c.QueueMessages += int64(messages)
}
