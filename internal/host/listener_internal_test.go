package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/host/app"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// memoryQueue is a queue in memory, which keeps time with time.Now and honours pop
// receipts.
type memoryQueue struct {
	name string

	mu       sync.Mutex // guards the fields below
	messages []storage.Message
	serial   int
	gets     []time.Time
	asked    []int // messages asked for, by get
}

func (q *memoryQueue) Name() string                 { return q.name }
func (q *memoryQueue) Create(context.Context) error { return nil }

func (q *memoryQueue) receipt() string {
	q.serial++
	return fmt.Sprint("receipt ", q.serial)
}

func (q *memoryQueue) Put(_ context.Context, text string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, storage.Message{ID: fmt.Sprint(len(q.messages)), PopReceipt: q.receipt(), Text: text, NextVisible: time.Now()})
	return nil
}

func (q *memoryQueue) Get(ctx context.Context, n int, hidden time.Duration) (got []storage.Message, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gets, q.asked = append(q.gets, time.Now()), append(q.asked, n)
	for i := range q.messages {
		m := &q.messages[i]
		if len(got) < n && !m.NextVisible.After(time.Now()) {
			m.DequeueCount++
			m.PopReceipt, m.NextVisible = q.receipt(), time.Now().Add(hidden)
			got = append(got, *m)
		}
	}
	return got, ctx.Err()
}

// find returns the place of a message whose pop receipt still holds.
func (q *memoryQueue) find(m storage.Message) (int, error) {
	i := slices.IndexFunc(q.messages, func(have storage.Message) bool { return have.ID == m.ID && have.PopReceipt == m.PopReceipt })
	if i < 0 {
		return 0, errors.New("no such message")
	}
	return i, nil
}

func (q *memoryQueue) Update(_ context.Context, m storage.Message, hidden time.Duration) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i, err := q.find(m)
	if err != nil {
		return "", err
	}
	q.messages[i].PopReceipt, q.messages[i].NextVisible = q.receipt(), time.Now().Add(hidden)
	return q.messages[i].PopReceipt, nil
}

func (q *memoryQueue) Delete(_ context.Context, m storage.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	i, err := q.find(m)
	if err == nil {
		q.messages = slices.Delete(q.messages, i, i+1)
	}
	return err
}

func (q *memoryQueue) texts() (list []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		list = append(list, m.Text)
	}
	return list
}

// bench is a listener on a queue in memory.
type bench struct {
	*listener
	main, poison *memoryQueue
	start        time.Time
	mu           sync.Mutex // guards the fields below
	deliveries   []string   // "SECONDS: TEXT #DELIVERY"
}

// newBench makes a listener whose function is f.
func newBench(options app.Queues, f func(ctx context.Context, text string) error) *bench {
	b := &bench{main: &memoryQueue{name: "work"}, poison: &memoryQueue{name: "work-poison"}, start: time.Now()}
	b.listener = &listener{
		queue: b.main, poison: b.poison, options: options, lease: MessageLease, random: rand.Float64,
		invoke: func(ctx context.Context, m envelope.Message) error {
			b.mu.Lock()
			b.deliveries = append(b.deliveries, fmt.Sprintf("%d: %s #%d", time.Since(b.start)/time.Second, m.Text, m.DequeueCount))
			b.mu.Unlock()
			return f(ctx, m.Text)
		},
	}
	return b
}

// during runs the listener for a time.
func (b *bench) during(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	b.poll(ctx, t.Context())
}

func plainQueues() app.Queues {
	return app.Queues{BatchSize: 4, NewBatchThreshold: 2, MaxPolling: time.Second, MaxDequeue: 3}
}

func (b *bench) expect(t *testing.T, deliveries, left, poisoned []string) {
	t.Helper()
	if diff := cmp.Diff(deliveries, b.deliveries); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(left, b.main.texts()); diff != "" {
		t.Errorf("left in the queue (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(poisoned, b.poison.texts()); diff != "" {
		t.Errorf("poisoned (-want +got):\n%s", diff)
	}
}

func TestListenerDeletesOnSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(plainQueues(), func(context.Context, string) error { return nil })
		_ = b.main.Put(t.Context(), "a")
		b.during(t, time.Minute)
		b.expect(t, []string{"0: a #1"}, nil, nil)
	})
}

func TestListenerRetriesThenPoisons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options := plainQueues()
		options.Visibility = 30 * time.Second
		b := newBench(options, func(context.Context, string) error { return errors.New("no") })
		_ = b.main.Put(t.Context(), "a")
		b.during(t, 10*time.Minute)
		b.expect(t, b.deliveries, nil, []string{"a"})
		if len(b.deliveries) != 3 {
			t.Fatalf("deliveries %q, want 3", b.deliveries)
		}
		// Each retry waits for visibilityTimeout and then for a poll, a second at most.
		last := 0
		for _, d := range b.deliveries[1:] {
			var second int
			if _, err := fmt.Sscanf(d, "%d:", &second); err != nil || second < last+30 || second > last+31 {
				t.Errorf("deliveries %q, want 30 s between them", b.deliveries)
			}
			last = second
		}
	})
}

