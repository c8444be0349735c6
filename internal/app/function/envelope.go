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
	// Body is the decoded queue message, or the schedule of a timer as JSON.
	Body []byte
	// Delivery is the number of deliveries of the message, including this one.
	Delivery int
}

// response is the envelope of an answer. Answers without data also have an envelope, because the host would wait until
// its time-out if an answer's body were empty or null. (azure-functions-host, DefaultHttpWorkerService.cs) If the
// invocation succeeds, the host adds Logs to the invocation's log.
type response struct {
	Outputs     outputs  `json:"Outputs"`
	Logs        []string `json:"Logs"`
	ReturnValue any      `json:"ReturnValue"`
}

// outputs contains the answer of an HTTP function. For other functions, it is empty.
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

// ParseEnvelope parses the host's request for a queue or timer function: metadata, and the trigger's data under the name of
// the trigger's binding. Errors are [problem.Invalid].
func ParseEnvelope(body []byte) (Invocation, error) {
	var r struct{ Data, Metadata map[string]json.RawMessage }
	if err := json.Unmarshal(body, &r); err != nil {
		return Invocation{}, problem.Invalidf("", "the request is not the Functions host's envelope").Because(err)
	}
	if len(r.Data) != 1 {
		return Invocation{}, problem.Invalidf("Data", "has %d values; only the trigger's value is expected", len(r.Data))
	}
	i := Invocation{Delivery: 1}
	for _, v := range r.Data {
		i.Body = messageBody(v)
	}
	// If the message has a top-level property DequeueCount, the host sends this property instead of the number of deliveries.
	// So ignore any value that is not a number.
	if n, err := strconv.Atoi(string(messageBody(r.Metadata["DequeueCount"]))); err == nil && n > 0 {
		i.Delivery = n
	}
	return i, nil
}

// messageBody decodes up to two levels of JSON strings. The host encodes a string twice, but the host's documentation
// shows a string that was encoded once. (azure-functions-host, ScriptInvocationContextExtensions.cs)
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
// If the status is not 2xx, the host delivers the message again, until it has delivered the message maxDequeueCount times.
func invocationHandler(f Function) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := zerolog.Ctx(r.Context()).With().Str("function", f.Name).Logger().WithContext(r.Context())
		log := zerolog.Ctx(ctx) // the function adds fields to this log
		report, err := f.handle(ctx, r)
		answer := response{Logs: []string{}}
		status := http.StatusOK
		switch {
		case problem.FateOf(err) != problem.Done:
			status = problem.Status(err)
			answer.Logs = append(answer.Logs, err.Error()) // the host discards Logs of failed invocations, so the error is also logged below
			if problem.Of(err).Kind != problem.NotReady {  // the gate already reports NotReady once a minute
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

// handle waits until the app is ready, and then invokes the function with the request's envelope. The invocation's time limit includes the
// wait.
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

// notProxiedHandler refuses an HTTP request that the host did not proxy, but put into an envelope. The client gets an
// answer with status 502. The answer and the function's log contain the reason.
func notProxiedHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // reads the whole envelope first; otherwise the host would replace the answer by an empty 500
	err := errNotProxied()
	writeJSON(w, r, http.StatusOK, response{
		Outputs: outputs{&httpAnswer{
			Status: problem.Status(err), Body: string(encode(problemBody(problem.Of(err), err))),
			Header: map[string]string{"Content-Type": problemType},
		}},
		Logs: []string{err.Error()},
	})
}
