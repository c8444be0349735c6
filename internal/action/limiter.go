package action

import (
	"context"
	"sync"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/storage/pace"
	"tablesweep/internal/task"
)

// Limiter limits a process's requests to each partition that throttles. The limit is the rate that the partition
// accepts. A caller may use any unique text as a partition's name. The zero value is ready for concurrent use.
type Limiter struct {
	mu         sync.Mutex // guards the fields below
	partitions pace.Partitions
	queues     map[string]*queue
}

// PartitionName returns the name by which a [Limiter] distinguishes a table's partition from all others.
func PartitionName(t *storage.Table, partition string) string { return t.Address() + "/" + partition }

// queue holds the requests that wait for a partition.
type queue struct {
	turn   chan struct{} // a lock: the request that holds the lock waits for the partition, and the other requests wait for the lock
	length int
}

// Free reports whether a request to the partition may be sent immediately.
func (l *Limiter) Free(partition string) bool { return l.busyFor(partition) == 0 }

func (l *Limiter) busyFor(partition string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partitions.Wait(partition, time.Now())
}

// Started notes that a request with the given number of rows is about to be sent.
func (l *Limiter) Started(partition string, rows int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partitions.Started(partition, rows, time.Now())
}

// Send calls the function `send` with options derived from o. The caller must call [Limiter.Started] before Send. The
// function `send` makes one request, or several in sequence, and returns how many rows it wrote or read. A throttled
// request is repeated when the partition can accept all rows of the request.
func (l *Limiter) Send(o storage.RequestOptions, partition string, rows int, send func(storage.RequestOptions) (int, error)) error {
	o.OnBusy = func() time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.partitions.Throttled(partition, rows, time.Now())
	}
	had, err := send(o)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.partitions.Answered(partition, rows, had, time.Now())
	}
	return err
}

// Do waits until the partition is free, and then calls [Limiter.Started] and [Limiter.Send]. Waiting callers take turns.
func (l *Limiter) Do(ctx context.Context, o storage.RequestOptions, partition string, rows int, send func(storage.RequestOptions) (int, error)) error {
	if !l.Free(partition) {
		if err := l.wait(ctx, partition); err != nil {
			return err
		}
	}
	l.Started(partition, rows)
	return l.Send(o, partition, rows, send)
}

func (l *Limiter) wait(ctx context.Context, partition string) error {
	q := l.join(partition)
	defer l.leave(partition, q)
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.turn }()
	for {
		d := l.busyFor(partition)
		if d == 0 {
			return nil
		}
		if !task.Sleep(ctx, d) {
			return ctx.Err()
		}
	}
}

func (l *Limiter) join(partition string) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[partition]
	if q == nil {
		if l.queues == nil {
			l.queues = map[string]*queue{}
		}
		q = &queue{turn: make(chan struct{}, 1)}
		l.queues[partition] = q
	}
	q.length++
	return q
}

func (l *Limiter) leave(partition string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.length--; q.length == 0 {
		delete(l.queues, partition)
	}
}
