package hostjson

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeSpan is the text form of a .NET TimeSpan: days, or [days.]hours:minutes[:seconds[.fraction]].
// (Microsoft Learn, "TimeSpan.Parse")
var timeSpan = regexp.MustCompile(`^(-)?(?:(\d{1,8})|(?:(\d{1,8})\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,7}))?)?)$`)

func parseTimeSpan(s string) (time.Duration, error) {
	m := timeSpan.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf(`%q is not a time span such as "00:00:30" or "1.00:00:00"`, s)
	}
	num := func(i int) time.Duration {
		n, _ := strconv.Atoi(m[i]) // n is 0 for ""; other texts have at most 8 digits, so there is no error
		return time.Duration(n)
	}
	days, hours, minutes, seconds := num(2)+num(3), num(4), num(5), num(6)
	fraction, _ := strconv.Atoi((m[7] + "0000000")[:7]) // in units of 100 ns
	if days > 100_000 || hours > 23 || minutes > 59 || seconds > 59 {
		return 0, fmt.Errorf("%q is not a time span: a part is too large", s)
	}
	d := days*24*time.Hour + hours*time.Hour + minutes*time.Minute + seconds*time.Second + time.Duration(fraction)*100
	if m[1] != "" {
		d = -d
	}
	return d, nil
}

func formatTimeSpan(d time.Duration) string {
	s := fmt.Sprintf("%02d:%02d:%02d", int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60)
	if fraction := d % time.Second; fraction != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%07d", fraction/100), "0")
	}
	if days := d / (24 * time.Hour); days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	return s
}
