package server

import (
	"io"

	"github.com/rs/zerolog"
)

// newLog returns the handler's log. Warnings and errors go to stderr, which the host
// logs as such; everything else goes to stdout.
func newLog(stdout, stderr io.Writer, level zerolog.Level) zerolog.Logger {
	return zerolog.New(byLevel{stdout, stderr}).Level(level).With().Timestamp().Logger()
}

// byLevel writes warnings and errors to one writer, and everything else to another.
type byLevel struct{ low, high io.Writer }

// Write implements [io.Writer], for lines without a level.
func (b byLevel) Write(p []byte) (int, error) { return b.low.Write(p) }

// WriteLevel implements [zerolog.LevelWriter].
func (b byLevel) WriteLevel(l zerolog.Level, p []byte) (int, error) {
	if l >= zerolog.WarnLevel && l < zerolog.NoLevel {
		return b.high.Write(p)
	}
	return b.low.Write(p)
}
