package logtail_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/logtail"
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
	show := func(how string) func(logtail.Event) {
		return func(e logtail.Event) { fmt.Println(how, string(e.Record.AppendJSON(nil))) }
	}
	start := must(streams.After(ctx, "orders", logtail.Now, 10, show("followed")))
	for _, text := range []string{`{"order":1}`, `{"order":2}`, `{"order":3}`} {
		must(streams.Append(ctx, "orders", record.Decoded{must(record.Parse([]byte(text)))}))
	}
	must(streams.Read(ctx, "orders", logtail.EventQuery{Top: 2}, func(e logtail.Event) (taken bool) {
		show("read")(e)
		return true
	}))
	must(streams.After(ctx, "orders", start.After, 10, show("followed")))
	// Output:
	// read {"order":3}
	// read {"order":2}
	// followed {"order":1}
	// followed {"order":2}
	// followed {"order":3}
}
