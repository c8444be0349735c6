package task_test

import (
	"context"
	"fmt"
	"strings"

	"tablesweep/internal/task"
)

// The group's context ends with the first error. A panic is an error, too.
func ExampleWithContext() {
	g, ctx := task.WithContext(context.Background())
	g.SetLimit(2)
	g.Go(func() error {
		<-ctx.Done()
		return ctx.Err()
	})
	g.Go(func() error { panic("a bug") })
	text, _, _ := strings.Cut(g.Wait().Error(), "\n") // the stack follows
	fmt.Println(text)
	// Output: internal error: panic: a bug
}
