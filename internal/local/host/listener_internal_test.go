package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// bench is a listener on queues of the emulator.
type bench struct {
	*listener
	emulator   *emulator.Emulator
	start      time.Time
	mu         sync.Mutex // guards the fields below
	deliveries []string   // "SECONDS: TEXT #DELIVERY"
}

// newBench creates a listener whose function is f, and a message with each of the texts.
func newBench(t *testing.T, options hostjson.Queues, f func(ctx context.Context) error, texts ...string) *bench {
	t.Helper()
	em, account := emulatortest.NewAccount(t, emulator.Options{})
	queue := func(name string) *storage.Queue {
		q, err := account.Queue(name)
		if err == nil {
			err = q.Create(t.Context())
		}
		proof.Must(t, err)
		return q
	}
	b := &bench{emulator: em, start: time.Now()}
	b.listener = &listener{
		queue: queue("work"), poison: queue("work-poison"), options: options, random: rand.Float64,
		invoke: func(ctx context.Context, m envelope.Message) error {
			b.mu.Lock()
			b.deliveries = append(b.deliveries, fmt.Sprintf("%d: %s #%d", time.Since(b.start)/time.Second, m.Text, m.DequeueCount))
			b.mu.Unlock()
			return f(ctx)
		},
	}
	for _, text := range texts {
		proof.Must(t, b.queue.Put(t.Context(), text))
	}
	return b
}

// during runs the listener for the given time.
func (b *bench) during(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	b.poll(ctx, t.Context())
}

// take receives the visible messages of a queue.
func take(t *testing.T, q *storage.Queue) (texts []string) {
	t.Helper()
	messages, err := q.Get(t.Context(), storage.MaxGetMessages, time.Second)
	proof.Must(t, err)
	for _, m := range messages {
		texts = append(texts, m.Text)
	}
	return texts
}

func plainQueues() hostjson.Queues {
	return hostjson.Queues{BatchSize: 4, NewBatchThreshold: 2, MaxPolling: time.Second, MaxDequeue: 3}
}

// expect checks the deliveries, the number of visible and hidden messages that are left, and the poisoned messages.
func (b *bench) expect(t *testing.T, deliveries []string, left int, poisoned []string) {
	t.Helper()
	if diff := cmp.Diff(deliveries, b.deliveries); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	if n, err := b.queue.Length(t.Context()); err != nil || n != left {
		t.Errorf("%d messages left in the queue, error %v, want %d", n, err, left)
	}
	if diff := cmp.Diff(poisoned, take(t, b.poison)); diff != "" {
		t.Errorf("poisoned (-want +got):\n%s", diff)
	}
}

func TestListenerPoisonsWithoutInvoking(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		elsewhere  int // the number of earlier deliveries to other hosts
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
				b := newBench(t, options, func(context.Context) error { return nil }, test.text)
				for range test.elsewhere {
					take(t, b.queue)
					time.Sleep(2 * time.Second)
				}
				b.during(t, time.Minute)
				b.expect(t, nil, 0, []string{test.text})
			})
		})
	}
}

// TestListenerWithoutPoisonQueue: failed messages of a poison queue are not moved. They reappear when their lease ends.
func TestListenerWithoutPoisonQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options := plainQueues()
		options.MaxDequeue = 2
		b := newBench(t, options, func(context.Context) error { return errors.New("no") }, "a")
		b.listener.poison = nil
		b.during(t, time.Hour)
		n, err := b.queue.Length(t.Context())
		if visible := take(t, b.queue); len(b.deliveries) != 2 || n != 1 || err != nil || len(visible) != 0 {
			t.Errorf("deliveries %q, %d messages left, visible %q, error %v; want 2 deliveries, and the message hidden", b.deliveries, n, visible, err)
		}
	})
}

