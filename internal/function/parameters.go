package function

import (
	"net/http"
	"net/url"
	"strconv"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
)

// parameters returns the query's parameters: none but the allowed ones, each once.
func parameters(r *http.Request, allowed ...string) (url.Values, error) {
	return input.Query(r.URL.RawQuery, input.Once(allowed...))
}

// readTop reads how many items are wanted at most, standard if nothing is said.
func readTop(given url.Values, standard, limit int) (int, error) {
	if !given.Has("top") {
		return standard, nil
	}
	top, err := strconv.Atoi(given.Get("top"))
	if err != nil || top < 1 || top > limit {
		return 0, problem.Invalidf("top", "must be a number from 1 to %d", limit)
	}
	return top, nil
}
