package lines_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/proof"
)

// PlainWriter escapes all text that controls a terminal, however the text is divided among writes, and keeps all other text.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		"Ärger, 日本 und 🙂 \\u":          "Ärger, 日本 und 🙂 \\u",
		"\x1b[2Ja":                     `\u001b[2Ja`,
		"\u009b31m\x7f\r\a\x00":        `\u009b31m\u007f\u000d\u0007\u0000`,
		"a\u202eb\u2066c\u200f":        `a\u202eb\u2066c\u200f`,
		"\x9b31m, \xffa":               `\ufffd31m, \ufffda`,
		"one\ttwo\nthree":              `one\u0009two\u000athree`,
		"{\"a\":\"\u009b\x7f\u202e\"}": `{"a":"\u009b\u007f\u202e"}`,
	} {
		if got := lines.Plain(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	const text = "a\x1b[0m\tb\nc\u009b日\x9b🙂\u202e\x7f.\n"
	const want = "a\\u001b[0m\tb\nc\\u009b日\\ufffd🙂\\u202e\\u007f.\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := lines.NewPlainWriter(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("wrote %d of %d bytes, error %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("%d bytes at a time: got %q", size, out.String())
		}
	}
}

// JSON has the same meaning after a PlainWriter.
func FuzzPlainJSON(f *testing.F) {
	f.Add("\x1b[2J\u009b\u202e\n\x7f日")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		proof.Must(t, lines.JSON(lines.NewPlainWriter(&out)).Encode(text))
		var plain bytes.Buffer
		_ = lines.JSON(&plain).Encode(text)
		var got, want string
		if json.Unmarshal(out.Bytes(), &got) != nil || json.Unmarshal(plain.Bytes(), &want) != nil || got != want {
			t.Errorf("%q became %q", text, out.Bytes())
		}
		for _, r := range out.String()[:out.Len()-1] {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q contains %q", out.String(), r)
			}
		}
	})
}
