package function

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/task/memory"
)

// holds says what a call holds of the app's memory. Each call takes its part once, before it reads its body or any row.
type holds int

const (
	// little is [memory.Small] at most, also with a body of 64 KiB. Such calls pass while large ones wait.
	little holds = iota
	// nothing is what the app has all the time.
	nothing
	// itsRecords is a body of records, and what is made of them. Who sends a short one passes as well.
	itsRecords
	// itsEvents is a body of events.
	itsEvents
	// itsAnswer is the pages that it reads and what it answers with. If these are small it passes. The call is served again, with a larger
	// part and then by smaller pages, if one does not suffice: so it changes nothing.
	itsAnswer
	// itsRows is the pages of the rows that it changes, however many these are.
	itsRows
)

const (
	// memoryTime is how long a call waits for its part.
	memoryTime = 10 * time.Second

	answerMemory = 4 << 20  // what a call with an answer takes if it is free at once: more than most need
	againMemory  = 16 << 20 // at least, if that did not suffice
	smallAnswer  = 16 << 10 // what a call keeps at least while it answers
	rowsMemory   = 32 << 20 // two pages of embedded storage, or of 16 shards, with the rows that were found in them

	// A body takes its own length, or twice that while it grows. Its events are in transactions besides. Its records take more: under each
	// index key, and in the log. But only so many of them are under way at once.
	eventsWeight  = 4
	recordsWeight = 13
	recordsMost   = 12 << 20 // beside twice the body
)

// ofBody returns what a body of so many bytes takes of memory, with what is made of it.
func (h holds) ofBody(bytes int64) int64 {
	if h == itsEvents {
		return eventsWeight * bytes
	}
	return min(recordsWeight*bytes, 2*bytes+recordsMost)
}

// takeBody takes the part for a request's body, and for what is made of it. A small body passes, also if its length is not known before it
// has come. A larger one of unknown length takes what the largest would, until it ends.
func (f Function) takeBody(h holds, take *taker, r *http.Request) (*memory.Part, error) {
	if r.ContentLength >= 0 && r.Header.Get("Content-Encoding") == "" {
		return take.part(r.Context(), h.ofBody(min(r.ContentLength, f.maxBody)))
	}
	part, err := take.part(r.Context(), memory.Small)
	if err != nil {
		return nil, err
	}
	begin, err := io.ReadAll(io.LimitReader(r.Body, memory.Small/h.ofBody(1)))
	rest := io.Reader(r.Body)
	if err != nil { // which its reader gets
		rest = failed{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), rest), r.Body}
	if int64(len(begin)) < memory.Small/h.ofBody(1) {
		return part, nil
	}
	part.Release()
	return take.part(r.Context(), h.ofBody(f.maxBody))
}

// failed is the rest of a body that could not be read.
type failed struct{ err error }

// Read implements [io.Reader].
func (f failed) Read([]byte) (int, error) { return 0, f.err }

// holding serves a call that holds its part of the app's memory, and gives that back at the end, whatever the end is.
func (f Function) holding(c call, w http.ResponseWriter, r *http.Request) error {
	take := taker{f.memory, memoryTime}
	var part *memory.Part
	var err error
	switch c.holds {
	case nothing:
		return c.serve(w, r)
	case little:
		part, err = take.part(r.Context(), memory.Small)
	case itsRows:
		part, err = take.part(r.Context(), rowsMemory)
	case itsRecords, itsEvents:
		part, err = f.takeBody(c.holds, &take, r)
	case itsAnswer:
		var ok bool
		if part, ok = f.memory.TryTake(answerMemory); !ok {
			part, err = take.part(r.Context(), memory.Small)
		}
	}
	for again := false; ; again = true {
		if err != nil {
			return err
		}
		err = serveWith(part, c, w, r)
		if c.holds != itsAnswer || !errors.Is(err, memory.ErrFull) {
			return err
		}
		wanted := part.Wanted()
		if again || wanted > againMemory {
			r = r.WithContext(logtail.Fewer(r.Context()))
		}
		part, err = take.part(r.Context(), max(wanted+wanted/4, againMemory))
	}
}

// serveWith serves a call with a part of the memory, and gives it back.
func serveWith(part *memory.Part, c call, w http.ResponseWriter, r *http.Request) error {
	defer part.Release()
	needs := part.Used // while the caller reads the answer
	switch c.holds {
	case itsAnswer:
		r = r.WithContext(part.In(r.Context()))
	case itsRecords, itsEvents:
		body := &heldBody{ReadCloser: r.Body, part: part, holds: c.holds}
		needs = func() int64 { return body.bytes }
		r = r.WithContext(r.Context())
		r.Body = body
	}
	return c.serve(&lessHeld{w, part, needs}, r)
}

// lessHeld is an answer. Once it begins, its call holds what that takes, and no longer what reading took: who reads slowly keeps nobody waiting.
type lessHeld struct {
	http.ResponseWriter
	part  *memory.Part
	needs func() int64
}

// Unwrap is for [http.ResponseController].
func (l *lessHeld) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (l *lessHeld) WriteHeader(status int) {
	l.part.Keep(max(l.needs(), smallAnswer))
	l.ResponseWriter.WriteHeader(status)
}

// taker takes parts of a budget, and waits for them so long in all.
type taker struct {
	from *memory.Budget
	left time.Duration
}

func (t *taker) part(ctx context.Context, bytes int64) (*memory.Part, error) {
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, t.left)
	defer cancel()
	part, err := t.from.Take(waiting, bytes)
	t.left -= time.Since(began)
	if err != nil && ctx.Err() == nil {
		return nil, memory.ErrFull
	}
	return part, err
}

// heldBody is a body whose bytes use a part of the memory as they come.
type heldBody struct {
	io.ReadCloser
	part  *memory.Part
	holds holds
	bytes int64 // that have come
}

// Read implements [io.Reader].
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := b.holds.ofBody(b.bytes)
	b.bytes += int64(n)
	if !b.part.Use(b.holds.ofBody(b.bytes) - before) {
		return n, memory.ErrFull
	}
	if err != nil {
		b.part.Keep(b.part.Used())
	}
	return n, err
}

// full answers a call for which there is no memory in time.
func full() *problem.Error {
	return problem.Busyf("", "other calls and steps have all of the app's memory; try again later, send less at once or ask for less by top, or give the app larger instances (instanceMemoryMB)")
}
