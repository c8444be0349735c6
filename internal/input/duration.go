package input

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// durationForm splits a duration into weeks, days, and a rest for [time.ParseDuration].
var durationForm = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(\S*)$`)

// Duration parses a duration of 0 or more, such as 15m, 1d, 2w or 1d12h. A day has 24 hours.
func Duration(text string) (time.Duration, error) {
	var weeks, days int
	var rest time.Duration
	parts := durationForm.FindStringSubmatch(text)
	ok := parts != nil && text != ""
	if ok {
		weeks, _ = strconv.Atoi(parts[1]) // never fails, because the text consists of digits or is empty
		days, _ = strconv.Atoi(parts[2])
	}
	if ok && parts[3] != "" {
		var err error
		rest, err = time.ParseDuration(parts[3])
		ok = err == nil && rest >= 0
	}
	d := time.Duration(7*weeks+days)*24*time.Hour + rest
	if !ok || d < 0 {
		return 0, fmt.Errorf("is %q; it must be a time such as 15m, 12h, 1d, 2w or 1d12h", text)
	}
	return d, nil
}
