package scans

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/action"
	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// Request describes a scan. It is the body of POST /api/scans and is stored with the scan.
type Request struct {
	// Name is only for display, and for searches in the list of scans. It has at most maxName characters.
	Name        string     `json:"name,omitempty"`
	Source      TableRef   `json:"source"`
	Action      Action     `json:"action"`
	Range       key.Bounds `json:"range,omitzero"`
	Verify      bool       `json:"verify,omitempty"`      // after a copy or export has succeeded, another scan verifies it
	Filter      string     `json:"filter,omitempty"`      // an OData filter, in addition to the range
	Select      []string   `json:"select,omitzero"`       // properties to read; all if absent, only the keys if empty
	Strategy    string     `json:"strategy,omitempty"`    // one of strategy.Names
	SegmentSize int        `json:"segmentSize,omitempty"` // rows per query, 1 to 1,000
	// SegmentsPerInvocation is the number of queries that one invocation may make. 0 means the app's setting. Without
	// that setting, the number is 16 for an export or a verification, 4 for a count and 1 for other scans.
	SegmentsPerInvocation int `json:"segmentsPerInvocation,omitempty"`
	// SegmentsPerFirstPrefix and SegmentsPerSubsequentPrefix are options of the prefix strategy; see [scan.Prefix].
	SegmentsPerFirstPrefix      int `json:"segmentsPerFirstPrefix,omitempty"`
	SegmentsPerSubsequentPrefix int `json:"segmentsPerSubsequentPrefix,omitempty"`
	// Limits is nil if the scan has no limits. Unless SegmentSize is set, a query reads as many rows as the limits allow in
	// a quarter of a second.
	Limits *Limits `json:"limits,omitempty"`
}

// Exports reports whether the request is a copy into a container.
func (r Request) Exports() bool {
	return r.Action.Type == Copy && r.Action.Destination != nil && r.Action.Destination.Container != ""
}

// TableRef names a table, or an export in a container. The names of an export's blobs start with Prefix and a slash.
type TableRef struct {
	Table      string `json:"table,omitempty"`
	Tables     string `json:"tables,omitempty"` // only in a source: patterns of a group's tables, such as "*" or "logs*,orders"
	Container  string `json:"container,omitempty"`
	Prefix     string `json:"prefix,omitempty"`
	Connection string `json:"connection,omitempty"` // a setting's name; the app's own storage if absent
	// Export is the hash of the export that a scan reads. Start sets it. If another export replaces this one, the scan
	// fails.
	Export string `json:"export,omitempty"`
}

// Action describes what a scan does with the rows.
type Action struct {
	Type string `json:"type"` // one of the action types
	// Destination is the place that the actions "copy" and "keys" write to, and that "verify" compares with. Start creates
	// a missing table or container. For each partition, "keys" writes a row whose RowKey is the partition's key.
	Destination *TableRef   `json:"destination,omitempty"`
	Mode        action.Mode `json:"mode,omitempty"`       // for copy; if absent, "replace"
	Overwrite   bool        `json:"overwrite,omitempty"`  // lets a copy of many tables replace existing rows
	Queue       *QueueRef   `json:"queue,omitempty"`      // for enqueue; Start creates a missing queue
	AllowExtra  bool        `json:"allowExtra,omitempty"` // verify ignores rows that only the destination has
	Proof       bool        `json:"proof,omitempty"`      // for verify: check an export by its hashes, and do not fail because of differences from the source
	Message     string      `json:"message,omitempty"`    // template of enqueue's messages, see [action.ParseTemplate]; if absent, a message is the row as JSON
	// For copy and enqueue, Map is a program that turns each row into zero, one or several rows; see [rowmap]. Start
	// sets MapHash to the hash of this program.
	Map     string `json:"map,omitempty"`
	MapHash string `json:"mapHash,omitempty"`
}

// QueueRef names a queue.
type QueueRef struct {
	Name       string `json:"name"`
	Connection string `json:"connection,omitempty"` // a setting's name; the app's own storage if absent
}

// The action types.
const (
	Copy    = "copy"
	Count   = "count"
	Keys    = "keys"    // lists the distinct partition keys
	Enqueue = "enqueue" // puts a message for each row into a queue, at least once
	Delete  = "delete"
	Verify  = "verify" // compares the rows with the destination's
)

