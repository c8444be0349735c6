package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/storage"
)

// MessageLease is the time for which the queue extension hides a message. When half of MessageLease is over, the extension hides the
// message for a full MessageLease again. (QueueListener of the queue extension)
const MessageLease = 10 * time.Minute

// poisonLife is the time for which a message stays in the poison queue: the service's default, because the queue extension sets no time. (Microsoft Learn, "Put
// Message")
const poisonLife = 7 * 24 * time.Hour

const (
	// minPolling is the minimum wait between two polls. (QueuePollingIntervals of the queue extension)
	minPolling = 100 * time.Millisecond
	// settling is the maximum time for deleting or moving a message after its invocation, even while the host stops.
	settling = 10 * time.Second
)

// listener polls one queue for one function of one instance.
type listener struct {
	queue   *storage.Queue
	poison  *storage.Queue // nil if failed messages are not moved
	options hostjson.Queues
	random  func() float64 // returns a number in [0, 1); only poll calls it
	invoke  func(ctx context.Context, m envelope.Message) error
	log     zerolog.Logger
}

// Poll polls a queue until ctx ends, as a [Host] does for each queue of an instance. The function `random` returns numbers in [0, 1), for the waits
// between polls of an empty queue. The function `invoke` runs the app's function with a decoded message.
//
// A message is settled when it is deleted, visible again or in the poison queue. After ctx ends, Poll returns as soon as all its messages are
// settled. If the work context ends, the instance is lost: `invoke` must return, and Poll returns without settling more messages.
func Poll(ctx, work context.Context, messages, poison *storage.Queue, options hostjson.Queues, random func() float64, log zerolog.Logger,
	invoke func(ctx context.Context, m envelope.Message) error) {
	l := listener{queue: messages, poison: poison, options: options, random: random, invoke: invoke, log: log}
	l.poll(ctx, work)
}

