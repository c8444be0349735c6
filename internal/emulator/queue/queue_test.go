package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/emulator/queue"
	"tablesweep/internal/emulator/refusal"
)

func newQueue(t *testing.T) *queue.Queue {
	t.Helper()
	s := queue.NewStore()
	if _, err := s.Create("work", nil); err != nil {
		t.Fatal(err)
	}
	q, err := s.Get("work")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func texts(messages []queue.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Text)
	}
	return strings.Join(all, " ")
}

func code(err error) refusal.Code {
	var p *refusal.Error
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestOrderIsThatOfVisibility(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Put(start, "late", at(10), at(1000), 1)
	q.Put(start, "first", start, at(1000), 1)
	q.Put(start, "second", start, at(1000), 1)
	if got := texts(q.Peek(start, 32)); got != "first second" {
		t.Errorf("peeked %q", got)
	}
	if got := texts(q.Get(start, 1, at(30))); got != "first" {
		t.Errorf("got %q", got)
	}
	if got := texts(q.Get(at(10), 32, at(40))); got != "second late" {
		t.Errorf("got %q", got)
	}
	if got := texts(q.Get(at(29), 32, at(60))); got != "" {
		t.Errorf("got %q while all are hidden", got)
	}
	if got := q.Get(at(30), 32, at(60)); texts(got) != "first" || got[0].DequeueCount != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestMessagesExpire(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Put(start, "short", start, at(10), 1)
	q.Put(start, "long", start, at(20), 1)
	m := q.Get(start, 1, at(5))[0]
	if n := q.Count(at(9)); n != 2 {
		t.Errorf("%d messages before", n)
	}
	if n := q.Count(at(10)); n != 1 {
		t.Errorf("%d messages after", n)
	}
	if got := code(q.Delete(at(10), m.ID, m.PopReceipt)); got != refusal.MessageNotFound {
		t.Errorf("deleting an expired message: %q", got)
	}
	if got := texts(q.Get(at(10), 32, at(15))); got != "long" {
		t.Errorf("got %q", got)
	}
}

func TestReceiptIsGoodUntilTheNextGet(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Put(start, "x", start, at(1000), 1)
	m := q.Get(start, 1, at(10))[0]
	if got := code(q.Delete(at(5), m.ID, "other")); got != refusal.PopReceiptMismatch {
		t.Errorf("wrong receipt: %q", got)
	}
	text := "y"
	updated, err := q.Update(at(11), m.ID, m.PopReceipt, at(12), &text) // visible again, but nobody took it
	if err != nil {
		t.Fatal(err)
	}
	again := q.Get(at(12), 1, at(30))
	if texts(again) != "y" {
		t.Fatalf("got %+v", again)
	}
	if got := code(q.Delete(at(13), m.ID, updated.PopReceipt)); got != refusal.PopReceiptMismatch {
		t.Errorf("old receipt: %q", got)
	}
	if err := q.Delete(at(13), m.ID, again[0].PopReceipt); err != nil {
		t.Error(err)
	}
	if got := code(q.Delete(at(14), m.ID, again[0].PopReceipt)); got != refusal.MessageNotFound {
		t.Errorf("deleted message: %q", got)
	}
}

func TestDuplicatesAreDeliveredAndDeletedApart(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.Put(start, "x", start, at(1000), 2)
	first, second := q.Get(start, 1, at(100))[0], q.Get(start, 1, at(100))[0]
	if first.ID != second.ID || first.PopReceipt == second.PopReceipt {
		t.Fatalf("got %+v and %+v", first, second)
	}
	for _, m := range []queue.Message{first, second} {
		if err := q.Delete(start, m.ID, m.PopReceipt); err != nil {
			t.Error(err)
		}
	}
	if n := q.Count(start); n != 0 {
		t.Errorf("%d messages left", n)
	}
}
