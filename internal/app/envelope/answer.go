package envelope

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// ErrNoAnswer is the error of a successful answer without a result: an empty body, or null. After such an
// answer, the host waits for a result until functionTimeout.
var ErrNoAnswer = errors.New("the handler answered with an empty body or null, so the host keeps waiting for a result; a handler without a result must answer {}")

// Answer is a handler's answer to an invocation.
type Answer struct {
	Logs []string
}

// ParseAnswer parses a handler's answer. Any error except [ErrNoAnswer] fails the invocation.
func ParseAnswer(status int, contentType string, body []byte) (Answer, error) {
	if status < 200 || status > 299 {
		return Answer{}, fmt.Errorf("the handler answered %d %s: %s", status, http.StatusText(status), excerpt(body))
	}
	if len(body) == 0 {
		return Answer{}, ErrNoAnswer
	}
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" && media != "text/json" {
		return Answer{}, fmt.Errorf("the handler answered with Content-Type %q, but the host reads only application/json", contentType)
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