// poll gets up to batchSize more messages whenever at most newBatchThreshold messages are unfinished. After ctx
// ends, it returns when all its messages are settled or the work context ends.
func (l *listener) poll(ctx, work context.Context) {
	finished := make(chan struct{})
	held := 0
	defer func() {
		for ; held > 0; held-- {
			<-finished
		}
	}()
	pause := backoff{most: l.options.MaxPolling}
	found := false // a message has arrived since the last pause
	for ctx.Err() == nil {
		for held > l.options.NewBatchThreshold {
			<-finished
			held--
		}
		// Use the work context, not ctx: the service could still carry out an aborted request, and the messages would stay hidden.
		messages, err := l.queue.Get(work, l.options.BatchSize, MessageLease)
		if err != nil && !storage.NotFound(err) && ctx.Err() == nil { // a missing queue is not an error, because the app creates it
			l.log.Warn().Err(err).Msg("cannot read the queue")
		}
		for _, m := range messages {
			held++
			go func() { // the goroutine ends when the message is settled; poll waits for the goroutine
				l.process(work, m)
				finished <- struct{}{}
			}()
		}
		if len(messages) > 0 {
			found = true
			continue
		}
		timer := time.NewTimer(pause.next(found, l.random()))
		found = false
		for waiting := true; waiting; {
			select {
			case <-finished:
				held--
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
		}
		timer.Stop()
	}
}

func (l *listener) process(ctx context.Context, m storage.Message) {
	log := l.log.With().Str("message", m.ID).Int("delivery", m.DequeueCount).Logger()
	text, err := decode(m.Text, l.options.Base64)
	switch {
	case m.DequeueCount > l.options.MaxDequeue:
		err = fmt.Errorf("delivered more than %d times", l.options.MaxDequeue)
	case err != nil:
		log.Error().Err(err).Msg("the function is not invoked for this message")
	default:
		err = l.invokeRenewing(ctx, &m, text)
	}
	if ctx.Err() != nil {
		return // the instance is lost, and the message becomes visible again when its lease ends
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	if err := l.settle(ctx, m, err); err != nil {
		log.Warn().Err(err).Msg("the message could not be deleted or moved, and will reappear when its lease ends")
	}
}

// settle deletes a message if its function succeeded. If the function failed, the message becomes visible again after
// visibilityTimeout. After its last delivery, a failed message goes to the poison queue instead.
func (l *listener) settle(ctx context.Context, m storage.Message, failure error) error {
	switch {
	case failure == nil:
		return taken(l.queue.Delete(ctx, m))
	case l.poison == nil:
		return nil // the message stays hidden until its lease ends, to avoid a fast endless loop
	case m.DequeueCount < l.options.MaxDequeue:
		_, err := l.queue.Update(ctx, m, l.options.Visibility)
		return taken(err)
	}
	l.log.Warn().Str("message", m.ID).Msgf("message has reached MaxDequeueCount of %d: moving it to queue %s", l.options.MaxDequeue, l.poison.Name())
	err := l.poison.PutFor(ctx, m.Text, poisonLife)
	if storage.NotFound(err) {
		if err = l.poison.Create(ctx); err == nil {
			err = l.poison.PutFor(ctx, m.Text, poisonLife)
		}
	}
	if err != nil {
		return err
	}
	return taken(l.queue.Delete(ctx, m))
}

// taken returns nil if the error means that another consumer has received the message.
func taken(err error) error {
	if storage.NotFound(err) || storage.HasCode(err, "PopReceiptMismatch") {
		return nil
	}
	return err
}

// invokeRenewing invokes the function, and meanwhile keeps the message hidden. Afterwards, m has the newest pop receipt.
func (l *listener) invokeRenewing(ctx context.Context, m *storage.Message, text string) error {
	renewing, stop := context.WithCancel(ctx)
	renewed := make(chan struct{})
	receipt := m.PopReceipt
	go func(m storage.Message) { // ends when stop is called
		defer close(renewed)
		every := time.NewTicker(MessageLease / 2)
		defer every.Stop()
		for {
			select {
			case <-renewing.Done():
				return
			case <-every.C:
			}
			// Use ctx, not the renewing context: an aborted renewal could still change the pop receipt.
			next, err := l.queue.Update(ctx, m, MessageLease)
			if err == nil {
				m.PopReceipt, receipt = next, next
			} else if ctx.Err() == nil {
				l.log.Warn().Err(err).Str("message", m.ID).Msg("the message's lease could not be extended, so the message may reappear")
			}
		}
	}(*m)
	err := l.invoke(ctx, envelope.Message{
		Text: text, ID: m.ID, PopReceipt: m.PopReceipt, DequeueCount: m.DequeueCount,
		Inserted: m.Inserted, Expires: m.Expires, NextVisible: m.NextVisible,
	})
	stop()
	<-renewed
	m.PopReceipt = receipt
	return err
}

// decode returns a message's text. For a text that cannot be decoded, the real host does not invoke the function, and
// logs nothing.
func decode(text string, isBase64 bool) (string, error) {
	if !isBase64 {
		return text, nil
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return "", fmt.Errorf(`messageEncoding in host.json requires base64, but the message is not base64; encode the message, or set messageEncoding to "none": %w`, err)
	}
	if !utf8.Valid(b) {
		return "", errors.New("the message is not UTF-8 text")
	}
	return string(b), nil
}

// backoff is the real host's RandomizedExponentialBackoffStrategy. After a poll that found a message, the wait is the
// minimum. Each further wait is about twice as long as the wait before it.
type backoff struct {
	most     time.Duration
	current  time.Duration
	exponent int
}

func (b *backoff) next(found bool, random float64) time.Duration {
	if found {
		b.current, b.exponent = min(minPolling, b.most), 1
		return b.current
	}
	if b.current == b.most {
		return b.most
	}
	wait := minPolling
	if b.exponent > 0 {
		wait += time.Duration((0.8 + 0.4*random) * math.Pow(2, float64(b.exponent-1)) * float64(minPolling))
	}
	b.current = min(wait, b.most)
	b.exponent++
	return b.current
}
