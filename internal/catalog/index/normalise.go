package index

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// digits returns only the digits 0 to 9 of the value.
func (k Key) digits(raw string) (string, error) {
	var b strings.Builder
	for _, r := range raw {
		switch {
		case r >= '0' && r <= '9':
			b.WriteRune(r)
		case unicode.IsDigit(r):
			// If these digits were dropped, different identifiers could become equal.
			return "", problem.Invalidf(k.Field, "%q contains non-ASCII digits; use the digits 0 to 9", raw)
		}
	}
	if b.Len() == 0 {
		return "", problem.Invalidf(k.Field, "%q has no digits, but this index key compares only digits", raw)
	}
	return b.String(), nil
}

// recordTime parses the time in a record's field: a time in RFC 3339, or a date, which means midnight UTC.
func recordTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		t, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-02-15T10:30:00Z nor a date such as 2026-02-15", text)
	}
	return t, checkYear(t)
}

// ticksOf returns the first and the last tick of the times that a text means. A time in RFC 3339 means one tick. A text such as
// 2026-02 or 2026-02-15T10 means all times in UTC that start with the text.
func ticksOf(text string) (first, last time.Time, err error) {
	text = strings.ToUpper(text)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, t, checkYear(t)
	}
	whole, fraction, _ := strings.Cut(text, ".")
	second := time.Second
	for range len(fraction) {
		second /= 10
	}
	for _, p := range []struct {
		layout              string
		years, months, days int
		rest                time.Duration
	}{
		{layout: "2006", years: 1},
		{layout: "2006-01", months: 1},
		{layout: "2006-01-02", days: 1},
		{layout: "2006-01-02T15", rest: time.Hour},
		{layout: "2006-01-02T15:04", rest: time.Minute},
		{layout: "2006-01-02T15:04:05", rest: max(second, key.Tick)},
	} {
		if len(whole) != len(p.layout) {
			continue
		}
		// time.Parse accepts a fraction of a second even if the layout has no fraction.
		if first, err := time.Parse(p.layout, text); err == nil {
			next := first.AddDate(p.years, p.months, p.days).Add(p.rest)
			return first, next.Add(-key.Tick), checkYear(first)
		}
	}
	return first, last, fmt.Errorf("%q is neither a time such as 2026-02-15T10:30:00Z nor the beginning of a time, such as 2026-02", text)
}

func checkYear(t time.Time) error {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return errors.New("the time lies outside the years 1 to 9999; correct the year")
	}
	return nil
}
