// Package health reports which parts of the app work and which are missing: settings, storage and its roles, the clock,
// host.json, queues, and Maintain's last run.
//
// GET /api/health answers with the checks of a running app ([App]). "tablesweep doctor" prints these checks, and makes
// the checks that are possible only from outside ([Doctor]). judge.go decides what a result means, without I/O.
package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"tablesweep/internal/task"
)

// State is the result of a check.
type State string

// The states. Unknown means that this process could not make the check.
const (
	OK      State = "ok"
	Unknown State = "unknown"
	Warning State = "warning"
	Failed  State = "failed"
)

// order lists the states from good to bad.
var order = [...]State{OK, Unknown, Warning, Failed}

// Check is the result for one part of the app.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"` // one line; if the part does not work, the line contains the remedy
}

// Report is the result of all checks at one time.
type Report struct {
	// Status is the worst state of all checks. Unknown counts as OK.
	Status State     `json:"status"`
	At     time.Time `json:"at"`
	Checks []Check   `json:"checks"`
}

// NewReport returns a report of checks.
func NewReport(at time.Time, checks []Check) Report {
	worst := slices.MaxFunc(append([]Check{{State: OK}}, checks...), func(a, b Check) int {
		return cmp.Compare(slices.Index(order[:], a.State), slices.Index(order[:], b.State))
	}).State
	if worst == Unknown {
		worst = OK
	}
	return Report{Status: worst, At: at.UTC(), Checks: checks}
}

// NewCheck returns a check in the state OK with the detail, or a failed check if there is an error.
func NewCheck(name, detail string, err error) Check {
	if err != nil {
		return Check{name, Failed, oneLine(err.Error())}
	}
	return Check{name, OK, detail}
}

// runAll runs the parts concurrently, and returns their checks in the parts' order.
func runAll(parts []func() []Check) []Check {
	found := make([][]Check, len(parts))
	var g task.Group
	for i, part := range parts {
		g.Go(func() error {
			found[i] = part()
			return nil
		})
	}
	if err := g.Wait(); err != nil { // a panic
		return []Check{NewCheck("checks", "", err)}
	}
	return slices.Concat(found...)
}

// If the text of an error is longer than maxDetail characters, the rest is left out. For example, the error of a failed sign-in has many lines.
const maxDetail = 400

// oneLine joins the lines of an error, and removes control characters.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "))
	if text := []rune(s); len(text) > maxDetail {
		return string(text[:maxDetail]) + "…"
	}
	return s
}
