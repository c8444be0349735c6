package input_test

import (
	"fmt"

	"tablesweep/internal/input"
)

// An unknown, repeated or misspelled name is an error.
func Example() {
	var request struct {
		Table string `json:"table"`
		Top   int    `json:"top"`
	}
	for _, body := range []string{`{"table":"Orders","top":5}`, `{"Table":"Orders"}`, `{"table":"A","table":"B"}`, `{"top":"many"}`} {
		fmt.Println(body, "→", input.JSON([]byte(body), &request))
	}
	for _, query := range []string{"top=5&cursor=", "Top=5", "top=5&top=6", "top="} {
		given, err := input.Query(query, input.Once("top", "cursor"))
		fmt.Println(query, "→", given, err)
	}
	// Output:
	// {"table":"Orders","top":5} → <nil>
	// {"Table":"Orders"} → Table: is not a field at this position; check the field's spelling, case and position
	// {"table":"A","table":"B"} → table: is given twice; give it once
	// {"top":"many"} → top: must be a whole number
	// top=5&cursor= → map[cursor:[] top:[5]] <nil>
	// Top=5 → map[] Top: is not a parameter of this call; it takes top, cursor
	// top=5&top=6 → map[] top: is given 2 times; give it once
	// top= → map[] top: is empty; give it a value or leave it out
}
