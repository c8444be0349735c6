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

// inserted is the result for one of several records in a request.
type inserted struct {
	Status int         `json:"status"`
	ID     string      `json:"id,omitempty"`
	Error  *fieldError `json:"error,omitempty"`
}

// maxListedErrors is the number of errors after which insertRecords lists only the first error of each invalid record.
const maxListedErrors = 1000

// insertRecords inserts several records, and answers with a result for each. If the request has the Idempotency-Key "KEY", record n gets the key
// "KEY n". One key for all records would not be enough, because the records are in several shards and some may be refused. Each record is decoded
// twice, for the check and for its insertion.
func insertRecords(c *catalog.Catalog, texts record.Texts, key string, w http.ResponseWriter, r *http.Request) error {
	results := make([]inserted, len(texts))
	var good record.Texts
	var at []int // positions of the valid records in the body
	reported := 0
	for n, text := range texts {
		if _, err := record.Parse(text); err != nil {
			results[n] = refused(err, max(1, min(maxErrors, maxListedErrors-reported)))
			reported += len(problem.All(err))
			continue
		}
		good, at = append(good, text), append(at, n)
	}
	var keys func(int) string
	if key != "" {
		keys = func(i int) string { return fmt.Sprintf("%s %d", key, at[i]) } // different from all keys that callers send, because these contain no blank
	}
	for i, one := range c.InsertAll(r.Context(), good, keys) {
		n := at[i]
		results[n] = inserted{Status: http.StatusOK, ID: one.ID}
		switch {
		case one.Err != nil:
			results[n] = refused(one.Err, maxErrors)
			if results[n].Status >= http.StatusInternalServerError {
				zerolog.Ctx(r.Context()).Error().Err(one.Err).Int("record", n).Msg("the record was not inserted")
			}
		case one.Outcome == catalog.Created:
			results[n].Status = http.StatusCreated
		}
	}
	return answer(w, r, map[string]any{"results": results}, nil)
}

// refused returns the result for a record that was not inserted. For the parameter `most`, see [detailOf].
func refused(err error, most int) inserted {
	p := problemOf(err)
	return inserted{Status: problem.Status(p), Error: &fieldError{secret.Hide(p.Field), secret.Hide(detailOf(err, most))}}
}

// detailOf returns an error's text for callers. If err joins several errors, the text contains at most the given number of them.
func detailOf(err error, most int) string {
	var all []string
	for _, p := range firstOf(err, most) {
		text := publicText(p)
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
