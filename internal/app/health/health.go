// Package health tells what works and what is missing: settings, storage and its roles, the clock,
// host.json, queues, and when Maintain last ran.
//
// GET /api/health answers with the checks of a running app ([App]), "tablesweep doctor" prints these and those
// that only somebody from outside can make ([Doctor]). What a finding means is decided in judge.go, without I/O.
package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"tablesweep/internal/task"
)

// State is the outcome of a check.
type State string

// The states. Unknown means that the check could not be made here.
const (
	OK      State = "ok"
	Unknown State = "unknown"
	Warning State = "warning"
	Failed  State = "failed"
)

// order holds the states from good to bad.
var order = [...]State{OK, Unknown, Warning, Failed}

// Check is one thing that works or does not.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"` // one line; what to change, if it does not work
}

// Report is the outcome of all checks at one time.
type Report struct {
	// Status is the worst state of the checks; ok if some are only unknown.
	Status State     `json:"status"`
	At     time.Time `json:"at"`
	Checks []Check   `json:"checks"`
}

// NewReport makes the report of checks.
func NewReport(at time.Time, checks []Check) Report {
	worst := slices.MaxFunc(append([]Check{{State: OK}}, checks...), func(a, b Check) int {
		return cmp.Compare(slices.Index(order[:], a.State), slices.Index(order[:], b.State))
	}).State
	if worst == Unknown {
		worst = OK
	}
	return Report{Status: worst, At: at.UTC(), Checks: checks}
}

// Of returns the check of something that is right, or failed with an error.
func Of(name, detail string, err error) Check {
	if err != nil {
		return Check{name, Failed, oneLine(err.Error())}
	}
	return Check{name, OK, detail}
}

// together makes parts of the checks at once, and returns their checks in order.
func together(parts []func() []Check) []Check {
	found := make([][]Check, len(parts))
	var g task.Group
	for i, part := range parts {
		g.Go(func() error {
			found[i] = part()
			return nil
		})
	}
	if err := g.Wait(); err != nil { // a panic
		return []Check{Of("checks", "", err)}
	}
	return slices.Concat(found...)
}

// maxDetail is the most characters of an error that a detail has: sign-ins fail with a page of text.
const maxDetail = 400

// oneLine makes one line of a joined error's lines, fit for a terminal.
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
