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

// memoryNeed says what a call holds of the app's memory. Each call takes its part once, before it reads its body or any row.
type memoryNeed int

const (
	// needsLittle is [memory.Small] at most, also with a body of [maxRequest]. Such calls pass while large ones wait.
	needsLittle memoryNeed = iota
	// needsNothing is what the app has all the time.
	needsNothing
	// needsForRecords is a body of records, and what is made of them. Who sends a short one passes as well.
	needsForRecords
	// needsForEvents is a body of events.
	needsForEvents
	// needsForRecord is a body that makes one record of another, and what is read and written then. It is served as needsForRows, unless the body is
	// too long to be kept meanwhile.
	needsForRecord
	// needsForRows is the rows that it reads, what it answers with, and what it writes. If these are small it passes. The call is served again, with a
	// larger part and then by smaller pages, if one does not suffice: so it changes nothing before it has what it needs.
	needsForRows
)

const (
	// memoryTime is how long a call waits for its part.
	memoryTime = 10 * time.Second

	rowsMemory  = 4 << 20  // what a call that reads rows takes if it is free at once: more than most need
	againMemory = 16 << 20 // at least, if that did not suffice
	smallAnswer = 16 << 10 // what a call keeps at least while it answers

	// A body takes its own length, or twice that while it grows. Its events are in transactions besides. Its records take more: under each
	// index key, and in the log. But only so many of them are under way at once. One record may have 15 index keys.
	bodyWeight    = 2
	eventsWeight  = 4
	recordsWeight = 13
	recordsMost   = 12 << 20 // beside twice the body
	recordWeight  = 50
	recordMost    = 24 << 20 // beside twice the body
)

// ofBody returns what a body of so many bytes takes of memory, with what is made of it.
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

// whole is the most bytes of a body that are kept until its call has a part for them.
func (h memoryNeed) whole() int64 {
	if h == needsForRecords {
		return memory.Small / recordsWeight
	}
	return memory.Small / eventsWeight
}

// takeBody takes the part for a request's body, and for what is made of it. A small body has come by then: so who sends it slowly holds
// what has come. A larger one of unknown length takes what the largest would, until it ends.
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
		return take.little(r.Context())
	}
	return take.part(r.Context(), h.ofBody(int64(len(body.text))))
}

// replayableBody is a body of which the beginning has come. It can be read again, if that is all.
type replayableBody struct {
	io.ReadCloser
	text []byte
	next int   // the first byte of text that was not read
	err  error // behind text; nil if more may come
}

// begin reads the beginning, of so many bytes at most. It is in the part until it has come.
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

// readAgain has the body of a call read from its beginning. It reports false if more of it was read than is kept.
func readAgain(r *http.Request) bool {
	body, ok := r.Body.(*replayableBody)
	if ok {
		body.next = 0
	}
	return ok && body.err != nil
}

// holding serves a call that holds its part of the app's memory, and gives that back at the end, whatever the end is.
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
		part, err = take.little(r.Context())
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

// serveWith serves a call with a part of the memory, and gives it back.
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

// releasingAnswer is an answer. Once it begins, its call holds what that takes, and no longer what reading took: who reads slowly keeps nobody waiting.
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

// taker takes parts of a budget, and waits for them so long in all.
type taker struct {
	from *memory.Budget
	left time.Duration
}

// little takes a part for little work, and more if that is free at once.
func (t *taker) little(ctx context.Context) (*memory.Part, error) {
	if part, ok := t.from.TryTake(rowsMemory); ok {
		return part, nil
	}
	return t.part(ctx, memory.Small)
}

// guess returns how many bytes to ask for if work needs so many perhaps: others wait behind one that waits for much.
func (t *taker) guess(bytes int64) int64 { return min(bytes, t.from.Half()) }

// part waits for a part of so many bytes.
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
	weigh func(bytes int64) int64 // returns what so many bytes take
	all   bool                    // nothing but the body uses the part
	bytes int64                   // that have come
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

// full answers a call for which there is no memory in time.
func full() *problem.Error {
	return problem.Busyf("", "other calls and steps have all of the app's memory; try again later, send less at once or ask for less by top, or give the app larger instances (instanceMemoryMB)")
}
