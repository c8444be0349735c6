package lines

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Plain escapes text that could control a terminal, in JSON's form \uXXXX: control characters, including line feeds and
// tabs; characters that change the direction of writing; and invalid UTF-8.
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

// PlainWriter writes text in the form of [Plain], but keeps line feeds and tabs. Text that is JSON keeps its meaning.
// Errors, names and rows may contain control characters, so everything that this program writes to a terminal passes
// through a PlainWriter. It is safe for concurrent use.
type PlainWriter struct {
	to io.Writer

	mu  sync.Mutex // guards the field below, and the order of writes
	cut []byte     // the start of an incomplete character
}

// NewPlainWriter returns a writer that passes text to another writer.
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
