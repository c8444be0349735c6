package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"tablesweep/internal/action"
	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/storage"
)

// Request describes a scan. It is the body of POST /api/scans and is stored with
// the scan.
type Request struct {
	Source      TableRef   `json:"source"`
	Action      Action     `json:"action"`
	Range       key.Bounds `json:"range,omitzero"`
	Filter      string     `json:"filter,omitempty"`      // OData, in addition to the range
	Select      []string   `json:"select,omitzero"`       // properties to read; all if absent, just the keys if empty
	Strategy    string     `json:"strategy,omitempty"`    // one of strategy.Names
	SegmentSize int        `json:"segmentSize,omitempty"` // rows a query, 1 to 1,000
	// SegmentsPerInvocation is the number of queries that one invocation may
	// make. 0 means the app's setting; without a setting, 4 for a count and 1 for others.
	SegmentsPerInvocation int `json:"segmentsPerInvocation,omitempty"`
	// SegmentsPerFirstPrefix and SegmentsPerSubsequentPrefix are options of the
	// prefix strategy; see [scan.Prefix].
	SegmentsPerFirstPrefix      int `json:"segmentsPerFirstPrefix,omitempty"`
	SegmentsPerSubsequentPrefix int `json:"segmentsPerSubsequentPrefix,omitempty"`
}

// TableRef names a table of one of the app's accounts.
type TableRef struct {
	Table      string `json:"table"`
	Connection string `json:"connection,omitempty"` // a setting's name; the app's own storage if absent
}

// Action is what a scan does with the rows.
type Action struct {
	Type string `json:"type"` // one of the action types
	// Destination is the table that copy and keys write to. Start creates it if it is missing. keys
	// writes a row for each partition: the RowKey is the partition's key.
	Destination *TableRef   `json:"destination,omitempty"`
	Mode        action.Mode `json:"mode,omitempty"`    // for copy; replace if absent
	Queue       *QueueRef   `json:"queue,omitempty"`   // enqueue puts messages into it; Start creates it if it is missing
	Message     string      `json:"message,omitempty"` // enqueue's template, see [action.ParseTemplate]; the row as JSON if absent
}

// QueueRef names a queue of one of the app's accounts.
type QueueRef struct {
	Name       string `json:"name"`
	Connection string `json:"connection,omitempty"` // a setting's name; the app's own storage if absent
}

// The action types.
const (
	Copy    = "copy"
	Count   = "count"
	Keys    = "keys"    // lists the distinct partition keys
	Enqueue = "enqueue" // puts one message a row into a queue, at least once
	Delete  = "delete"  // deletes the rows
)

// actionTypes lists them all.
var actionTypes = []string{Copy, Count, Keys, Enqueue, Delete}

// MaxSegments is the most queries that an invocation may make. It keeps a commit within one transaction of 100 rows: each segment
// adds at most three children, and one more if its rows are handed over.
const MaxSegments = 24

// ParseRequest reads a request, as strictly as [input.JSON] does. Its errors are
// [problem.Invalid]. Those about a field name it.
func ParseRequest(body []byte) (Request, error) {
	var r Request
	if err := input.JSON(body, &r); err != nil {
		return r, err
	}
	return r, r.check()
}

// parseStored reads the request of a scan that is under way. If only a newer version of this
// program can do what it asks for, the error is [problem.Stale]: the scan's steps stay
// pending, and an instance of that version takes them. It does not repeat the checks, which may be
// stricter now than when the scan began.
func parseStored(body []byte) (Request, error) {
	var r Request
	err := input.JSON(body, &r)
	known := slices.Contains(actionTypes, r.Action.Type) &&
		(r.Action.Mode == "" || slices.Contains(action.Modes, r.Action.Mode)) &&
		(r.Strategy == "" || slices.Contains(strategy.Names, r.Strategy))
	if err != nil || !known {
		return r, problem.Stalef("", "the scan needs a newer version of this program; its steps wait for an instance of that version").Because(err)
	}
	return r, nil
}

