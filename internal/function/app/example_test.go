package app_test

import (
	"fmt"
	"log"
	"time"

	"tablesweep/internal/function/app"
)

// A timer's schedule has six fields, seconds first.
func ExampleParseSchedule() {
	s, err := app.ParseSchedule("0 */5 * * * *")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Next(time.Date(2026, 1, 1, 12, 3, 20, 0, time.UTC)))
	// Output: 2026-01-01 12:05:00 +0000 UTC
}

// A route takes whole segments.
func ExampleParseRoute() {
	r, err := app.ParseRoute("scans/{id}/{part?}")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Match("scans/25245561/ranges"))
	fmt.Println(r.Match("catalog/records"))
	// Output:
	// true
	// false
}