// ActionTypes lists all action types.
var ActionTypes = []string{Copy, Count, Keys, Enqueue, Delete, Verify}

// MaxSegments is the maximum number of queries of an invocation. Each query adds at most four children to the commit:
// three for unread ranges, and one for rows whose writes are handed over (see package engine). So the commit fits into
// one transaction of 100 rows.
const MaxSegments = 24

const maxName = 100

// MaxRequest is the maximum number of bytes in a request, because one property stores the request.
const MaxRequest = 64 << 10

// ParseRequest reads a request, and refuses unknown fields. The returned error joins the errors of all
// fields. Each error is [problem.Invalid] and names its field.
func ParseRequest(body []byte) (Request, error) {
	var r Request
	if err := input.JSON(body, &r); err != nil {
		return r, err
	}
	r.trim()
	var given map[string]any
	if err := input.Part(body, &given); err != nil {
		return r, err
	}
	var errs fieldErrors
	for _, s := range r.sizes() {
		at, field := given, s.field
		if limit, is := strings.CutPrefix(s.field, "limits."); is {
			field = limit
			at, _ = given["limits"].(map[string]any)
		}
		if n, is := at[field]; is && n != nil && s.n == 0 {
			errs.add(s.field, "must be %s", s.allowed())
		}
	}
	errs = append(errs, r.checkSides())
	return r, errors.Join(append(errs, r.Check())...)
}

// checkSides refuses a request that has a connection for the source and none for the destination, because the
// destination's account would be unclear. Stored requests are not checked. In a stored request, a missing connection
// means the app's own storage.
func (r Request) checkSides() error {
	var errs fieldErrors
	missing := func(field, connection string) {
		if r.Source.Connection != "" && connection == "" && !(r.OverExisting() && r.Source.Container != "") { // checkGroup reports that case
			errs.add(field+".connection", "is missing: if the source's connection is given, this connection must be given as well; the app's own storage is %s", storage.HostConnection)
		}
	}
	if d := r.Action.Destination; d != nil {
		missing("action.destination", d.Connection)
	}
	if q := r.Action.Queue; q != nil {
		missing("action.queue", q.Connection)
	}
	return errors.Join(errs...)
}

// size is a number in a request; n is 0 if the request does not contain it.
type size struct {
	field    string
	n, limit int // limit is the maximum; 0 means none
}

func (s size) allowed() string {
	if s.limit == 0 {
		return "at least 1"
	}
	return fmt.Sprintf("1 to %d", s.limit)
}

func (r Request) sizes() []size {
	l := *cmp.Or(r.Limits, &Limits{})
	return []size{
		{"segmentSize", r.SegmentSize, storage.PageRows},
		{"segmentsPerInvocation", r.SegmentsPerInvocation, MaxSegments},
		{"segmentsPerFirstPrefix", r.SegmentsPerFirstPrefix, 0},
		{"segmentsPerSubsequentPrefix", r.SegmentsPerSubsequentPrefix, 0},
		{"limits.rowsPerSecond", l.RowsPerSecond, 0},
		{"limits.requestsPerSecond", l.RequestsPerSecond, 0},
	}
}

// trim removes the white space that a form or a clipboard leaves around names.
func (r *Request) trim() {
	names := []*string{&r.Name, &r.Source.Table, &r.Source.Tables, &r.Source.Connection}
	if d := r.Action.Destination; d != nil {
		names = append(names, &d.Table, &d.Connection)
	}
	if q := r.Action.Queue; q != nil {
		names = append(names, &q.Name, &q.Connection)
	}
	for _, name := range names {
		*name = strings.TrimSpace(*name)
	}
}

// ParseStored reads the stored request of a scan. If only a newer version of the program can run the scan, the error is
// [problem.Stale]. The scan's steps stay pending until an instance of that version runs them. ParseStored does not make
// the checks of [Request.Check] again, because a check may be stricter now than when the scan began.
func ParseStored(body []byte) (Request, error) {
	var r Request
	err := input.JSON(body, &r)
	known := slices.Contains(ActionTypes, r.Action.Type) &&
		(r.Action.Mode == "" || slices.Contains(action.Modes, r.Action.Mode)) &&
		(r.Strategy == "" || slices.Contains(strategy.Names, r.Strategy))
	if err != nil || !known {
		return r, problem.Stalef("", "the scan needs a newer version of this program; the steps of the scan wait for an instance of that version").Because(err)
	}
	return r, nil
}

