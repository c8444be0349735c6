package problem_test

import (
	"errors"
	"fmt"

	"tablesweep/internal/problem"
)

// An error's kind decides the status and the text that a caller gets, and whether a message is tried again.
func Example() {
	fates := map[problem.Fate]string{problem.Retry: "retry", problem.Done: "done", problem.Poison: "poison"}
	for _, err := range []error{
		problem.Invalidf("source.table", "is missing; name the table"),
		fmt.Errorf("read the step: %w", problem.Stalef("", "the step is done")),
		problem.Busyf("", "the storage did not answer in time"),
		errors.New("connection reset"),
	} {
		fmt.Println(problem.Status(err), fates[problem.FateOf(err)], problem.Of(err).Detail)
	}
	// Output:
	// 400 poison is missing; name the table
	// 200 done the step is done
	// 503 retry the storage did not answer in time
	// 500 retry something went wrong; see the app's log
}
