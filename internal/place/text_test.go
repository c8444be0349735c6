package place_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// oddMember returns a member of a row, with its type annotation if necessary. If decode is set, the member may be one that must be decoded.
func oddMember(r *rand.Rand, name string, decode bool) string {
	typed := func(kind, value string) string {
		return fmt.Sprintf(`"%[1]s@odata.type":"Edm.%[2]s","%[1]s":%[3]s`, name, kind, value)
	}
	plain := []string{
		`""`, `"a\u00e9\n\"\\\/<&>"`, `"é😀\ud83d\ude00"`, `"\ud800"`, `"2026-01-01T00:00:00Z"`, "true", "false", "null", "0", "-0", "7", "-2147483648", "2147483648", "3.0", "-0.0", "1E+300", `{"a":1}`,
	}
	annotated := []string{
		typed("Int64", `"9223372036854775807"`), typed("Int64", "3"), typed("Double", `"NaN"`), typed("Double", `"-INF"`), typed("Double", "3"), typed("DateTime", `"2026-01-01T00:00:00.1234567Z"`),
		typed("Guid", `"c9da6455-213d-42c9-9a79-3e9149a57833"`), typed("Binary", `""`), typed("Binary", `"AAEC"`), typed("String", `"s"`), typed("Int32", "3"), typed("Boolean", "true"), typed("Int64", "null"),
		fmt.Sprintf(`"%s":"7","%[1]s@odata.type":"Edm.Int64"`, name),
	}
	if !decode {
		plain, annotated = plain[:len(plain)-1], annotated[:len(annotated)-5]
	}
	if r.IntN(2) == 0 {
		return annotated[r.IntN(len(annotated))]
	}
	return fmt.Sprintf(`"%s":%s`, name, plain[r.IntN(len(plain))])
}

// A file of rows in their original text is the same, byte by byte, as a file of decoded rows. The counts of properties are the same as well.
func TestRowsAreWrittenLikeDecodedRows(t *testing.T) {
	testsize.WithoutRace(t)
	for seed := range uint64(testsize.Of(8, 40)) {
		r := rand.New(rand.NewPCG(seed, 1))
		var files [2]*place.FileDraft
		for i := range files {
			codec, err := place.NewCodec(place.None)
			proof.Must(t, err)
			files[i] = place.NewFile(codec)
		}
		names := []string{"A", "B", "C", "", "Größe", "odata"}
		decode := seed%4 == 3
		if decode {
			names = append(names, `\u0041A`)
		}
		for i := range 330 * (1 - min(1, int(seed%20))) { // more properties than are listed
			names = append(names, fmt.Sprintf("P%d", i))
		}
		odd := r.IntN(3) // the share of rows that differ from the previous row
		members := func() (m []string) {
			m = [][]string{nil, {`"Timestamp":"2026-01-01T00:00:00.1234567Z"`}, {`"odata.etag":"W/\"1\""`, `"Timestamp":"2026-01-01T00:00:00Z"`}}[r.IntN(3)]
			for _, name := range names {
				if r.IntN(3) > 0 {
					m = append(m, oddMember(r, name, decode))
				}
			}
			return m
		}
		last := members()
		for at := 0; at < 1100; {
			var text strings.Builder
			for range 1 + r.IntN(1000/(1+len(names)/20)) {
				if r.IntN(10) < odd*odd {
					last = members()
				}
				row := append([]string{fmt.Sprintf(`"PartitionKey":"p%05d"`, at/7), fmt.Sprintf(`"RowKey":"é%05d"`, at)}, last...)
				if r.IntN(4) < odd {
					r.Shuffle(len(row), func(i, j int) { row[i], row[j] = row[j], row[i] })
				}
				comma := []string{",", ",", " ,\t"}[r.IntN(1+odd)]
				fmt.Fprintf(&text, "{%s}\n", strings.Join(row, comma))
				at++
			}
			for i, file := range files {
				rows, err := storage.ParseLines([]byte(text.String()))
				if i == 1 {
					rows = storage.Rows(entities(rows))
				}
				if err == nil {
					err = file.Add(rows)
				}
				if err != nil {
					t.Fatalf("seed %d: got error %v", seed, err)
				}
			}
		}
		var lines [2]place.File
		var texts [2]string
		for i, file := range files {
			proof.Must(t, file.Pages.End(nil))
			f, content := file.End("000000")
			lines[i], texts[i] = f, string(content)
		}
		if texts[0] != texts[1] {
			t.Fatalf("seed %d (-decoded +as read)\n%s", seed, cmp.Diff(texts[1], texts[0]))
		}
		if diff := cmp.Diff(lines[1].List, lines[0].List); diff != "" || lines[0].More != lines[1].More || lines[0].SHA256 != lines[1].SHA256 {
			t.Fatalf("seed %d: more %v, want %v (-decoded +as read)\n%s", seed, lines[0].More, lines[1].More, diff)
		}
	}
}
