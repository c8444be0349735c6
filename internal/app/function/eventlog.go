package function

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/stream/logtail"
)

const (
	defaultEvents  = 50
	defaultStreams = 1000
)

// streams serves the calls below /api/log.
type streams struct{ *logtail.Streams }

// logCalls returns the calls for /api/log/{stream}, /api/log?stream=NAME for any name, and the list of streams at /api/log.
func logCalls(of *logtail.Streams) (calls []call) {
	s := streams{of}
	for _, path := range []string{"log", "log/*"} {
		calls = append(calls,
			call{method: "POST", path: path, needs: needsForEvents, serve: withQuery(s.append, "stream")},
			call{method: "GET", path: path, needs: needsForRows, serve: withQuery(s.read, "stream", "top", "since", "cursor", "after")},
			call{method: "DELETE", path: path, needs: needsForRows, serve: withQuery(s.delete, "stream")},
		)
	}
	return calls
}

// streamOf returns the name of a request's stream, from the path or the query.
func streamOf(r *http.Request, given url.Values) (string, error) {
	stream := r.PathValue("*")
	switch {
	case stream == "":
		return given.Get("stream"), nil
	case given.Has("stream"):
		return "", problem.Invalidf("stream", "is in the path and in the query; name the stream only once")
	case strings.ContainsAny(stream, `%/\`):
		return "", problem.Invalidf("stream", `must not contain %%, / or \ if it is in the path, because a host may change these characters; send the name in the query, with these characters escaped: /api/log?stream=ESCAPED`)
	}
	return stream, nil
}

type appended struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
}

func (s streams) append(w http.ResponseWriter, r *http.Request, given url.Values) error {
	stream, err := streamOf(r, given)
	if err != nil {
		return err
	}
	once, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := readBody(r, jsonLines)
	var p *problem.Error
	if errors.As(err, &p) && p.Kind == problem.TooLarge {
		p.Detail += "; send the events in several requests"
	}
	if err != nil {
		return err
	}
	texts, err := splitEvents(body, inLines(r))
	if err != nil {
		return err
	}
	var ids []string
	if once == "" {
		ids, err = s.Append(r.Context(), stream, texts)
	} else {
		ids, err = s.AppendOnce(r.Context(), stream, texts, once)
	}
	var partial *logtail.PartialError
	if errors.As(err, &partial) && len(texts) > 1 {
		writePartial(w, r, partial, err, once)
		return nil
	}
	if err != nil {
		return err
	}
	made := make([]appended, len(ids))
	for i, id := range ids {
		at, err := logtail.KeyTime(id)
		if err != nil {
			return err
		}
		made[i] = appended{id, at}
	}
	writeJSON(w, r, http.StatusCreated, map[string]any{"events": made})
	return nil
}

// writePartial answers a call if some of its events were perhaps not appended.
func writePartial(w http.ResponseWriter, r *http.Request, partial *logtail.PartialError, err error, once string) {
	zerolog.Ctx(r.Context()).Error().Err(err).Msg("some events were perhaps not appended")
	ids := make([]*string, len(partial.IDs))
	known := 0
	for i := range partial.IDs {
		if partial.IDs[i] != "" {
			ids[i] = &partial.IDs[i]
			known++
		}
	}
	retry := "a retry may append them twice"
	if once != "" {
		retry = "a retry with the same Idempotency-Key appends the missing events"
	}
	status := problem.Status(problemOf(partial.Err))
	writeProblemJSON(w, r, status, struct {
		Title  string    `json:"title"`
		Status int       `json:"status"`
		Detail string    `json:"detail"`
		IDs    []*string `json:"ids"`
	}{http.StatusText(status), status, fmt.Sprintf(
		"%d of %d events were appended: those with an id in ids; whether the others were appended is unknown, and %s", known, len(ids), retry), ids})
}

// splitEvents returns the texts of a body's events. The body is one event, an array of events, or lines with one event each.
// splitEvents checks the events up to the first invalid one. If there are several events, an error contains the index of the
// invalid event.
func splitEvents(body []byte, lines bool) (record.Texts, error) {
	texts, several, err := split(body, lines, "event")
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		_, err := record.Parse(text)
		if several {
			for _, p := range problem.All(err) {
				p.Field = strings.TrimSuffix(fmt.Sprintf("[%d].%s", i, p.Field), ".")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func (s streams) read(w http.ResponseWriter, r *http.Request, given url.Values) error {
	stream, err := streamOf(r, given)
	if err != nil {
		return err
	}
	if stream == "" {
		return withQuery(s.list, "top", "cursor")(w, r)
	}
	top, err := readTop(given, defaultEvents, storage.PageRows)
	if err != nil {
		return err
	}
	if given.Has("after") {
		return s.follow(stream, given, top, w, r)
	}
	q := logtail.EventQuery{Top: top, Since: given.Get("since"), Cursor: given.Get("cursor")}
	events := newList(r)
	cursor, err := s.Read(r.Context(), stream, q, func(one logtail.Event) bool { return events.offer(one) })
	if err := events.check(err); err != nil {
		return err
	}
	writeCursored(w, r, "events", events, cursor)
	return nil
}

// follow answers with the stream's events after the position in the parameter "after".
func (s streams) follow(stream string, given url.Values, top int, w http.ResponseWriter, r *http.Request) error {
	if err := checkAfter(given); err != nil {
		return err
	}
	events := newList(r)
	next, err := s.After(r.Context(), stream, given.Get("after"), top, func(one logtail.Event) { events.add(one) })
	if err := events.check(err); err != nil {
		return err
	}
	writeList(w, r, "events", events.texts(), next)
	return nil
}

// checkAfter refuses the parameters "since" and "cursor" beside "after".
func checkAfter(given url.Values) error {
	for _, other := range []string{"since", "cursor"} {
		if given.Has(other) {
			return problem.Invalidf(other, `cannot be combined with "after", which returns the oldest events first; remove one of the two`)
		}
	}
	return nil
}

func (s streams) list(w http.ResponseWriter, r *http.Request, given url.Values) error {
	top, err := readTop(given, defaultStreams, storage.PageRows)
	if err != nil {
		return err
	}
	found, next, err := s.List(r.Context(), top, given.Get("cursor"))
	linkNext(w, r, next)
	return answer(w, r, struct {
		Streams []logtail.StreamInfo `json:"streams"`
		Cursor  string               `json:"cursor,omitempty"`
	}{append([]logtail.StreamInfo{}, found...), next}, err)
}

func (s streams) delete(w http.ResponseWriter, r *http.Request, given url.Values) error {
	stream, err := streamOf(r, given)
	if err != nil {
		return err
	}
	once, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	done, err := s.Delete(r.Context(), stream, claim.Sent{Key: once, Invocation: invocationID(r)})
	return answer(w, r, done, err)
}
