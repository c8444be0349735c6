package calendar

import (
	"fmt"
	"time"
)

// Keep contains the number of backups that each rule keeps. The rules are the rules of restic. Last keeps the newest
// backups. Daily keeps the newest backup of each day, Weekly of each week, and Monthly of each month. A day, week or
// month without a backup is not counted. Days are in UTC, and weeks follow ISO 8601.
type Keep struct {
	Last    int `json:"last,omitempty"`
	Daily   int `json:"daily,omitempty"`
	Weekly  int `json:"weekly,omitempty"`
	Monthly int `json:"monthly,omitempty"`
}

// Check returns an error if a number is out of range, or if no rule keeps a backup.
func (k Keep) Check() error {
	for _, n := range []int{k.Last, k.Daily, k.Weekly, k.Monthly} {
		if n < 0 || n > mostKept {
			return fmt.Errorf("each number must be from 0 to %d", mostKept)
		}
	}
	if k == (Keep{}) {
		return fmt.Errorf("must contain the number of backups to keep, such as {\"last\":7,\"monthly\":12}; without \"keep\", all backups are kept")
	}
	return nil
}

const mostKept = 1000

// Outdated returns the indexes of the backups that no rule keeps. The argument `occurrences` contains the occurrences of
// all successful backups, newest first. The newest backup is always kept. The oldest backup is kept if a rule would
// otherwise keep fewer backups than its number in k.
func (k Keep) Outdated(occurrences []time.Time) (outdated []int) {
	rules := []struct {
		left int
		of   func(t time.Time, i int) int
		last int
	}{
		{k.Last, func(_ time.Time, i int) int { return i }, -1},
		{k.Daily, func(t time.Time, _ int) int { return t.Year()*1000 + t.YearDay() }, -1},
		{k.Weekly, func(t time.Time, _ int) int { year, week := t.ISOWeek(); return year*100 + week }, -1},
		{k.Monthly, func(t time.Time, _ int) int { return t.Year()*100 + int(t.Month()) }, -1},
	}
	for i, t := range occurrences {
		keep := i == 0
		for r := range rules {
			rule := &rules[r]
			period := rule.of(t.UTC(), i)
			if rule.left > 0 && (period != rule.last || i == len(occurrences)-1) {
				rule.left, rule.last, keep = rule.left-1, period, true
			}
		}
		if !keep {
			outdated = append(outdated, i)
		}
	}
	return outdated
}
