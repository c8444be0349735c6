package index_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// show returns the window's range after a row in the form "low..high". "(" means that low is not included, and "" means that
// there is no range.
func show(w index.Window, after string) string {
	r, ok := w.Behind(after)
	if !ok {
		return ""
	}
	var low, high string
	if r.Low != nil {
		low = r.Low.Key
		if r.Low.Open {
			low = "(" + low
		}
	}
	if r.High != nil {
		high = r.High.Key
	}
	return low + ".." + high
}

func TestBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, sort, from, to, after, want string }{
		{"everything", "s", "", "", "", ".."},
		{"everything after a row", "s", "", "", "b:1", "(b:1.."},
		{"from", "s", "Ann", "", "", "ann.."},
		{"a word", "s", "ann", "ann", "", "ann..ano"},
		{"a word with a space", "s", "ann marie", "ann marie", "", "ann marie..ann marif"},
		{"February", "s", "2026-02", "2026-02", "", "2026-02..2026-03"},
		{"to the end of February", "s", "2026-01-01", "2026-02", "", "2026-01-01..2026-03"},
		{"values that are prefixes of the end", "s", "2026-01-01", "2026-02-15", "", "2026-01-01..2026-02;"},
		{"after a row of such a value", "s", "2026-02-01", "2026-02-15", "2026-02-03:0", "(2026-02-03:0..2026-02-1;"},
		{"after a row that skips some values", "s", "2026-02-01", "2026-02-15", "2026-02-17:0", "2026-02-1:..2026-02-1;"},
		{"after a row of the last value", "s", "2026-02-01", "2026-02-15", "2026-02-1:f", "(2026-02-1:f..2026-02-1;"},
		{"after all rows", "s", "2026-02-01", "2026-02-15", "2026-02-1;", ""},
		{"from after to", "s", "b", "a", "", ""},
		{"times of day", "s", "12", "12:30", "", "12..12;"},
		{"escaped", "s", "2026/02", "2026/02", "", "2026.\uFFFD2f02..2026.\uFFFD2f03"},
		{"a row before an illegal character", "s", "a.", "a.", "", "a...a0"},
		{"one year, newest first", "s:newest", "1999", "1999", "", "2524556160000000000..252487151999999999:"},
		{"newest first, since", "s:newest", "2000-01-01T00:00:00Z", "", "", "..252455615999999999:"},
		{"newest first, until", "s:newest", "", "1999-12-31T23:59:59.9999999Z", "", "2524556160000000000.."},
		{"newest first, from after to", "s:newest", "2001", "2000", "", ""},
	} {
		w, err := parse(t, "eid", tt.sort).Window(tt.from, tt.to)
		proof.Must(t, err)
		if got := show(w, tt.after); got != tt.want {
			t.Errorf("%s: the range is %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWindowErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sort, from, to, want string }{
		{"s", "a\xff", "", "row_from: is not valid Unicode"},
		{"s", "", "a\xff", "row_to: is not valid Unicode"},
		{"s", "", strings.Repeat("x", 513), "row_to: is too long"},
		{"s:newest", "202", "", "row_from: \"202\" is neither"},
		{"s:newest", "", "2026-", "row_to: \"2026-\" is neither"},
		{"s:newest", "2026-02-30", "", "row_from:"},
		{"s:newest", "2026-02-15T", "", "row_from:"},
		{"s:newest", "2026-02-15T1", "", "row_from:"},
		{"s:newest", "2026-02-15T10:00:00.", "", "row_from:"},
		{"s:newest", "2026.5", "", "row_from:"},
		{"s:newest", "", "0000", "row_to: the time lies outside"},
		{"s:newest", "faux", "", "row_from:"},
	} {
		if w, err := parse(t, "eid", tt.sort).Window(tt.from, tt.to); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Window(%q, %q) = %v, %v, want %q", tt.from, tt.to, w, err, tt.want)
		}
	}
}

func TestNewestWindowContains(t *testing.T) {
	t.Parallel()
	s := parse(t, "eid", "at:newest")
	for _, tt := range []struct {
		from, to string
		in, out  []string
	}{
		{"2026-02", "2026-02",
			[]string{"2026-02-01", "2026-02-28T23:59:59.9999999Z", "2026-02-01t01:00:00+01:00"},
			[]string{"2026-03-01", "2026-01-31T23:59:59.9999999Z", "2026-02-01T00:59:59+01:00"}},
		{"2026-02-15", "2026-02-16", []string{"2026-02-15", "2026-02-16T23:59:59.99999999Z"}, []string{"2026-02-14T23:59:59Z", "2026-02-17"}},
		{"2026-02-15T10", "2026-02-15T10", []string{"2026-02-15T10:59:59.9Z"}, []string{"2026-02-15T11:00:00Z"}},
		{"2026-02-15T10", "2026-02-15T10:30",
			[]string{"2026-02-15T10:00:00Z", "2026-02-15T10:30:59.9Z"},
			[]string{"2026-02-15T09:59:59.9Z", "2026-02-15T10:31:00Z"}},
		{"2026-02-15T10:00:00Z", "2026-02-15T10:00:00Z",
			[]string{"2026-02-15T10:00:00Z", "2026-02-15T11:00:00.00000009+01:00"},
			[]string{"2026-02-15T10:00:00.0000001Z", "2026-02-15T09:59:59.9999999Z"}},
		{"2026-02-15t10:00:00", "2026-02-15t10:00:00",
			[]string{"2026-02-15T10:00:00.9999999Z"}, []string{"2026-02-15T10:00:01Z"}},
		{"2026-02-15T10:00:00.2", "2026-02-15T10:00:00.25",
			[]string{"2026-02-15T10:00:00.2Z", "2026-02-15T10:00:00.2599999Z"},
			[]string{"2026-02-15T10:00:00.1999999Z", "2026-02-15T10:00:00.26Z"}},
		{"2026-02-15T10:00:00.123456789", "2026-02-15T10:00:00.123456789",
			[]string{"2026-02-15T10:00:00.1234567Z"}, []string{"2026-02-15T10:00:00.1234568Z", "2026-02-15T10:00:00.1234566Z"}},
		{"9999", "9999", []string{"9999-12-31T23:59:59.9999999Z"}, []string{"9998-12-31"}},
		{"0001", "0001", []string{"0001-01-01"}, []string{"0002-01-01"}},
	} {
		w, err := s.Window(tt.from, tt.to)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, at := range slices.Concat(tt.in, tt.out) {
			sort, err := s.SortOf(fields{"at": at}.get)
			if err != nil {
				t.Error(err)
			}
			if got, want := w.Contains(sort), i < len(tt.in); got != want {
				t.Errorf("the window from %s to %s contains %s: %v, want %v", tt.from, tt.to, at, got, want)
			}
		}
	}
}

