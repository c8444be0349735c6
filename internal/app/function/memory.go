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

// memoryNeed is the memory that a call needs. A call reserves memory before it reads any row. Before the reservation, the call
// reads a short body, or the beginning of a body of unknown length; see takeBody. A call that is served again reserves memory
// again.
type memoryNeed int

const (
	// needsLittle is for calls that need at most [memory.Small], including a body of [maxRequest] bytes. Such a call never
	// waits for large calls.
	needsLittle memoryNeed = iota
	// needsNothing is for calls that answer from data that the app always holds.
	needsNothing
	// needsForRecords is for calls with a body of records. They need memory for the body and the data made from it. A call
	// with a short body does not wait for large calls.
	needsForRecords
	// needsForEvents is for calls with a body of events.
	needsForEvents
	// needsForRecord is for calls whose body changes a record. They need memory for the body, and for the data that
	// they read and write. A short body can be read again. So if the memory is too small for a call with a short body,
	// the call is served again, as described at needsForRows.
	needsForRecord
	// needsForRows is for calls that read rows, or delete them. They need memory for the rows, the answer and the writes.
	// A call with few rows does not wait for large calls. If the memory is too small, the call is served again, first
	// with more memory, then with smaller pages. Therefore the call must change nothing before it has all its memory.
	needsForRows
)

const (
	// memoryTime is the maximum time for which a call waits for its part of the memory.
	memoryTime = 10 * time.Second

	rowsMemory  = 4 << 20  // a call that reads rows reserves this memory if it is free; few calls need more
	againMemory = 16 << 20 // the minimum memory for a call that is served a second time because rowsMemory was too small
	smallAnswer = 16 << 10 // the minimum memory that a call keeps while it answers

	// A body needs up to twice its length, because its buffer grows while the body arrives. In addition, events need memory for their
	// transactions. Each record needs memory for its log entry and for up to 15 index rows. Only a limited number of records is written
	// concurrently, so recordsMost limits this memory.
	bodyWeight    = 2
	eventsWeight  = 4
	recordsWeight = 13
	recordsMost   = 12 << 20 // a call with several records needs at most twice the body's length plus this number
	recordWeight  = 50
	recordMost    = 24 << 20 // a call with one record needs at most twice the body's length plus this number
)

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

// maxKept is the maximum length of a body that is read and kept before memory is reserved for its call.
func (h memoryNeed) maxKept() int64 {
	if h == needsForRecords {
		return memory.Small / recordsWeight
	}
	return memory.Small / eventsWeight
}

// takeBody reserves memory for a request's body and the data made from it. It reads a small body before the reservation, so a slow sender holds memory
// only for the bytes that have arrived. If a body is not small, and its length is unknown, takeBody assumes the largest possible body.
func (f Function) takeBody(h memoryNeed, take *taker, r *http.Request) (*memory.Part, error) {
	known := r.ContentLength >= 0 && r.Header.Get("Content-Encoding") == ""
	if known && r.ContentLength > h.maxKept() {
		return take.part(r.Context(), h.ofBody(min(r.ContentLength, f.maxBody)))
	}
	body := &replayableBody{ReadCloser: r.Body}
	if err := body.begin(f.memory.Coming(), h.maxKept()); err != nil {
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

// replayableBody keeps the first bytes of a body even after they are read. If these bytes are the whole body, the
// body can be read again.
type replayableBody struct {
	io.ReadCloser
	text []byte
	next int   // the first unread byte of text
	err  error // the error, such as io.EOF, that follows the bytes in text; nil if more bytes may follow
}

// begin reads the body into memory if the body has at most `most` bytes. Of a longer body, it reads only the beginning. At the
// end, begin releases `part`.
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

// readAgain sets the request's body back to its beginning. It returns false if only a part of the body was kept.
func readAgain(r *http.Request) bool {
	body, ok := r.Body.(*replayableBody)
	if ok {
		body.next = 0
	}
	return ok && body.err != nil
}

// serveWithMemory reserves memory, serves the call, and releases the memory.
func (f Function) serveWithMemory(c call, w http.ResponseWriter, r *http.Request) error {
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

func serveWith(part *memory.Part, c call, w http.ResponseWriter, r *http.Request) error {
	defer part.Release()
	needs := part.Used // the memory that the call needs while the caller reads the answer
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

// releasingAnswer releases the call's memory for rows when the answer begins, and keeps only the memory for the answer. So
// callers that read slowly do not delay other calls.
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

// taker reserves parts of a budget for one call. Each wait for a part reduces `left`, the time that the call may still wait.
type taker struct {
	from *memory.Budget
	left time.Duration
}

// forLittle reserves memory for a call that needs little. If a larger part is free, it reserves that part without waiting.
func (t *taker) forLittle(ctx context.Context) (*memory.Part, error) {
	if part, ok := t.from.TryTake(rowsMemory); ok {
		return part, nil
	}
	return t.part(ctx, memory.Small)
}

// guess returns how many bytes to reserve for work that may need the given number of bytes. It returns at most half of the
// memory, because a call that took more would wait longer, and all other large calls would wait behind it.
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

// heldBody is a body that adds its bytes to the used part of the memory as they arrive.
type heldBody struct {
	io.ReadCloser
	part  *memory.Part
	weigh func(bytes int64) int64 // returns the memory that the given number of bytes needs
	all   bool                    // only this body uses `part`, so Read shrinks `part` when the body ends
	bytes int64                   // bytes that have arrived
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

// errFull returns the error of a call that got no memory in time.
func errFull() *problem.Error {
	return problem.Busyf("", "other calls and steps are using all of the app's memory; try again later, send a smaller request (for example, with a smaller \"top\"), or use larger instances (instanceMemoryMB)")
}