// Check returns all errors in a request. It calls no service and sets no field.
func (r Request) Check() error {
	if r.IsGroup() {
		return errors.Join(r.checkGroup(), r.Member(anyTable).Check())
	}
	var errs fieldErrors
	invalid := errs.add
	if n := utf8.RuneCountInString(r.Name); n > maxName {
		invalid("name", "has %d characters, but at most %d are allowed", n, maxName)
	}
	if secret.InName(r.Name) {
		invalid("name", "contains text that looks like a key, a signature or a token; remove this text, because requests are stored and shown")
	}
	if r.Action.Overwrite {
		invalid("action.overwrite", overwriteMisplaced)
	}
	errs = append(errs, r.checkNames())
	r.Action.check(&errs)
	for _, s := range r.sizes() {
		if s.n < 0 || s.limit > 0 && s.n > s.limit {
			invalid(s.field, "must be %s", s.allowed())
		}
	}
	r.checkStrategy(invalid)
	r.checkVerify(invalid)
	if len(r.Select) > 0 && slices.Contains([]string{Count, Keys, Delete}, r.Action.Type) {
		invalid("select", "has no effect on %s, which reads only keys; leave it out", r.Action.Type)
	}
	if r.Limits != nil && *r.Limits == (Limits{}) {
		invalid("limits", "must have rowsPerSecond, requestsPerSecond or both, each at least 1")
	}
	if slices.ContainsFunc([]string{r.Range.Prefix, r.Range.After, r.Range.Before}, secret.Labelled) {
		invalid("range", "contains text that looks like a connection string or a signature; remove this text, because requests are stored and shown")
	}
	if r.Range.Range().Empty() {
		invalid("range", "no partition key fits prefix, after and before together")
	}
	return errors.Join(errs...)
}

// checkNames checks the values that become parts of a URL or a query. [Scans.Open] repeats this check, because somebody
// may have edited the stored request.
func (r Request) checkNames() error {
	var errs fieldErrors
	errs = append(errs, r.Source.check("source"))
	if d := r.Action.Destination; d != nil {
		errs = append(errs, d.check("action.destination"))
	}
	if q := r.Action.Queue; q != nil {
		if q.Name == "" {
			errs.add("action.queue.name", "is missing; name a queue")
		} else if err := storage.CheckQueueName(q.Name); err != nil {
			errs.add("action.queue.name", "%v", err)
		}
	}
	for _, name := range r.Select {
		if !storage.IsPropertyName(name) {
			errs.add("select", "%s is not a property's name; list names of letters, digits and underscores", secret.Name(name))
		}
	}
	return errors.Join(append(errs, storage.CheckFilter(r.Filter))...)
}

type fieldErrors []error

func (w *fieldErrors) add(field, format string, args ...any) {
	*w = append(*w, problem.Invalidf(field, format, args...))
}

// checkStrategy refuses options that the strategy would ignore.
func (r Request) checkStrategy(invalid func(field, format string, args ...any)) {
	switch {
	case r.Strategy != "" && !slices.Contains(strategy.Names, r.Strategy):
		invalid("strategy", "%s is unknown; use one of %s", secret.Name(r.Strategy), strings.Join(strategy.Names, ", "))
	case r.Action.Type == Keys && r.Strategy == strategy.Serial:
		invalid("strategy", "keys skips rows, which %s cannot do; leave it out", strategy.Serial)
	}
	for _, s := range r.sizes()[2:4] {
		switch {
		case s.n <= 0:
		case r.Strategy != strategy.Prefix:
			invalid(s.field, "is an option of the strategy %s; leave it out, or choose that strategy", strategy.Prefix)
		case r.Action.Type == Keys:
			invalid(s.field, "is not an option of keys, which skips rows instead; leave it out")
		}
	}
}

