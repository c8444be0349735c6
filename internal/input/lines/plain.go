package lines

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Plain returns text without characters that steer a terminal: each control character, line feeds and tabs among them, each
// character that changes the direction of writing, and what is no UTF-8 becomes \uXXXX, as JSON has it.
func Plain(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		writePlain(&b, r)
	}
	return b.String()
}

func writePlain(b *strings.Builder, r rune) {
	if steers(r) || r == utf8.RuneError {
		fmt.Fprintf(b, `\u%04x`, r)
		return
	}
	b.WriteRune(r)
}

func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// PlainWriter passes text on as [Plain] has it, but keeps line feeds and tabs. JSON keeps its meaning. All that this program
// writes on a terminal goes through one, since errors, names and rows come from elsewhere. It is safe for concurrent use.
type PlainWriter struct {
	to io.Writer

	mu  sync.Mutex // guards cut, and the order of writes
	cut []byte     // of a character whose end is not there yet
}

// NewPlainWriter returns a writer that passes text on to another one.
func NewPlainWriter(to io.Writer) *PlainWriter { return &PlainWriter{to: to} }

// Write implements [io.Writer].
func (w *PlainWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	all := append(w.cut, text...)
	for len(all) > 0 && utf8.FullRune(all) {
		r, size := utf8.DecodeRune(all)
		if r == '\n' || r == '\t' {
			b.WriteRune(r)
		} else {
			writePlain(&b, r)
		}
		all = all[size:]
	}
	w.cut = append([]byte(nil), all...)
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}