// check finds what is wrong with a request. It calls no service and fills in
// nothing.
func (r Request) check() error {
	if err := storage.CheckTableName(r.Source.Table); err != nil {
		return problem.Invalidf("source.table", "%v", err)
	}
	if err := r.Action.check(); err != nil {
		return err
	}
	if r.SegmentSize < 0 || r.SegmentSize > storage.PageRows {
		return problem.Invalidf("segmentSize", "must be 1 to %d", storage.PageRows)
	}
	if r.SegmentsPerInvocation < 0 || r.SegmentsPerInvocation > MaxSegments {
		return problem.Invalidf("segmentsPerInvocation", "must be 1 to %d", MaxSegments)
	}
	if err := r.checkStrategy(); err != nil {
		return err
	}
	if len(r.Select) > 0 && !slices.Contains([]string{Copy, Enqueue}, r.Action.Type) {
		return problem.Invalidf("select", "has no effect on %s, which reads only keys; leave it out", r.Action.Type)
	}
	for _, name := range r.Select {
		if !propertyName.MatchString(name) {
			return problem.Invalidf("select", "%q is not a property's name; list names of letters, digits and underscores", name)
		}
	}
	if err := storage.CheckFilter(r.Filter); err != nil {
		return err
	}
	if r.Range.Range().Empty() {
		return problem.Invalidf("range", "prefix, after and before leave no partition key between them")
	}
	return nil
}

// checkStrategy refuses options that the strategy would ignore.
func (r Request) checkStrategy() error {
	if r.Strategy != "" && !slices.Contains(strategy.Names, r.Strategy) {
		return problem.Invalidf("strategy", "%q is unknown; use one of %s", r.Strategy, strings.Join(strategy.Names, ", "))
	}
	if r.Action.Type == Keys && r.Strategy != "" && r.Strategy != strategy.Prefix {
		return problem.Invalidf("strategy", "keys always uses %s, which can step over rows; leave it out", strategy.Prefix)
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"segmentsPerFirstPrefix", r.SegmentsPerFirstPrefix}, {"segmentsPerSubsequentPrefix", r.SegmentsPerSubsequentPrefix}} {
		switch {
		case f.n < 0:
			return problem.Invalidf(f.name, "must be at least 1")
		case f.n > 0 && r.Strategy != strategy.Prefix:
			return problem.Invalidf(f.name, "is an option of the strategy %s; leave it out or choose that one", strategy.Prefix)
		case f.n > 0 && r.Action.Type == Keys:
			return problem.Invalidf(f.name, "is not an option of keys, which steps over rows instead; leave it out")
		}
	}
	return nil
}

func (a Action) check() error {
	if !slices.Contains(actionTypes, a.Type) {
		return problem.Invalidf("action.type", "%q is unknown; use one of %s", a.Type, strings.Join(actionTypes, ", "))
	}
	for _, f := range []struct {
		name  string
		given bool
		needs bool
		by    []string
	}{
		{"destination", a.Destination != nil, true, []string{Copy, Keys}},
		{"mode", a.Mode != "", false, []string{Copy}},
		{"queue", a.Queue != nil, true, []string{Enqueue}},
		{"message", a.Message != "", false, []string{Enqueue}},
	} {
		switch takes := slices.Contains(f.by, a.Type); {
		case f.given && !takes:
			return problem.Invalidf("action."+f.name, "is not a field of %s; leave it out", a.Type)
		case takes && f.needs && !f.given:
			return problem.Invalidf("action."+f.name, "is missing; %s needs it", a.Type)
		}
	}
	if a.Destination != nil {
		if err := storage.CheckTableName(a.Destination.Table); err != nil {
			return problem.Invalidf("action.destination.table", "%v", err)
		}
	}
	if a.Queue != nil {
		if err := storage.CheckQueueName(a.Queue.Name); err != nil {
			return problem.Invalidf("action.queue.name", "%v", err)
		}
	}
	if a.Mode != "" && !slices.Contains(action.Modes, a.Mode) {
		return problem.Invalidf("action.mode", "%q is unknown; use replace, merge, skip or fail", a.Mode)
	}
	return nil
}

// propertyName matches legal names of properties. (Microsoft Learn, "Understanding the
// Table service data model")
var propertyName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{Mn}\p{Nd}_]*$`)

// segmentSize returns the rows of a full page.
func (r Request) segmentSize() int { return cmp.Or(r.SegmentSize, storage.PageRows) }
