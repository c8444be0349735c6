package function

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
)

// Invocation is one call of a queue or timer function.
type Invocation struct {
	// Body is the decoded queue message, or for a timer its schedule as JSON.
	Body []byte
	// Delivery is the number of deliveries of the message, including this one.
	Delivery int
}

// response is the envelope of an answer. The host adds Logs to the invocation's log, but drops them if the invocation failed.
// After an empty body or null, the host would wait until its time-out. (azure-functions-host, DefaultHttpWorkerService.cs)
type response struct {
	Outputs     outputs  `json:"Outputs"`
	Logs        []string `json:"Logs"`
	ReturnValue any      `json:"ReturnValue"`
}

// outputs are the values of the function's output bindings: the answer of an HTTP function, and nothing for other functions.
type outputs struct {
	Answer *httpAnswer `json:"res,omitempty"`
}

// httpAnswer is an HTTP function's answer in an envelope. The host turns any other form into an empty 500.
// (HttpScriptInvocationResultExtensions of azure-functions-host)
type httpAnswer struct {
	Status int               `json:"statusCode"`
	Body   string            `json:"body"`
	Header map[string]string `json:"headers"`
}

// ParseEnvelope parses the host's request for a queue or timer function: the trigger's data under the name of its binding, and
// metadata. Its errors are [problem.Invalid].
func ParseEnvelope(body []byte) (Invocation, error) {
	var r struct{ Data, Metadata map[string]json.RawMessage }
	if err := json.Unmarshal(body, &r); err != nil {
		return Invocation{}, problem.Invalidf("", "the request is not the Functions host's envelope").Because(err)
	}
	if len(r.Data) != 1 {
		return Invocation{}, problem.Invalidf("Data", "has %d values; expected one, the trigger's", len(r.Data))
	}
	i := Invocation{Delivery: 1}
	for _, v := range r.Data {
		i.Body = messageBody(v)
	}
	// A message's own top-level properties overwrite metadata of the same name, so a value
	// that is not a number is ignored.
	if n, err := strconv.Atoi(string(messageBody(r.Metadata["DequeueCount"]))); err == nil && n > 0 {
		i.Delivery = n
	}
	return i, nil
}

// messageBody decodes up to two levels of JSON strings. The host encodes a string twice: as JSON, and the result as a JSON
// string. Its documentation shows one encoding. (azure-functions-host, ScriptInvocationContextExtensions.cs)
func messageBody(v json.RawMessage) []byte {
	for range 2 {
		var s string
		if json.Unmarshal(v, &s) != nil {
			break
		}
		v = json.RawMessage(s)
	}
	return v
}

// invocationHandler handles the host's calls of a queue or timer function.
//
// host: every message, and every due timer. After a status other than 2xx, the host delivers a message again, up to
// maxDequeueCount times.
func invocationHandler(f Function) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := zerolog.Ctx(r.Context()).With().Str("function", f.Name).Logger().WithContext(r.Context())
		log := zerolog.Ctx(ctx) // the function adds fields to it
		report, err := f.handle(ctx, r)
		answer := response{Logs: []string{}}
		status := http.StatusOK
		switch {
		case problem.FateOf(err) != problem.Done:
			status = problem.Status(err)
			answer.Logs = append(answer.Logs, err.Error()) // the host drops it
			if problem.Of(err).Kind != problem.NotReady {  // the log has it once a minute
				log.Error().Err(err).Dur("took", time.Since(start)).Msg("invocation failed")
			}
		case err != nil:
			answer.Logs = append(answer.Logs, "nothing to do: "+err.Error())
		case report != "":
			answer.Logs = append(answer.Logs, report)
		}
		writeJSON(w, r, status, answer)
	})
}

// handle waits until the app is ready, limited only by the invocation's time, and then invokes the function with the request's
// envelope.
func (f Function) handle(ctx context.Context, r *http.Request) (report string, err error) {
	body, err := readBody(r)
	if err != nil {
		return "", err
	}
	i, err := ParseEnvelope(body)
	if err != nil {
		return "", err
	}
	for _, g := range f.gates {
		if err := g.Wait(ctx); err != nil {
			return "", err
		}
	}
	return f.invoke(ctx, i)
}

// notProxiedHandler handles the host's calls of an HTTP function.
//
// host: a host that does not proxy requests puts each of them into an envelope. Its caller gets a 502. Both this answer and the
// function's log give the reason.
func notProxiedHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the envelope is twice as long as the caller's body; if the answer comes before its end, the host turns it into an empty 500
	err := errNotProxied()
	writeJSON(w, r, http.StatusOK, response{
		Outputs: outputs{&httpAnswer{
			Status: problem.Status(err), Body: string(encode(problemBody(problem.Of(err), err))),
			Header: map[string]string{"Content-Type": problemType},
		}},
		Logs: []string{err.Error()},
	})
}
