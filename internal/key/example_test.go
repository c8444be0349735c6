package key_test

import (
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/key"
)

// The service orders keys by UTF-16 code units: an emoji, which takes a surrogate pair,
// comes before U+FF5E. Go's own order has it behind.
func ExampleCompare() {
	keys := []string{"～", "😀", "z"}
	slices.Sort(keys)
	fmt.Println(keys)
	slices.SortFunc(keys, key.Compare)
	fmt.Println(keys)
	// Output:
	// [z ～ 😀]
	// [z 😀 ～]
}

// All keys with a prefix lie between it and its successor.
func ExampleSuccessor() {
	end, ok := key.Successor("2026-")
	fmt.Println(end, ok)
	_, ok = key.Successor("\uffff")
	fmt.Println(ok)
	// Output:
	// 2026. true
	// false
}

// The newest time has the smallest key, so that a table's first rows are the newest.
func ExampleInverted() {
	day := time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)
	fmt.Println(key.Inverted(day))
	fmt.Println(key.Inverted(day.Add(time.Hour)))
	// Output:
	// 2516322239999999999
	// 2516322203999999999
}
