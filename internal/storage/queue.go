package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"

	"tablesweep/internal/problem/secret"
)

// Limits of the Queue service. (Microsoft Learn, "Put Message", "Get Messages")
const (
	MaxMessageBytes = 64 << 10 // maximum length of the text as sent
	MaxGetMessages  = 32
)

// queueName matches legal queue names; CheckQueueName checks the length. (Microsoft Learn, "Naming queues and
// metadata")
var queueName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckQueueName returns an error if the name is not legal for a queue.
func CheckQueueName(name string) error {
	if len(name) < 3 || len(name) > 63 || !queueName.MatchString(name) {
		return fmt.Errorf("queue name %s must have 3 to 63 characters: lower-case letters and digits, with single hyphens between them", secret.Name(name))
	}
	return nil
}

var ErrNoQueues = errors.New("the connection has no queue endpoint: give a connection string or set NAME__queueServiceUri")

// Queue gives access to one queue.
type Queue struct {
	client  *azqueue.QueueClient
	name    string
	address string
	options RequestOptions
}

// Message is a message of a queue. Other consumers see it only after NextVisible.
type Message struct {
	ID           string
	PopReceipt   string
	Text         string // as sent; the caller decodes base64
	DequeueCount int
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
}

// Queue returns access to a queue, which need not exist.
func (a *Account) Queue(name string) (*Queue, error) {
	if a.queues == nil {
		return nil, ErrNoQueues
	}
	return &Queue{client: a.queues.NewQueueClient(name), name: name, address: a.connection.queueURL + "/" + name}, nil
}

// With returns a copy of q whose requests use the options.
func (q *Queue) With(o RequestOptions) *Queue {
	with := *q
	with.options = o
	return &with
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Address returns the queue's URL, which identifies it.
func (q *Queue) Address() string { return q.address }

// QueueNames calls fn with the names of all queues of the account, in order.
func (a *Account) QueueNames(ctx context.Context, fn func(name string) error) error {
	if a.queues == nil {
		return ErrNoQueues
	}
	x := newExchange(RequestOptions{}, listQueues)
	for pager := a.queues.NewListQueuesPager(nil); pager.More(); {
		page, err := pager.NextPage(x.attach(ctx))
		if err != nil {
			return wrap("list queues", x, err)
		}
		for _, q := range page.Queues {
			if err := fn(deref(q.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Create makes the queue unless it exists.
func (q *Queue) Create(ctx context.Context) error {
	x := newExchange(q.options, createQueue)
	x.creates = true
	_, err := q.client.Create(x.attach(ctx), nil)
	if err = wrap("create queue "+q.name, x, err); Conflict(err) {
		return nil
	}
	return err
}

// Put adds a message that is visible immediately and never expires.
func (q *Queue) Put(ctx context.Context, text string) error { return q.PutAfter(ctx, text, 0) }

// PutAfter adds a message that never expires. The message is invisible for the time in the argument `hidden`,
// rounded up to seconds, but at most for a week.
func (q *Queue) PutAfter(ctx context.Context, text string, hidden time.Duration) error {
	return q.put(ctx, text, int32(math.Ceil(min(max(0, hidden), maxHidden).Seconds())), -1)
}

// PutFor adds a message that is visible immediately, and that expires after `life`, rounded down to seconds.
func (q *Queue) PutFor(ctx context.Context, text string, life time.Duration) error {
	return q.put(ctx, text, 0, int32(life/time.Second))
}

// maxHidden is the longest time for which the service hides a message.
const maxHidden = 7 * 24 * time.Hour

// put adds a message that is invisible for `hidden` seconds, and that expires after `life` seconds. If `life` is -1, the
// message never expires.
func (q *Queue) put(ctx context.Context, text string, hidden, life int32) error {
	x := newExchange(q.options, putMessage)
	x.rows = 1
	_, err := q.client.EnqueueMessage(x.attach(ctx), text, &azqueue.EnqueueMessageOptions{TimeToLive: &life, VisibilityTimeout: &hidden})
	return wrap("put into queue "+q.name, x, err)
}

// Get reads up to n messages and hides them from other consumers for the given time.
func (q *Queue) Get(ctx context.Context, n int, hidden time.Duration) ([]Message, error) {
	x := newExchange(q.options, getMessages)
	resp, err := q.client.DequeueMessages(x.attach(ctx), &azqueue.DequeueMessagesOptions{
		NumberOfMessages:  to.Ptr(int32(n)),
		VisibilityTimeout: to.Ptr(int32(hidden / time.Second)),
	})
	if err != nil {
		return nil, wrap("get from queue "+q.name, x, err)
	}
	var messages []Message
	for _, m := range resp.Messages {
		messages = append(messages, Message{
			ID: *m.MessageID, PopReceipt: *m.PopReceipt, Text: deref(m.MessageText), DequeueCount: int(*m.DequeueCount),
			Inserted: *m.InsertionTime, Expires: *m.ExpirationTime, NextVisible: *m.TimeNextVisible,
		})
	}
	return messages, nil
}

// Update hides a message for the given time from now, and returns the message's new pop receipt. If the error is
// [NotFound] or has the code PopReceiptMismatch, another consumer has the message.
func (q *Queue) Update(ctx context.Context, m Message, hidden time.Duration) (popReceipt string, err error) {
	x := newExchange(q.options, updateMessage)
	resp, err := q.client.UpdateMessage(x.attach(ctx), m.ID, m.PopReceipt, m.Text, &azqueue.UpdateMessageOptions{
		VisibilityTimeout: to.Ptr(int32(hidden / time.Second)),
	})
	if err != nil {
		return "", wrap("update message of queue "+q.name, x, err)
	}
	return deref(resp.PopReceipt), nil
}

// Delete removes a message.
func (q *Queue) Delete(ctx context.Context, m Message) error {
	x := newExchange(q.options, deleteMessage)
	_, err := q.client.DeleteMessage(x.attach(ctx), m.ID, m.PopReceipt, nil)
	return wrap("delete from queue "+q.name, x, err)
}

// Peek returns the texts and insertion times of the first [MaxGetMessages] visible messages, without changing the messages.
func (q *Queue) Peek(ctx context.Context) ([]Message, error) {
	x := newExchange(q.options, peekMessages)
	resp, err := q.client.PeekMessages(x.attach(ctx), &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(MaxGetMessages))})
	if err != nil {
		return nil, wrap("peek into queue "+q.name, x, err)
	}
	var messages []Message
	for _, m := range resp.Messages {
		messages = append(messages, Message{ID: *m.MessageID, Text: deref(m.MessageText), DequeueCount: int(*m.DequeueCount), Inserted: *m.InsertionTime, Expires: *m.ExpirationTime})
	}
	return messages, nil
}

// Length returns the approximate number of messages in the queue. Only the result 0 is exact.
func (q *Queue) Length(ctx context.Context) (int, error) {
	x := newExchange(q.options, queueLength)
	resp, err := q.client.GetProperties(x.attach(ctx), nil)
	if err != nil {
		return 0, wrap("read properties of queue "+q.name, x, err)
	}
	return int(*resp.ApproximateMessagesCount), nil
}
