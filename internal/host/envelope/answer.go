package envelope

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// ErrNoAnswer is a successful answer without a result: an empty body, or null.
// The host then waits until functionTimeout for a result that never comes.
var ErrNoAnswer = errors.New("the handler answered with an empty body or null, which leaves the host waiting: answer {}")

// Answer is a handler's answer to an invocation.
type Answer struct {
	Outputs     map[string]json.RawMessage
	Logs        []string
	ReturnValue json.RawMessage
}

// ParseAnswer reads a handler's answer. Any error but [ErrNoAnswer] fails the
// invocation.
func ParseAnswer(status int, contentType string, body []byte) (Answer, error) {
	if status < 200 || status > 299 {
		return Answer{}, fmt.Errorf("the handler answered %d %s: %s", status, http.StatusText(status), excerpt(body))
	}
	if len(body) == 0 {
		return Answer{}, ErrNoAnswer
	}
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" && media != "text/json" {
		return Answer{}, fmt.Errorf("the handler answered with Content-Type %q; the host reads application/json only", contentType)
	}
	var a *Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return Answer{}, fmt.Errorf("the handler's answer is not the JSON object that the host reads: %w: %s", err, excerpt(body))
	}
	if a == nil {
		return Answer{}, ErrNoAnswer
	}
	return *a, nil
}

func excerpt(body []byte) string {
	const most = 500
	s := strings.ToValidUTF8(string(body[:min(len(body), most)]), "�")
	if len(body) > most {
		s += "…"
	}
	return s
}

// Response is an answer to an HTTP request.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Response returns the answer's value for the HTTP output binding called
// output: {"StatusCode","Headers","Body"} in Outputs, or in ReturnValue for $return.
// Without a value it is an empty 200.
func (a Answer) Response(output string) (Response, error) {
	raw := a.Outputs[output]
	if output == "$return" {
		raw = a.ReturnValue
	}
	resp := Response{Status: http.StatusOK, Header: http.Header{}}
	if len(raw) == 0 || string(raw) == "null" {
		return resp, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil { // the object may come as a string
		raw = json.RawMessage(text)
	}
	var out struct {
		StatusCode, Status any
		Headers            map[string]string
		Body               json.RawMessage
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return Response{}, fmt.Errorf("output %s is not {StatusCode, Headers, Body}: %w", output, err)
	}
	for _, v := range []any{out.Status, out.StatusCode} { // StatusCode wins
		if n, err := strconv.Atoi(fmt.Sprint(v)); err == nil && n >= 100 && n <= 999 {
			resp.Status = n
		}
	}
	resp.Body = out.Body
	kind := "application/json; charset=utf-8"
	if json.Unmarshal(out.Body, &text) == nil && len(out.Body) > 0 && out.Body[0] == '"' {
		kind, resp.Body = "text/plain; charset=utf-8", []byte(text)
	}
	if len(out.Body) > 0 {
		resp.Header.Set("Content-Type", kind)
	}
	for name, v := range out.Headers {
		resp.Header.Set(name, v)
	}
	return resp, nil
}

// requestBody is the JSON text of a request's body: base64 for bytes.
func requestBody(contentType string, body []byte) string {
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "application/octet-stream" || strings.HasPrefix(media, "multipart/") {
		return quote(base64.StdEncoding.EncodeToString(body))
	}
	return quote(strings.ToValidUTF8(string(body), "�"))
}
