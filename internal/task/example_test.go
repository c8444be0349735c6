package task_test

import (
	"context"
	"fmt"
	"strings"

	"tablesweep/internal/task"
)

// The group's context ends with the first error. A panic becomes an error.
func ExampleWithContext() {
	g, ctx := task.WithContext(context.Background())
	g.SetLimit(2)
	g.Go(func() error {
		<-ctx.Done()
		return ctx.Err()
	})
	g.Go(func() error { panic("a bug") })
	text, stack, _ := strings.Cut(g.Wait().Error(), "\n")
	fmt.Println(text, strings.Contains(stack, "task/example_test.go"))
	// Output: internal error: panic: a bug true
}
