package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// Comparing. A step reads two places as one that has the rows of either, over one range: so a row that one of them lacks belongs to
// the step whose range has it. Pages follow each other, as an export's do, so what one place is ahead of the other is held.

const (
	// heldBytes is what a scan holds of a place that is ahead.
	heldBytes = 16 << 20
	// maxDifferences is how many differences a scan lists, about: steps that end at once don't know of each other.
	maxDifferences = 1000
	// verification ends the id of a scan that verifies another one.
	verification = "-v"
)

// comparing compares the rows of two places.
type comparing struct{ allowExtra bool }

func (comparing) queries() int { return exportQueries }

// compared is what a step has found of the rows of two places. It holds no rows.
type compared struct {
	comparing
	done        ledger.Totals
	differences []action.Failure
	bytes       int64 // of memory, of the differences
}

func (c *compared) page(_ context.Context, _ scan.Step, _ time.Time, rows []storage.Row) ([]storage.Row, error) {
	ofSource, differences := verify.Differences(rows, c.allowExtra)
	c.done.Rows += ofSource
	for _, d := range differences {
		reason := string(d.Kind)
		switch d.Kind {
		case sweep.Missing:
			c.done.Missing++
		case sweep.Extra:
			c.done.Extra++
		default:
			c.done.Different++
			reason += ": " + d.Detail
		}
		f := action.Failure{Key: d.Key.Clone(), Reason: reason}
		c.differences = append(c.differences, f)
		c.bytes += int64(unsafe.Sizeof(f)) + int64(len(f.Key.Partition)+len(f.Key.Row)+len(f.Reason))
	}
	return nil, nil
}

func (*compared) wide() bool { return false }

func (c *compared) uses() int64 { return c.bytes }

func (*compared) room(read int) int { return readBytes - read }

func (c *compared) end(_ context.Context, _ *stepScan, m message, _ int, found *yield, out *outcome) error {
	out.differences = c.differences
	out.done.Rows, out.done.Missing, out.done.Extra, out.done.Different = c.done.Rows, c.done.Missing, c.done.Extra, c.done.Different
	found.blame(out.differences, m.Rows)
	return nil
}

// comparison returns the plan of a comparison, and sets what it reads. Its errors are [problem.Invalid].
func (e *Engine) comparison(r Request, o *opened) (plan, error) {
	const field = "action.destination"
	ref := *r.Action.Destination
	a, err := e.account(field, ref.Connection)
	if err != nil {
		return plan{}, err
	}
	var table *storage.Table
	if ref.Container == "" {
		table = a.Table(ref.Table)
		o.other = table
	} else if o.other, err = e.exportAt(field, ref); err != nil {
		return plan{}, err
	}
	filter, only := r.Filter, ""
	if storage.ComparesTime(filter) { // each place has Timestamps of its own
		filter, only = "", filter
	}
	o.filter = filter
	depth := verify.DepthOf(r.Action.Mode)
	source := o.source
	if r.Action.Proof && o.table() != nil {
		source = perhaps{source}
	}
	o.reader = verify.Pair(source, o.other, depth, only, heldBytes, e.options.Memory)
	return plan{work: comparing{r.Action.AllowExtra}, destination: table, properties: depth != verify.Keys}, nil
}

// perhaps is a table that has no rows if it is not there: who proves its export reads that to the end.
type perhaps struct{ storage.Source }

// Read implements [storage.Source].
func (p perhaps) Read(ctx context.Context, o storage.RequestOptions, q storage.Query) (page storage.Page, queries int, err error) {
	page, queries, err = p.Source.Read(ctx, o, q)
	if storage.Gone(err) {
		return storage.Page{}, queries, nil
	}
	return page, queries, err
}

// verifies returns the request for the scan that verifies a copy. An export is proved; what differs in the source by then is told.
func (r Request) verifies() Request {
	r.Verify = false
	r.Action.Type, r.Action.Proof, r.Action.AllowExtra = Verify, r.exports(), !r.exports()
	return r
}

// askForVerification asks for the scan that verifies one that is about to succeed, if it is to be verified.
func (e *Engine) askForVerification(ctx context.Context, s ledger.Scan) error {
	r, err := requestOf(s)
	if err != nil || !r.Verify {
		return err
	}
	_, err = e.ledger.Ask(ctx, s.ID+verification, jsonOf(r.verifies()))
	return err
}

// mayVerify reports whether a scan that verifies another one may start, and whether it is off: the other one has not succeeded.
func (e *Engine) mayVerify(ctx context.Context, id string) (may, off bool, err error) {
	of, ok := strings.CutSuffix(id, verification)
	if !ok {
		return true, false, nil
	}
	s, err := e.ledger.Scan(ctx, of)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, false, nil
	}
	return s.State == ledger.Succeeded, s.State == ledger.Failed || s.State == ledger.Canceled, err
}

// listDifferences has the ledger keep differences of a step, as many as the scan may still list.
func (e *Engine) listDifferences(ctx context.Context, scan string, out *outcome) error {
	if len(out.differences) == 0 {
		return nil
	}
	found, err := e.ledger.Snapshot(ctx, scan)
	if err != nil {
		return err
	}
	most := max(0, maxDifferences-int(found.Sums.Kept))
	keepFailed(&out.done, out.differences[:min(most, len(out.differences))], keptRows{})
	return nil
}