func (a Action) check(errs *fieldErrors) {
	invalid := errs.add
	if !slices.Contains(ActionTypes, a.Type) {
		invalid("action.type", "%s is unknown; use one of %s", secret.Name(a.Type), strings.Join(ActionTypes, ", "))
		return
	}
	for _, f := range []struct {
		name  string
		given bool
		needs bool
		by    []string
	}{
		{"destination", a.Destination != nil, true, []string{Copy, Keys, Verify}},
		{"mode", a.Mode != "", false, []string{Copy, Verify}},
		{"queue", a.Queue != nil, true, []string{Enqueue}},
		{"message", a.Message != "", false, []string{Enqueue}},
		{"map", a.Map != "", false, []string{Copy, Enqueue}},
	} {
		switch takes := slices.Contains(f.by, a.Type); {
		case f.given && !takes:
			invalid("action."+f.name, "is not a field of %s; leave it out", a.Type)
		case takes && f.needs && !f.given:
			invalid("action."+f.name, "is missing; %s needs it", a.Type)
		}
	}
	if a.Destination != nil {
		switch {
		case a.Destination.Container == "":
		case a.Type == Verify:
		case a.Type != Copy:
			invalid("action.destination.container", "is only for copy and verify; name a table")
		case a.Destination.Export != "":
			invalid("action.destination.export", "is only for an export that is read; leave it out")
		case a.Mode != "":
			invalid("action.mode", "is for rows that the destination already has, but a new export has none; leave it out")
		}
	}
	if _, err := a.rowMap(); err != nil {
		invalid("action.map", "%v", err)
	}
	if secret.Labelled(a.Map) {
		invalid("action.map", "contains text that looks like a connection string or a signature; remove this text, because requests are stored and shown")
	}
	if a.MapHash != "" && a.MapHash != a.HashOfMap() {
		invalid("action.mapHash", "is not the SHA-256 of action.map; leave it out")
	}
	if a.Mode != "" && !slices.Contains(action.Modes, a.Mode) {
		invalid("action.mode", "%s is unknown; use \"replace\", \"merge\", \"skip\" or \"fail\"", secret.Name(string(a.Mode)))
	}
}

func (a Action) rowMap() (*rowmap.Map, error) {
	if a.Map == "" {
		return nil, nil
	}
	return rowmap.New(rowmap.Options{Program: a.Map})
}

// HashOfMap returns the hash of the action's map, or "" if there is none.
func (a Action) HashOfMap() string {
	if a.Map == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(a.Map)))
}

func (t TableRef) check(field string) error {
	switch {
	case secret.InName(t.Connection): // checked early, because schedules are stored and shown before they run
		return problem.Invalidf(field+".connection", "looks like a secret; give the name of a setting that contains the secret")
	case t.Tables != "":
		return problem.Invalidf(field+".tables", "is only for a source; leave it out")
	case t.Export != "" && t.Container == "":
		return problem.Invalidf(field+".export", "is only for an export in a container; leave it out")
	case t.Container == "" && t.Prefix != "":
		return problem.Invalidf(field+".prefix", "is only for an export in a container; name the container, or leave the prefix out")
	case t.Container == "" && t.Table == "":
		return problem.Invalidf(field+".table", "is missing; name a table or a container")
	case t.Container == "":
		if err := storage.CheckTableName(t.Table); err != nil {
			return problem.Invalidf(field+".table", "%v", err)
		}
	case t.Table != "":
		return problem.Invalidf(field, "has both a table and a container; leave one out")
	default:
		if err := storage.CheckContainerName(t.Container); err != nil {
			return problem.Invalidf(field+".container", "%v", err)
		}
		if _, err := place.CleanPrefix(t.Prefix); err != nil {
			return problem.Invalidf(field+".prefix", "%v", err)
		}
	}
	return nil
}

// PageRows returns the number of rows that a query requests.
func (r Request) PageRows() int { return cmp.Or(r.SegmentSize, r.Limits.rows(), storage.PageRows) }

func (r Request) checkVerify(invalid func(field, format string, args ...any)) {
	a := r.Action
	switch {
	case r.Verify && a.Type != Copy:
		invalid("verify", "is only for copy; leave it out")
	case r.Verify && a.Map != "":
		invalid("verify", "compares rows as they were read, before a map changes them; leave out verify or the map")
	case a.Type != Verify && (a.AllowExtra || a.Proof):
		invalid("action.type", "%s takes neither allowExtra nor proof, which are fields of verify", a.Type)
	case a.Proof && (a.Destination == nil || a.Destination.Container == ""):
		invalid("action.proof", "is only for an export; give its container as the destination")
	case a.Type == Verify && storage.ComparesTime(r.Filter) && !a.AllowExtra && !a.Proof:
		invalid("filter", "compares Timestamps, which differ between places; leave it out, or set action.allowExtra")
	}
}