// naive implements the definition of a window without functions of the package.
type naive struct{ from, to string }

func (n naive) contains(sort string) bool {
	from, to := strings.ToLower(n.from), strings.ToLower(n.to)
	if slices.Compare(ranks(sort), ranks(from)) < 0 {
		return false
	}
	return to == "" || strings.HasPrefix(sort, to) || slices.Compare(ranks(sort), ranks(to)) <= 0
}

// ranks returns numbers for the UTF-16 units of a text. The numbers of control characters lie between those of the space and
// '!'.
func ranks(s string) []int {
	var all []int
	for _, u := range utf16.Encode([]rune(s)) {
		rank := int(u) * 100
		if u < ' ' {
			rank = ' '*100 + 1 + int(u)
		}
		all = append(all, rank)
	}
	return all
}

// stored is a row, with its RowKey and sort value.
type stored struct{ row, sort string }

// rowsFor returns rows with these sort values, in the service's order.
func rowsFor(t *testing.T, s index.Schema, values []string) []stored {
	t.Helper()
	var rows []stored
	for i, v := range values {
		id, err := s.Identity(fields{"eid": fmt.Sprint(i % 3), s.Sort.Field: v}.get)
		proof.Must(t, err)
		checkKey(t, id.Row)
		rows = append(rows, stored{id.Row, id.Sort})
	}
	slices.SortFunc(rows, func(a, b stored) int { return key.Compare(a.row, b.row) })
	return slices.Compact(rows)
}

// read reads the range behind the RowKey after. It returns the rows in the window, in the order of reading, and the number of
// rows that are not in the window.
func read(w index.Window, rows []stored, after string) (found []string, dropped int) {
	behind, ok := w.Behind(after)
	for _, row := range rows {
		switch {
		case !ok || !behind.In("3_eid0").Contains(key.Key{Partition: "3_eid0", Row: row.row}):
		case w.Contains(row.sort):
			found = append(found, row.row)
		default:
			dropped++
		}
	}
	return found, dropped
}

// nasty contains characters that sort near the ends of keys and near their escapes. There are only a few, so values are often
// prefixes of other values.
var nasty = []rune("019ab.-/!\":;~ \t\x00\x1f\\[#?>\u007f\u0085\u009f\u00a0\uFFFC\uFFFD\uFFFE\uFFFF\uD7FF\uE000😀AÅ")

func randomText(r *rand.Rand, alphabet []rune, longest int) string {
	text := make([]rune, r.IntN(longest+1))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

func TestWindowsEqualANaiveWindow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	s := parse(t, "eid", "s")
	var found, dropped int
	rounds := testsize.Of(150, 500)
	for range rounds {
		// With few different characters, values share many prefixes.
		alphabet := make([]rune, 1+r.IntN(5))
		for i := range alphabet {
			alphabet[i] = nasty[r.IntN(len(nasty))]
		}
		values := make([]string, 40)
		for i := range values {
			values[i] = randomText(r, alphabet, 4) + string(alphabet[r.IntN(len(alphabet))])
		}
		rows := rowsFor(t, s, values)
		for range 8 {
			n := naive{randomText(r, alphabet, 4), randomText(r, alphabet, 4)}
			w, err := s.Window(n.from, n.to)
			proof.Must(t, err)
			var want []string
			for _, row := range rows {
				if got := w.Contains(row.sort); got != n.contains(row.sort) {
					t.Fatalf("the window %q contains %q: %v", n, row.sort, got)
				}
				if n.contains(row.sort) {
					want = append(want, row.row)
				}
			}
			got, extra := read(w, rows, "")
			if !slices.Equal(got, want) {
				t.Fatalf("window %q, range %q: the rows read are\n%q, want\n%q", n, show(w, ""), got, want)
			}
			found, dropped = found+len(got), dropped+extra
			for _, row := range rows {
				rest := want
				for len(rest) > 0 && !key.Less(row.row, rest[0]) {
					rest = rest[1:]
				}
				if got, _ := read(w, rows, row.row); !slices.Equal(got, rest) {
					t.Fatalf("window %q after the row %q: the rows read are\n%q, want\n%q", n, row.row, got, rest)
				}
			}
		}
	}
	t.Logf("%d rows in the windows were read, and %d other rows", found, dropped)
	if found < 20*rounds || dropped > found/5 {
		t.Errorf("%d rows in the windows were read, and %d other rows", found, dropped)
	}
}
