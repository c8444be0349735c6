package rowmap_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

// TestManual runs the examples of jq's manual on rows, with and without the checks of a map. The results must be equal. The row's
// property In is the example's input, and Out is its output. The test expects the results of gojq, even where gojq differs from jq.
func TestManual(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/manual.txt")
	proof.Must(t, err)
	like, refused := 0, map[string]int{}
	for part := range strings.SplitSeq(string(text), "\n\n") {
		example := strings.Split(strings.TrimSpace(part), "\n")
		for len(example) > 0 && strings.HasPrefix(example[0], "#") {
			example = example[1:]
		}
		if len(example) < 2 {
			continue
		}
		program := ". + {Out: (.In | fromjson | [" + example[0] + "] | tojson)}"
		in := storage.Entity{Key: key.Key{Partition: "p", Row: "r"}, Properties: []storage.Property{storage.StringProperty("In", example[1])}}
		m, err := rowmap.New(rowmap.Options{Program: program})
		if err != nil {
			for _, why := range []string{"the same result for the same row", "cannot be limited", "modules", "is not a jq program"} {
				if strings.Contains(err.Error(), why) {
					refused[why]++
				}
			}
			continue
		}
		rows, err := m.Rows(t.Context(), in)
		got := ""
		if err == nil && len(rows) == 1 {
			got = rows[0].Get("Out")
		}
		plain, plainErr := runPlain(t, program, example[1])
		if got != plain || (err == nil) != (plainErr == nil) {
			t.Errorf("the program %s\nwith the input %s returns %s, error %v\nwant %s, error %v", example[0], example[1], got, err, plain, plainErr)
		}
		var a, b any
		if json.Unmarshal([]byte(got), &a) == nil && json.Unmarshal([]byte("["+strings.Join(example[2:], ",")+"]"), &b) == nil && cmp.Equal(a, b) {
			like++
		}
	}
	want := map[string]int{"cannot be limited": 4, "is not a jq program": 4, "the same result for the same row": 2} // examples with functions that gojq does not have
	if diff := cmp.Diff(want, refused); diff != "" || like != 218 {
		t.Errorf("%d examples have the results of jq's manual; the refused ones differ (-want +got):\n%s", like, diff)
	}
}

// runPlain runs a program without checks.
func runPlain(t *testing.T, program, in string) (string, error) {
	q, err := gojq.Parse(program)
	proof.Must(t, err)
	v, _ := q.Run(map[string]any{"PartitionKey": "p", "RowKey": "r", "In": in}).Next()
	if err, ok := v.(error); ok {
		return "", err
	}
	out, _ := v.(map[string]any)["Out"].(string)
	return out, nil
}
