package function

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/record"
)

// inserted is the result for one of several records.
type inserted struct {
	Status int         `json:"status"`
	ID     string      `json:"id,omitempty"`
	Error  *fieldError `json:"error,omitempty"`
}

// insertRecords inserts several records, and answers with a result for each. If once is not "", item n has the Idempotency-Key
// "once n": the records are in several shards, and some may be refused.
func insertRecords(c *catalog.Catalog, items []item, once string, w http.ResponseWriter, r *http.Request) error {
	var records []record.Record
	var at []int // their places in the body
	for n, i := range items {
		if i.err == nil {
			records, at = append(records, i.record), append(at, n)
		}
	}
	var keys func(int) string
	if once != "" {
		keys = func(i int) string { return fmt.Sprintf("%s %d", once, at[i]) } // no caller's key has a blank
	}
	done := c.InsertAll(r.Context(), records, keys)
	results := make([]inserted, len(items))
	for n, i := range items {
		var one catalog.Result
		if one.Err = i.err; i.err == nil {
			one, done = done[0], done[1:]
		}
		results[n] = inserted{Status: http.StatusOK, ID: one.ID}
		switch {
		case one.Err != nil:
			p := problemOf(one.Err)
			results[n] = inserted{Status: problem.Status(p), Error: &fieldError{secret.Hide(p.Field), secret.Hide(detailOf(one.Err))}}
			if results[n].Status >= http.StatusInternalServerError {
				zerolog.Ctx(r.Context()).Error().Err(one.Err).Int("record", n).Msg("record not inserted")
			}
		case one.Outcome == catalog.Created:
			results[n].Status = http.StatusCreated
		}
	}
	return answer(w, r, map[string]any{"results": results}, nil)
}

// detailOf returns an error's text for callers, with the first errors that are joined in it.
func detailOf(err error) string {
	var all []string
	for _, p := range firstOf(err) {
		text := told(p)
		if p.Field != "" && len(all) > 0 {
			text = p.Field + " " + text
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return problemOf(err).Detail
	}
	return strings.Join(all, "; ")
}
