package logtail_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/logtail"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// Events are read newest first, and followed oldest first.
func Example() {
	ctx := context.Background()
	streams := logtail.New(logtail.Options{Table: emulatortest.Example().Table("log")})
	must(0, streams.Prepare(ctx))
	start := must(streams.After(ctx, "orders", logtail.Now, 10))
	for _, text := range []string{`{"order":1}`, `{"order":2}`, `{"order":3}`} {
		must(streams.Append(ctx, "orders", []record.Record{must(record.Parse([]byte(text)))}))
	}
	for _, e := range must(streams.Read(ctx, "orders", logtail.EventQuery{Top: 2})).Events {
		fmt.Println("read", string(e.Record.AppendJSON(nil)))
	}
	for _, e := range must(streams.After(ctx, "orders", start.After, 10)).Events {
		fmt.Println("followed", string(e.Record.AppendJSON(nil)))
	}
	// Output:
	// read {"order":3}
	// read {"order":2}
	// followed {"order":1}
	// followed {"order":2}
	// followed {"order":3}
}