func TestListenerPoisonsWithoutInvoking(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		count      int
	}{
		{"delivered too often elsewhere", base64.StdEncoding.EncodeToString([]byte("a")), 3},
		{"not base64", "{}", 0},
		{"not UTF-8", base64.StdEncoding.EncodeToString([]byte{0xff}), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				options := plainQueues()
				options.Base64 = true
				b := newBench(options, func(context.Context, string) error { return nil })
				_ = b.main.Put(t.Context(), test.text)
				b.main.messages[0].DequeueCount = test.count
				b.during(t, time.Hour)
				b.expect(t, nil, nil, []string{test.text})
			})
		})
	}
}

// TestListenerWithoutPoisonQueue: a poison queue's own messages have nowhere to go,
// and come back when their lease ends.
func TestListenerWithoutPoisonQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options := plainQueues()
		options.MaxDequeue = 2
		b := newBench(options, func(context.Context, string) error { return errors.New("no") })
		b.listener.poison = nil
		_ = b.main.Put(t.Context(), "a")
		b.during(t, time.Hour)
		if len(b.deliveries) != 2 || len(b.main.texts()) != 1 {
			t.Errorf("deliveries %q, left %q; want 2 and the message left", b.deliveries, b.main.texts())
		}
		if gap := b.main.messages[0].NextVisible.Sub(b.start); gap < time.Hour {
			t.Errorf("the message is visible after %v", gap)
		}
	})
}

// TestListenerRenews: a function that runs for hours keeps its message.
func TestListenerRenews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(plainQueues(), func(context.Context, string) error {
			time.Sleep(3 * time.Hour)
			return nil
		})
		_ = b.main.Put(t.Context(), "a")
		b.during(t, 4*time.Hour)
		b.expect(t, []string{"0: a #1"}, nil, nil)
	})
}

// TestListenerConcurrency: at most batchSize + newBatchThreshold run at once, and
// that many do.
func TestListenerConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		b := newBench(plainQueues(), func(context.Context, string) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(rand.N(5 * time.Second))
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})
		for i := range 200 {
			_ = b.main.Put(t.Context(), fmt.Sprint(i))
		}
		b.during(t, time.Hour)
		if most != 6 || len(b.deliveries) != 200 || len(b.main.texts()) != 0 {
			t.Errorf("%d ran at once, %d deliveries, %d left; want 6, 200, 0", most, len(b.deliveries), len(b.main.texts()))
		}
		if slices.Max(b.main.asked) != 4 {
			t.Errorf("%d messages were asked for at once, want batchSize, 4", slices.Max(b.main.asked))
		}
	})
}

// TestListenerEnds: how a message is left when the host goes away under it.
func TestListenerEnds(t *testing.T) {
	t.Parallel()
	const took = 90 * time.Second // half a minute more than the host lives
	tests := []struct {
		name  string
		drain time.Duration
		left  []string
	}{
		{"done in the time that is left", time.Minute, nil},
		{"killed: hidden until the lease ends", time.Second, []string{"a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				options := plainQueues()
				options.MaxDequeue = 1 // no failure must be counted
				b := newBench(options, func(ctx context.Context, _ string) error {
					task.Sleep(ctx, took)
					return ctx.Err()
				})
				_ = b.main.Put(t.Context(), "a")
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				work, kill := context.WithTimeout(t.Context(), time.Minute+test.drain)
				defer kill()
				b.poll(ctx, work)
				b.expect(t, []string{"0: a #1"}, test.left, nil)
				if test.left != nil {
					if got, want := b.main.messages[0].NextVisible.Sub(b.start), MessageLease; got != want {
						t.Errorf("hidden until %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// TestListenerPolls: waits between polls of an empty queue double up to the limit.
func TestListenerPolls(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			options := plainQueues()
			options.MaxPolling = limit
			b := newBench(options, func(context.Context, string) error { return nil })
			b.during(t, time.Minute)
			var last time.Duration
			for i := 1; i < len(b.main.gets); i++ {
				last = b.main.gets[i].Sub(b.main.gets[i-1])
			}
			if last != limit {
				t.Errorf("with maxPollingInterval %v the last wait was %v", limit, last)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	b := backoff{most: ms(2000)}
	steps := []struct {
		found  bool
		random float64
		want   time.Duration
	}{
		{true, 0, ms(100)},
		{false, 0, ms(180)},   // 100 + 80 % of 100
		{false, 0.5, ms(300)}, // 100 + 200
		{false, 1, ms(580)},   // 100 + 120 % of 400
		{false, 0.5, ms(900)},
		{false, 0.5, ms(1700)},
		{false, 0.5, ms(2000)},
		{false, 0.5, ms(2000)},
		{true, 0.5, ms(100)},
	}
	for i, s := range steps {
		if got := b.next(s.found, s.random); got.Round(time.Microsecond) != s.want {
			t.Errorf("step %d: next(%v, %v) = %v, want %v", i, s.found, s.random, got, s.want)
		}
	}
}
