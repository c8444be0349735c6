package key_test

import (
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/key"
)

// The service orders keys by UTF-16 code units. An emoji takes a surrogate pair, so it comes before U+FF5E. In Go's own order,
// it comes after U+FF5E.
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

// All keys with a prefix lie between the prefix and its successor.
func ExampleSuccessor() {
	end, ok := key.Successor("2026-")
	fmt.Println(end, ok)
	_, ok = key.Successor("\uffff")
	fmt.Println(ok)
	// Output:
	// 2026. true
	// false
}

// The newest time has the smallest key, so a table's first rows are the newest.
func ExampleInverted() {
	day := time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)
	fmt.Println(key.Inverted(day))
	fmt.Println(key.Inverted(day.Add(time.Hour)))
	// Output:
	// 2516322239999999999
	// 2516322203999999999
}