// judge says how a scan ends whose steps are done. A comparison fails if there are differences, or if an export lacks rows of its manifest.
// The differences of a proof are information: the source may have changed since.
func (e *Engine) judge(ctx context.Context, s ledger.Listed) (as ledger.Ending, err error) {
	as.State = ledger.Succeeded
	r, err := parseStored(s.Request)
	if err != nil || r.Action.Type != Verify {
		return as, err
	}
	o, err := e.open(r)
	if err != nil {
		return as, final(err)
	}
	t := s.Totals
	for _, side := range []struct {
		source storage.Source
		rows   int64
		known  bool
	}{{o.source, t.Rows, true}, {o.other, t.Rows - t.Missing + t.Extra, !r.Action.AllowExtra}} {
		x, ok := side.source.(*export)
		if !ok || !side.known {
			continue
		}
		content, err := x.open(ctx)
		if err != nil {
			return as, err
		}
		if m := content.Manifest(); whole(m, r) && m.Rows != side.rows {
			return differing("%s has %d rows, but %d by its manifest", x.Address(), side.rows, m.Rows), nil
		}
	}
	if r.Action.Proof {
		if t.Rows == 0 || t.Extra > 0 {
			as.NoTable, as.Note, err = o.lacks(ctx)
		}
		return as, err
	}
	if t.Differences() == 0 {
		return as, nil
	}
	first := ""
	err = e.ledger.FailedRows(ctx, s.ID, "", func(_ string, packed []byte) bool {
		if kept, err := parseFailed(packed); err == nil && len(kept.Rows) > 0 {
			row := kept.Rows[0]
			first = "; one is " + action.Failure{Key: key.Key{Partition: row.PartitionKey, Row: row.RowKey}, Reason: row.Reason}.String()
		}
		return first == ""
	})
	return differing("%d rows are missing, %d extra, %d different%s", t.Missing, t.Extra, t.Different, first), err
}

// differing is how a comparison fails.
func differing(format string, args ...any) ledger.Ending {
	return ledger.Ending{State: ledger.Failed, Error: shortened(fmt.Sprintf(format, args...))}
}

// lacks returns 1, and a note, if the source is a table that is gone. Of its rows alone, [perhaps] does not tell that from an empty one.
func (o *opened) lacks(ctx context.Context) (tables int64, note string, err error) {
	if o.table() == nil {
		return 0, "", nil
	}
	_, _, err = o.source.Read(ctx, storage.RequestOptions{}, storage.Query{Top: 1})
	if storage.Gone(err) {
		return 1, "the source has no such table any more", nil
	}
	return 0, "", err
}

// whole reports whether a request is about all rows of an export.
func whole(m place.Manifest, r Request) bool {
	limited := r.Range != key.Bounds{} && (m.Range == nil || *m.Range != r.Range)
	return !limited && (r.Filter == "" || r.Filter == m.Filter)
}

// checkVerify finds what is wrong with a request beside what is with any.
func (r Request) checkVerify(invalid func(field, format string, args ...any)) {
	a := r.Action
	switch {
	case r.Verify && a.Type != Copy:
		invalid("verify", "is an option of copy")
	case r.Verify && a.Map != "":
		invalid("verify", "compares rows as they were read; leave it out, or the map")
	case a.Type != Verify && (a.AllowExtra || a.Proof):
		invalid("action.type", "%s takes neither allowExtra nor proof, which are fields of verify", a.Type)
	case a.Proof && (a.Destination == nil || a.Destination.Container == ""):
		invalid("action.proof", "is of an export; name its container as the destination")
	case a.Type == Verify && storage.ComparesTime(r.Filter) && !a.AllowExtra && !a.Proof:
		invalid("filter", "compares Timestamps, of which each place has its own; leave it out, or set action.allowExtra")
	}
}

// Differences counts the rows that differ between the places of a comparison.
type Differences struct {
	Missing   int64 `json:"missing"`   // only the source has them
	Extra     int64 `json:"extra"`     // only the destination has them
	Different int64 `json:"different"` // both have them, with other content
	// Tables counts those that the source does not have any more. Only a proof goes on without them.
	Tables int64 `json:"tables,omitempty"`
}

// Verification is what became of the scan that verifies a copy.
type Verification struct {
	ID    string       `json:"id"`
	State ledger.State `json:"state,omitempty"` // absent until it is started
	Error string       `json:"error,omitempty"`
}

// related adds to a status what it says of the scan that verifies it, or that it verifies.
func (e *Engine) related(ctx context.Context, st *Status) error {
	st.Verifies, _ = strings.CutSuffix(st.ID, verification)
	if st.Verifies == st.ID {
		st.Verifies = ""
	}
	if !st.Verify || st.State != ledger.Succeeded {
		return nil
	}
	v := Verification{ID: st.ID + verification}
	s, err := e.ledger.Scan(ctx, v.ID)
	if v.State, v.Error = s.State, s.Error; errors.Is(err, ledger.ErrNotFound) {
		var a ledger.Asked
		a, _, err = e.ledger.AskedFor(ctx, v.ID)
		v.Error = a.Refused
	}
	st.Verification = &v
	return err
}

// probeOther finds out whether the other place of a comparison can be read, and keeps to the export that is there.
func (o *opened) probeOther(ctx context.Context) error {
	const field = "action.destination"
	if x, ok := o.other.(*export); ok {
		if err := x.probe(ctx, field, o.request); err != nil {
			return err
		}
		x.hash = x.content.Hash()
		to := *o.request.Action.Destination
		to.Export = x.hash
		o.request.Action.Destination = &to
		return nil
	}
	_, _, err := o.other.Read(ctx, storage.RequestOptions{}, storage.Query{Top: 1})
	if storage.NotFound(err) {
		return problem.NotFoundf(field+".table", "table %s does not exist in that account", o.request.Action.Destination.Table).Because(err)
	}
	if storage.BeingDeleted(err) {
		return problem.BeingDeleted(field+".table", err)
	}
	return refusal(field, "the Table service refuses to read it; check the connection and its permissions", err)
}
