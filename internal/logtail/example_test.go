package logtail_test

import (
	"context"
	"fmt"
	"log"

	"tablesweep/internal/logtail"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
)

// Events are read newest first, and followed oldest first.
func Example() {
	ctx := context.Background()
	streams := logtail.New(logtail.Options{Table: emulatortest.Example().Table("log")})
	if err := streams.Prepare(ctx); err != nil {
		log.Fatal(err)
	}
	start, err := streams.After(ctx, "orders", logtail.Now, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{`{"order":1}`, `{"order":2}`, `{"order":3}`} {
		r, err := record.Parse([]byte(text))
		if err != nil {
			log.Fatal(err)
		}
		if _, err := streams.Append(ctx, "orders", []record.Record{r}); err != nil {
			log.Fatal(err)
		}
	}
	page, err := streams.Read(ctx, "orders", logtail.EventQuery{Top: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Events {
		fmt.Println("read", string(e.Record.AppendJSON(nil)))
	}
	next, err := streams.After(ctx, "orders", start.After, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range next.Events {
		fmt.Println("followed", string(e.Record.AppendJSON(nil)))
	}
	// Output:
	// read {"order":3}
	// read {"order":2}
	// followed {"order":1}
	// followed {"order":2}
	// followed {"order":3}
}