// TestListenerRenews: a function that runs for hours keeps its message hidden.
func TestListenerRenews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options := plainQueues()
		options.MaxPolling = time.Minute
		b := newBench(t, options, func(context.Context) error {
			time.Sleep(3 * time.Hour)
			return nil
		}, "a")
		b.during(t, 4*time.Hour)
		b.expect(t, []string{"0: a #1"}, 0, nil)
	})
}

// TestListenerConcurrency: exactly batchSize + newBatchThreshold invocations run concurrently, if there are enough messages.
func TestListenerConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		b := newBench(t, plainQueues(), func(context.Context) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(rand.N(5 * time.Second))
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}, slices.Repeat([]string{"a"}, 200)...)
		b.during(t, 10*time.Minute)
		if most != 6 || len(b.deliveries) != 200 {
			t.Errorf("%d invocations ran concurrently, and there were %d deliveries; want 6 and 200", most, len(b.deliveries))
		}
		b.expect(t, b.deliveries, 0, nil)
	})
}

// TestListenerEnds: the host ends while the function runs.
func TestListenerEnds(t *testing.T) {
	t.Parallel()
	const took = 90 * time.Second // half a minute longer than the host runs
	tests := []struct {
		name  string
		drain time.Duration
		left  int
	}{
		{"done before the host has ended", time.Minute, 0},
		{"killed: hidden until the lease ends", time.Second, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				options := plainQueues()
				options.MaxDequeue = 1 // so that no failure counts
				b := newBench(t, options, func(ctx context.Context) error {
					task.Sleep(ctx, took)
					return ctx.Err()
				}, "a")
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				work, kill := context.WithTimeout(t.Context(), time.Minute+test.drain)
				defer kill()
				b.poll(ctx, work)
				b.expect(t, []string{"0: a #1"}, test.left, nil)
				time.Sleep(time.Until(b.start.Add(MessageLease - time.Second)))
				if early := take(t, b.queue); early != nil {
					t.Errorf("%q is visible before its lease ends", early)
				}
				time.Sleep(2 * time.Second)
				if back := take(t, b.queue); len(back) != test.left {
					t.Errorf("after the lease %q is visible, want %d messages", back, test.left)
				}
			})
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
		{false, 0, ms(180)},   // 100 + 80% of 100
		{false, 0.5, ms(300)}, // 100 + 200
		{false, 1, ms(580)},   // 100 + 120% of 400
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

// TestStorageErrorsNameTheSetting: the error about unreadable storage names the setting with the connection.
func TestStorageErrorsNameTheSetting(t *testing.T) {
	t.Parallel()
	h, err := load(Options{Root: "../../..", Settings: map[string]string{
		storage.HostConnection: "AccountName=a;AccountKey=c2VjcmV0;TableEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:1/a",
	}})
	proof.Must(t, err)
	copying := slices.IndexFunc(h.functions, func(f hosted) bool { return f.Name == "CopyRows" })
	if _, err := h.functions[copying].queue.Get(t.Context(), 1, time.Second); err == nil || !strings.Contains(err.Error(), " of AzureWebJobsStorage: ") {
		t.Errorf("error %v, want the setting's name", err)
	}
}

// TestDisabledFunctionsAreLeftOut: a setting, or the list in host.json, disables functions.
func TestDisabledFunctionsAreLeftOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	hostJSON := `{"version":"2.0","functions":["maintain","Scans"],"customHandler":{"description":{"defaultExecutablePath":"absent"},"enableProxyingHttpRequest":true}}`
	proof.Must(t, os.WriteFile(filepath.Join(root, "host.json"), []byte(hostJSON), 0o600))
	h, err := load(Options{Root: root, Settings: map[string]string{storage.HostConnection: "UseDevelopmentStorage=true", "AzureWebJobs.Scans.Disabled": "True"}})
	proof.Must(t, err)
	if len(h.functions) != 1 || h.functions[0].Name != "Maintain" {
		t.Errorf("functions %+v, want Maintain alone", h.functions)
	}
}
