package sim

import (
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// The settings of host.json, and the host's own numbers: it leases
// messages for 10 minutes, renews the lease at half time, and waits at least 100 ms
// between two polls of an empty queue. (QueueListener, QueueProcessor and
// QueuePollingIntervals of the queue extension)
const (
	batchSize         = 8
	newBatchThreshold = 4
	visibilityTimeout = 10 * time.Second
	maxDequeueCount   = engine.MaxDeliveries

	lease      = 10 * time.Minute
	minPolling = 100 * time.Millisecond
)

// listen polls a function's queue until the machine is lost.
func (m *machine) listen(f function.Function) {
	q, poison := m.queue(f.Queue), m.queue(f.Queue+"-poison")
	finished := make(chan struct{}, batchSize+newBatchThreshold)
	busy, pause := 0, minPolling
	for polls := 0; m.gone.Err() == nil; polls++ {
		for busy > newBatchThreshold {
			<-finished
			busy--
		}
		messages, _ := q.Get(m.gone, batchSize, lease) // failing is as good as nothing found
		for _, got := range messages {
			busy++
			m.group.Go(func() {
				m.handle(f, q, poison, got)
				finished <- struct{}{}
			})
		}
		if len(messages) > 0 {
			pause = minPolling
			continue
		}
		jitter := 0.8 + 0.4*float64(draw(m.plan.Seed, m.name, f.Name, strconv.Itoa(polls))%1024)/1024
		task.Sleep(m.gone, time.Duration(float64(pause)*jitter))
		pause = min(2*pause, m.plan.MaxPolling)
		for waiting := true; waiting; {
			select {
			case <-finished:
				busy--
			default:
				waiting = false
			}
		}
	}
}

func (m *machine) queue(name string) *storage.Queue {
	q, err := m.account.Queue(name)
	if err != nil {
		m.violated("queue %s: %v", name, err)
	}
	return q
}

// handle runs the function for a message, and settles the message.
func (m *machine) handle(f function.Function, q, poison *storage.Queue, got storage.Message) {
	if got.DequeueCount > maxDequeueCount {
		m.settle(q, poison, got, false)
		return
	}
	body, err := base64.StdEncoding.DecodeString(got.Text)
	if err != nil {
		m.violated("a message is not base64: %v", err)
	}
	failed := m.invoke(f.Name, envelope.Queue(m.invocation(f.Name, "item"), envelope.Message{
		Text: string(body), ID: got.ID, PopReceipt: got.PopReceipt, DequeueCount: got.DequeueCount,
		Inserted: got.Inserted, Expires: got.Expires, NextVisible: got.NextVisible,
	}), got.PopReceipt)
	renew := time.NewTicker(lease / 2)
	defer renew.Stop()
	for {
		select {
		case err := <-failed:
			if m.gone.Err() == nil {
				m.log.Debug().Str("machine", m.name).Str("message", got.ID).Int("delivery", got.DequeueCount).Err(err).Msg("handled")
				m.settle(q, poison, got, err == nil)
			}
			return
		case <-renew.C:
			if receipt, err := q.Update(m.gone, got, lease); err == nil {
				got.PopReceipt = receipt
			}
		}
	}
}

// settle deletes a handled message. A failed message is delivered again;
// after the last delivery it goes to the poison queue. If settling fails, the message
// comes back when its lease ends.
func (m *machine) settle(q, poison *storage.Queue, got storage.Message, handled bool) {
	ctx, cancel := context.WithTimeout(m.gone, lease)
	defer cancel()
	if !handled && got.DequeueCount < maxDequeueCount {
		_, _ = q.Update(ctx, got, visibilityTimeout)
		return
	}
	if !handled {
		m.count(&m.stats.Poisoned)
		if err := poison.Create(ctx); err != nil {
			return
		}
		if err := poison.Put(ctx, got.Text); err != nil {
			return
		}
	}
	_ = q.Delete(ctx, got)
}
