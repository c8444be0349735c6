package lines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/proof"
)

// texts returns lines as "NUMBER TEXT".
func texts(all []lines.Line) []string {
	var out []string
	for _, l := range all {
		out = append(out, fmt.Sprintf("%d %s", l.Number, l.Text))
	}
	return out
}

func read(in io.Reader) (all []string, err error) {
	r := lines.NewReader(in, lines.MaxBytes)
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, texts([]lines.Line{l})...)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	got, err := read(strings.NewReader(lines.ByteOrderMark + "a\r\n\n \t\n  b c  \nlast"))
	if diff := cmp.Diff([]string{"1 a", "4 b c", "5 last"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	long := strings.Repeat("x", lines.MaxBytes-1)
	if got, err := read(strings.NewReader(long + "\n")); err != nil || len(got) != 1 {
		t.Errorf("the longest line: got %d lines, error %v", len(got), err)
	}
	got, err = read(strings.NewReader("a\nb\n" + long + "xx"))
	if len(got) != 2 || err == nil || !strings.Contains(err.Error(), "line 3 is longer") {
		t.Errorf("a line that is too long: got %q, error %v", got, err)
	}
}

// Arriving passes on a line although no further line follows, and passes on waiting lines together. It also passes on lines that were read before an
// interrupt.
func TestArriving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		in, user := io.Pipe()
		defer user.Close()
		write := func(text string) {
			t.Helper()
			if _, err := io.WriteString(user, text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		got, next := make(chan []string), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- lines.Arriving(ctx, in, func(some []lines.Line) error {
				got <- texts(some)
				<-next
				return nil
			})
		}()
		write("a\n")
		if diff := cmp.Diff([]string{"1 a"}, <-got); diff != "" {
			t.Error(diff)
		}
		write("b\nc\n")
		next <- struct{}{}
		if diff := cmp.Diff([]string{"2 b", "3 c"}, <-got); diff != "" {
			t.Error(diff)
		}
		write("d\n")
		interrupt()
		next <- struct{}{}
		if diff := cmp.Diff([]string{"4 d"}, <-got); diff != "" {
			t.Error(diff)
		}
		next <- struct{}{}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of ctx", err)
		}
	})
}

// One call gets a limited number of lines and bytes. No line is lost.
func TestArrivingIsBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ lines, length int }{"many": {5000, 1}, "long": {100, 200_000}} {
		n := 0
		err := lines.Arriving(t.Context(), strings.NewReader(strings.Repeat(strings.Repeat("x", tt.length)+"\n", tt.lines)), func(some []lines.Line) error {
			if len(some) > 1000 || (len(some)-1)*tt.length >= lines.MaxBytes {
				t.Errorf("%s: one call got %d lines", name, len(some))
			}
			for _, l := range some {
				if n++; l.Number != n {
					t.Errorf("%s: line %d has the number %d", name, n, l.Number)
				}
			}
			return nil
		})
		if err != nil || n != tt.lines {
			t.Errorf("%s: got %d lines, error %v", name, n, err)
		}
	}
}

// An error of the input is returned after the lines before it. An error of fn ends the reading.
func TestArrivingFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var got []string
	err := lines.Arriving(t.Context(), io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)), func(some []lines.Line) error {
		got = append(got, texts(some)...)
		return nil
	})
	if !errors.Is(err, broken) || len(got) != 2 {
		t.Errorf("got the lines %q, error %v; want two lines and the error of the input", got, err)
	}
	enough := errors.New("enough")
	if err := lines.Arriving(t.Context(), strings.NewReader("a\n"), func([]lines.Line) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	e := lines.JSON(&b)
	for _, v := range []any{"<a> & <b>", 1} {
		proof.Must(t, e.Encode(v))
	}
	if want := "\"<a> & <b>\"\n1\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
