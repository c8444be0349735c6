// Package queue stores the emulated Queue service's queues in memory.
//
// A [Store] contains named queues. A [Queue] returns its messages in the order in which they become visible. Callers pass the time. Package emulator
// handles HTTP, XML and injected faults.
package queue

import (
	"crypto/rand"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/btree"

	"tablesweep/internal/local/emulator/refusal"
)

// Message is a message as its receiver sees it.
type Message struct {
	ID           string
	Text         string
	PopReceipt   string // proves that its holder was the last to receive the message
	Inserted     time.Time
	Expires      time.Time
	Visible      time.Time // when the message can be received, or received again
	DequeueCount int

	sequence uint64 // order of messages that become visible at the same time
}

// Queue is one queue. Its methods may be called concurrently.
type Queue struct {
	mu       sync.Mutex // guards the fields below
	metadata map[string]string
	sequence uint64
	// Each of the next three fields contains all messages. The field `visible` is sorted by the time at which a message
	// becomes visible, and `expiry` by the time at which a message expires. Several messages have the same id only if one
	// Put has stored them as copies.
	visible *btree.BTreeG[*Message]
	expiry  *btree.BTreeG[*Message]
	byID    map[string][]*Message
}

func newQueue(metadata map[string]string) *Queue {
	by := func(at func(*Message) time.Time) *btree.BTreeG[*Message] {
		return btree.NewBTreeGOptions(func(a, b *Message) bool {
			if c := at(a).Compare(at(b)); c != 0 {
				return c < 0
			}
			return a.sequence < b.sequence
		}, btree.Options{NoLocks: true})
	}
	return &Queue{
		metadata: metadata,
		visible:  by(func(m *Message) time.Time { return m.Visible }),
		expiry:   by(func(m *Message) time.Time { return m.Expires }),
		byID:     make(map[string][]*Message),
	}
}

// Put stores copies of a new message, all with the same id, and returns the message.
func (q *Queue) Put(now time.Time, text string, visible, expires time.Time, copies int) Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := Message{ID: newID(), Text: text, PopReceipt: newReceipt(), Inserted: now, Expires: expires, Visible: visible}
	for range copies {
		q.sequence++
		m.sequence = q.sequence
		q.add(&m)
	}
	return m
}

func (q *Queue) add(m *Message) {
	stored := *m
	q.visible.Set(&stored)
	q.expiry.Set(&stored)
	q.byID[m.ID] = append(q.byID[m.ID], &stored)
}

func (q *Queue) remove(m *Message) {
	q.visible.Delete(m)
	q.expiry.Delete(m)
	same := slices.DeleteFunc(q.byID[m.ID], func(s *Message) bool { return s == m })
	if len(same) == 0 {
		delete(q.byID, m.ID)
	} else {
		q.byID[m.ID] = same
	}
}

func (q *Queue) expire(now time.Time) {
	for {
		m, ok := q.expiry.Min()
		if !ok || m.Expires.After(now) {
			return
		}
		q.remove(m)
	}
}

// Get receives up to n visible messages. Each message gets a new pop receipt. It stays in the
// queue, but is invisible until the given time.
func (q *Queue) Get(now time.Time, n int, until time.Time) []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	received := q.due(now, n)
	messages := make([]Message, len(received))
	for i, m := range received {
		q.hide(m, until)
		m.DequeueCount++
		messages[i] = *m
	}
	return messages
}

// Peek returns up to n visible messages, without pop receipts. The messages stay visible.
func (q *Queue) Peek(now time.Time, n int) []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var messages []Message
	for _, m := range q.due(now, n) {
		peeked := *m
		peeked.PopReceipt = ""
		messages = append(messages, peeked)
	}
	return messages
}

// due returns up to n visible messages, in the order in which they became visible.
func (q *Queue) due(now time.Time, n int) []*Message {
	q.expire(now)
	var due []*Message
	q.visible.Scan(func(m *Message) bool {
		if len(due) == n || m.Visible.After(now) {
			return false
		}
		due = append(due, m)
		return true
	})
	return due
}

// hide sets the time at which a message becomes visible, and gives it a new receipt.
func (q *Queue) hide(m *Message, until time.Time) {
	q.visible.Delete(m)
	m.Visible = until
	m.PopReceipt = newReceipt()
	q.visible.Set(m)
}

// Update changes the time at which a received message becomes visible. If `text` is not nil, it also changes the text. The returned message has a new
// receipt. The error is a *refusal.Error.
func (q *Queue) Update(now time.Time, id, receipt string, visible time.Time, text *string) (Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.received(now, id, receipt)
	if err != nil {
		return Message{}, err
	}
	q.hide(m, visible)
	if text != nil {
		m.Text = *text
	}
	return *m, nil
}

// Delete removes a received message. The error is a *refusal.Error.
func (q *Queue) Delete(now time.Time, id, receipt string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.received(now, id, receipt)
	if err != nil {
		return err
	}
	q.remove(m)
	return nil
}

func (q *Queue) received(now time.Time, id, receipt string) (*Message, error) {
	q.expire(now)
	same := q.byID[id]
	if len(same) == 0 {
		return nil, refusal.New("MessageNotFound", "The specified message does not exist.")
	}
	for _, m := range same {
		if m.PopReceipt == receipt {
			return m, nil
		}
	}
	return nil, refusal.New("PopReceiptMismatch", "The specified pop receipt did not match the pop receipt for a dequeued message.")
}

// Clear removes all messages.
func (q *Queue) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.visible.Clear()
	q.expiry.Clear()
	clear(q.byID)
}

// Count returns the number of messages, including invisible ones.
func (q *Queue) Count(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire(now)
	return q.visible.Len()
}

// Metadata returns the queue's name-value pairs. The map must not be changed.
func (q *Queue) Metadata() map[string]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.metadata
}

// SetMetadata replaces the queue's name-value pairs.
func (q *Queue) SetMetadata(metadata map[string]string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.metadata = metadata
}

// newID returns a Guid from crypto/rand. Faults depend on the id, so tests make crypto/rand deterministic.
func newID() string { return uuid.NewString() }

// newReceipt returns a random receipt in the service's form.
func newReceipt() string {
	receipt := []byte{2, 0, 0, 0, 3, 19: 0}
	_, _ = rand.Read(receipt[12:]) // never fails
	return base64.StdEncoding.EncodeToString(receipt)
}
