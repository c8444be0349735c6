package function

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task/memory"
)

// memoryNeed is the memory that a call needs. Each call takes its part once, before it reads its body or any row.
type memoryNeed int

const (
	// needsLittle means at most [memory.Small], including a body of [maxRequest]. Calls that need little never wait for large
	// ones.
	needsLittle memoryNeed = iota
	// needsNothing is for calls that answer from data that the app always holds.
	needsNothing
	// needsForRecords is for calls with a body of records: the body, and the data made from it. A call with a short body does
	// not wait for large ones.
	needsForRecords
	// needsForEvents is for calls with a body of events.
	needsForEvents
	// needsForRecord is for calls whose body turns one record into another: the body, and the data that the call reads and
	// writes. Such a call is served like one that needsForRows, unless the body is too long to be kept for a repetition.
	needsForRecord
	// needsForRows is for the rows that a call reads, its answer, and its writes. Such a call does not wait for large ones if
	// it needs little. If its part is too small, the call is served again with a larger part, and then with smaller pages.
	// Therefore it must change nothing before it has the memory that it needs.
	needsForRows
)

const (
	// memoryTime is the maximum time for which a call waits for its part.
	memoryTime = 10 * time.Second

	rowsMemory  = 4 << 20  // part of a call that reads rows, if it is free at once: more than most need
	againMemory = 16 << 20 // minimum of the next part, if rowsMemory was too small
	smallAnswer = 16 << 10 // minimum part of a call while it answers

	// A body takes its own length, and twice that while it grows. Events also take memory in transactions. Records take more,
	// under each index key and in the log, but only a limited number of them are written at once. One record may have 15 index
	// keys.
	bodyWeight    = 2
	eventsWeight  = 4
	recordsWeight = 13
	recordsMost   = 12 << 20 // in addition to twice the body
	recordWeight  = 50
	recordMost    = 24 << 20 // in addition to twice the body
)

// ofBody returns the memory for a body of the given length, including the data made from it.
func (h memoryNeed) ofBody(bytes int64) int64 {
	switch h {
	case needsLittle:
		return memory.Small
	case needsForEvents:
		return eventsWeight * bytes
	case needsForRecord:
		return min(recordWeight*bytes, bodyWeight*bytes+recordMost)
	}
	return min(recordsWeight*bytes, bodyWeight*bytes+recordsMost)
}

// whole is the maximum length of a body that is kept in memory until its call has a part for it.
func (h memoryNeed) whole() int64 {
	if h == needsForRecords {
		return memory.Small / recordsWeight
	}
	return memory.Small / eventsWeight
}

// takeBody takes the part for a request's body, and for the data made from it. A small body is read first, so a slow sender holds
// only the bytes that have arrived. A larger body of unknown length takes the part of the largest one, until it ends.
func (f Function) takeBody(h memoryNeed, take *taker, r *http.Request) (*memory.Part, error) {
	known := r.ContentLength >= 0 && r.Header.Get("Content-Encoding") == ""
	if known && r.ContentLength > h.whole() {
		return take.part(r.Context(), h.ofBody(min(r.ContentLength, f.maxBody)))
	}
	body := &replayableBody{ReadCloser: r.Body}
	if err := body.begin(f.memory.Coming(), h.whole()); err != nil {
		return nil, err
	}
	r.Body = body
	switch {
	case body.err == nil:
		return take.part(r.Context(), take.guess(h.ofBody(f.maxBody)))
	case h == needsForRecord:
		return take.forLittle(r.Context())
	}
	return take.part(r.Context(), h.ofBody(int64(len(body.text))))
}

// replayableBody is a body whose beginning has been read. If that is the whole body, it can be read again.
type replayableBody struct {
	io.ReadCloser
	text []byte
	next int   // the first unread byte of text
	err  error // after text; nil if there may be more
}

// begin reads the beginning of the body, at most the given number of bytes. It releases the part when it has read them.
func (b *replayableBody) begin(part *memory.Part, most int64) error {
	defer part.Release()
	coming := &heldBody{ReadCloser: b.ReadCloser, part: part, weigh: func(bytes int64) int64 { return bytes }}
	var err error
	if b.text, err = io.ReadAll(io.LimitReader(coming, most+1)); errors.Is(err, memory.ErrFull) {
		return err
	}
	if err == nil && int64(len(b.text)) <= most {
		err = io.EOF
	}
	b.err = err
	return nil
}

