package server

import (
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"tablesweep/internal/problem/secret"
)

// maxValue is the maximum length of a text in a line of the log, in bytes. Without this limit, long keys, messages and callers'
// input could make lines of 64 KB, which the Functions host truncates.
const maxValue = 1000

// newLog returns the handler's log. Warnings and errors go to stderr, so that the host logs them as warnings and errors.
// All other lines go to stdout.
func newLog(stdout, stderr io.Writer, level zerolog.Level) zerolog.Logger {
	return zerolog.New(byLevel{stdout, stderr}).Level(level).With().Timestamp().Logger()
}

// byLevel writes warnings and errors to `high`, and all other lines to `low`.
type byLevel struct{ low, high io.Writer }

// Write implements [io.Writer], for lines without a level.
func (b byLevel) Write(p []byte) (int, error) { return b.WriteLevel(zerolog.NoLevel, p) }

// WriteLevel implements [zerolog.LevelWriter].
func (b byLevel) WriteLevel(l zerolog.Level, p []byte) (int, error) {
	w := b.low
	if l >= zerolog.WarnLevel && l < zerolog.NoLevel {
		w = b.high
	}
	if _, err := w.Write(secret.InJSON(p, func(text string) string { return shorten(secret.Hide(text)) })); err != nil {
		return 0, err
	}
	return len(p), nil
}

// shorten shortens the text so that its JSON has at most maxValue bytes.
func shorten(text string) string {
	whole := text
	for most := min(maxValue, len(whole)); ; most /= 2 {
		if quoted, _ := jsontext.AppendQuote(nil, text); len(quoted) <= maxValue {
			return text
		}
		text = strings.ToValidUTF8(whole[:most-len(`"…"`)], "") + "…"
	}
}