// Read implements [io.Reader].
func (b *replayableBody) Read(p []byte) (n int, err error) {
	switch {
	case b.next < len(b.text):
		n = copy(p, b.text[b.next:])
		b.next += n
		return n, nil
	case b.err != nil:
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// readAgain makes a call read its body again from the beginning. It reports false if more of the body was read than is kept.
func readAgain(r *http.Request) bool {
	body, ok := r.Body.(*replayableBody)
	if ok {
		body.next = 0
	}
	return ok && body.err != nil
}

// holding serves a call with its part of the app's memory. It always releases the part at the end.
func (f Function) holding(c call, w http.ResponseWriter, r *http.Request) error {
	take := taker{f.memory, memoryTime}
	var part *memory.Part
	var err error
	switch c.needs {
	case needsNothing:
		return c.serve(w, r)
	case needsLittle, needsForRecords, needsForEvents, needsForRecord:
		part, err = f.takeBody(c.needs, &take, r)
	case needsForRows:
		part, err = take.forLittle(r.Context())
	}
	for again := false; ; again = true {
		if err != nil {
			return err
		}
		err = serveWith(part, c, w, r)
		if !errors.Is(err, memory.ErrFull) || c.needs != needsForRows && (c.needs != needsForRecord || !readAgain(r)) {
			return err
		}
		wanted := part.Wanted()
		if again || wanted > againMemory {
			r = r.WithContext(logtail.Fewer(r.Context()))
		}
		most := int64(againMemory)
		if c.needs == needsForRecord {
			most = recordMost
		}
		part, err = take.part(r.Context(), max(wanted, take.guess(max(wanted+wanted/4, most))))
	}
}

// serveWith serves a call with a part of the memory, and releases it.
func serveWith(part *memory.Part, c call, w http.ResponseWriter, r *http.Request) error {
	defer part.Release()
	needs := part.Used // while the caller reads the answer
	switch c.needs {
	case needsForRows:
		r = r.WithContext(part.In(r.Context()))
	case needsForRecord:
		r = r.WithContext(part.In(r.Context()))
		r.Body = &heldBody{ReadCloser: r.Body, part: part, weigh: func(bytes int64) int64 { return bodyWeight * bytes }}
	case needsForRecords, needsForEvents:
		body := &heldBody{ReadCloser: r.Body, part: part, weigh: c.needs.ofBody, all: true}
		needs = func() int64 { return body.bytes }
		r = r.WithContext(r.Context())
		r.Body = body
	}
	return c.serve(&releasingAnswer{w, part, needs}, r)
}

// releasingAnswer is an answer. When it begins, its call keeps only the memory for the answer, and releases the memory for
// reading. Therefore slow readers delay nobody.
type releasingAnswer struct {
	http.ResponseWriter
	part  *memory.Part
	needs func() int64
}

// Unwrap is for [http.ResponseController].
func (l *releasingAnswer) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (l *releasingAnswer) WriteHeader(status int) {
	l.part.Keep(max(l.needs(), smallAnswer))
	l.ResponseWriter.WriteHeader(status)
}

// taker takes parts of a budget. left is the total time for which it may still wait.
type taker struct {
	from *memory.Budget
	left time.Duration
}

// forLittle takes a part for a call that needs little. If a larger part is free at once, it takes that instead.
func (t *taker) forLittle(ctx context.Context) (*memory.Part, error) {
	if part, ok := t.from.TryTake(rowsMemory); ok {
		return part, nil
	}
	return t.part(ctx, memory.Small)
}

// guess returns how many bytes to take for work that may need the given number. It is limited to half of the memory, because
// others wait behind a large request.
func (t *taker) guess(bytes int64) int64 { return min(bytes, t.from.Half()) }

// part waits for a part of the given size.
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

// heldBody is a body whose bytes use a part of the memory as they arrive.
type heldBody struct {
	io.ReadCloser
	part  *memory.Part
	weigh func(bytes int64) int64 // returns the memory that this many bytes need
	all   bool                    // only the body uses the part
	bytes int64                   // that have arrived
}

// Read implements [io.Reader].
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := b.weigh(b.bytes)
	b.bytes += int64(n)
	if !b.part.Use(b.weigh(b.bytes) - before) {
		return n, memory.ErrFull
	}
	if err != nil && b.all {
		b.part.Keep(b.part.Used())
	}
	return n, err
}

// full returns the answer to a call that got no memory in time.
func full() *problem.Error {
	return problem.Busyf("", "other calls and steps are using all of the app's memory; try again later, send less at once, lower top, or give the app larger instances (instanceMemoryMB)")
}
