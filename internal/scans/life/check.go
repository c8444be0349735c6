package life

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

const (
	maxMembers = 5000
	// concurrentTables limits how many destination tables are read concurrently before a group's copy.
	concurrentTables = 32
)

// unopenedError means that a request cannot be opened with this instance's settings.
type unopenedError struct{ error }

func (u *unopenedError) Unwrap() error { return u.error }

// Checker checks whether a requested scan can run without damage, and prepares its places.
type Checker struct {
	scans  *scans.Scans
	ledger *ledger.Ledger
}

// NewChecker returns a checker of requests for scans.
func NewChecker(of *scans.Scans) *Checker { return &Checker{of, of.Ledger} }

func (ck *Checker) check(ctx context.Context, r scans.Request) (*scans.RunnableScan, error) {
	o, err := ck.scans.Open(r)
	if err != nil {
		return nil, &unopenedError{err}
	}
	if d := o.Destination; d != nil && o.Table() != nil && d.Same(o.Table()) {
		return nil, problem.Invalidf("action.destination", "is the source itself; name another table or connection")
	}
	now, err := ck.scans.Now(ctx)
	if err != nil {
		return nil, err
	}
	if r.IsGroup() {
		o.Began = now.UTC()
		return o, nil
	}
	if o.Destination != nil {
		switch is, err := ledger.IsLedger(ctx, o.Destination); {
		case err != nil:
			return nil, err
		case is:
			return nil, problem.Invalidf("action.destination.table", "is a table in which an app keeps its scans; name another table")
		}
	}
	if err := probe(ctx, o, now); err != nil || o.Other == nil {
		return o, err
	}
	return o, probeOther(ctx, o)
}

// probe reads one row of the source with the request's filter and properties. The argument `now` is used only for an
// export, because an export has no clock.
func probe(ctx context.Context, o *scans.RunnableScan, now time.Time) error {
	r := o.Request
	if x := o.Export(); x != nil {
		o.Began = now.UTC()
		return x.Probe(ctx, "source", r)
	}
	p, _, err := o.Source.Read(ctx, storage.RequestOptions{}, storage.Query{Range: r.Range.Range(), Filter: r.Filter, Select: r.Select, Top: 1})
	switch {
	case err == nil:
		o.Began = p.Date
		return nil
	case r.Action.Proof && storage.Gone(err): // see [storage.OrEmpty]
		return nil
	case storage.NotFound(err):
		return &GoneError{problem.NotFoundf("source.table", "table %s does not exist in the source's account", r.Source.Table).Because(err)}
	case storage.BeingDeleted(err):
		return &GoneError{problem.BeingDeleted("source.table", err)}
	case storage.Permanent(err) && r.Filter != "" && !storage.Denied(err):
		// The query below has only the caller's filter, so positions in the service's error are
		// positions in this filter.
		if _, _, alone := o.Source.Read(ctx, storage.RequestOptions{}, storage.Query{Filter: r.Filter, Top: 1}); storage.Permanent(alone) {
			err = alone
		}
		return problem.Invalidf("filter", "the Table service refuses this filter; check the syntax and the types of the values").Because(err)
	}
	return scans.Refusal("source", "the Table service refuses to read it; check the connection and its permissions", err)
}

// probeOther checks whether the second place of a comparison can be read. If this place is an export, probeOther
// records the export's hash in the request, so that every step reads the same export.
func probeOther(ctx context.Context, o *scans.RunnableScan) error {
	const field = "action.destination"
	if x, ok := o.Other.(*scans.Export); ok {
		if err := x.Probe(ctx, field, o.Request); err != nil {
			return err
		}
		x.Hash = x.Content.Hash()
		to := *o.Request.Action.Destination
		to.Export = x.Hash
		o.Request.Action.Destination = &to
		return nil
	}
	_, _, err := o.Other.Read(ctx, storage.RequestOptions{}, storage.Query{Top: 1})
	if storage.NotFound(err) {
		return problem.NotFoundf(field+".table", "table %s does not exist in the destination's account", o.Request.Action.Destination.Table).Because(err)
	}
	if storage.BeingDeleted(err) {
		return problem.BeingDeleted(field+".table", err)
	}
	return scans.Refusal(field, "the Table service refuses to read it; check the connection and its permissions", err)
}

// prepare creates the destination, and returns the scan's hints. For a group, it sets o.Tables.
func (ck *Checker) prepare(ctx context.Context, id ledger.ScanID, o *scans.RunnableScan) (hints []byte, err error) {
	if o.Request.IsGroup() {
		if o.Tables, err = ck.tablesOf(ctx, id, o.Request); err != nil {
			return nil, err
		}
	}
	if o.Prepare != nil {
		if err := o.Prepare(ctx); err != nil {
			return nil, err
		}
	}
	if hints, err = ck.savedHints(ctx, o); err != nil {
		return nil, err
	}
	if x := o.Export(); x != nil { // each step must read this export, even if another one replaces it during the scan
		x.Hash = x.Content.Hash()
		o.Request.Source.Export = x.Hash
	}
	o.Request.Action.MapHash = o.Request.Action.HashOfMap()
	return hints, nil
}

// savedHints sets o's hints, and returns the packed hints. The hints come from the source, or from an
// earlier scan of the same rows. If the hints are unusable, the result is nil.
func (ck *Checker) savedHints(ctx context.Context, o *scans.RunnableScan) (packed []byte, err error) {
	if source, ok := o.Source.(storage.Hinted); ok {
		return o.UseHints(source), nil
	}
	packed, err = ck.ledger.SavedHints(ctx, o.HintsName())
	if err != nil {
		return nil, err
	}
	if err := o.Use(packed); err != nil {
		scans.WarnOfHints(ctx, err)
		return nil, nil
	}
	return packed, nil
}

// tablesOf returns the sorted names of a group's tables.
func (ck *Checker) tablesOf(ctx context.Context, id ledger.ScanID, r scans.Request) (names []string, err error) {
	if of, ok := id.Verifies(); ok {
		if names, err = ck.copiedTables(ctx, of, r); !errors.Is(err, ledger.ErrNotFound) {
			return names, err
		}
	}
	if r.Source.Container == "" {
		var a *storage.Account
		if a, err = ck.scans.Account("source", r.Source.Connection); err == nil {
			err = a.TableNames(ctx, func(name string) error {
				if !strings.HasPrefix(name, "$") && ck.scans.HostsTable(a.Table(name)) == "" {
					names = append(names, name)
				}
				return nil
			})
		}
		err = scans.Refusal("source", "the Table service refuses to list its tables; check the connection and its permissions", err)
	} else {
		var from *place.Blobs
		if _, from, err = ck.scans.Blobs("source", r.Source); err == nil {
			names, err = exportsIn(ctx, from, r.Source.Tables == "*")
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !r.TakesTable(name) })
	slices.Sort(names)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, problem.NotFoundf("source.tables", "no table of the source's account matches %s", secret.Name(r.Source.Tables))
	case len(names) > maxMembers:
		return nil, problem.Invalidf("source.tables", "%d tables match, but at most %d are allowed; use patterns that match fewer", len(names), maxMembers)
	}
	known := map[string]string{}
	for _, name := range names {
		low := strings.ToLower(name)
		if other, alike := known[low]; alike && r.OverExisting() {
			return nil, problem.Invalidf("source.tables", "%s and %s would become the same table, because the service ignores case; leave one of the two out of this request, and copy it under another name with a second request", other, name)
		}
		known[low] = name
	}
	return names, nil
}

// copiedTables returns the tables that a group has copied. For the verification of an export, it reads tables.json. If
// the export has no tables.json, the verification fails at its end.
func (ck *Checker) copiedTables(ctx context.Context, group ledger.ScanID, r scans.Request) (names []string, err error) {
	if r.Action.Proof {
		var from *place.Blobs
		if _, from, err = ck.scans.Blobs("action.destination", *r.Action.Destination); err != nil {
			return nil, err
		}
		if names, err = exportsIn(ctx, from, true); err == nil || storage.Passing(err) {
			return names, err
		}
	}
	g, err := ck.ledger.Group(ctx, group)
	if err == nil {
		err = json.Unmarshal(g.Tables, &names)
	}
	return names, err
}

// exportsIn returns the names of the exports in a place. If `whole` is true, the place must contain a complete export of
// many tables.
func exportsIn(ctx context.Context, from *place.Blobs, whole bool) (names []string, err error) {
	if !whole {
		names, err = place.ExportsIn(ctx, from)
		return names, scans.Unreadable("source", err)
	}
	all, err := place.OpenTables(ctx, from)
	for _, t := range all.Tables {
		names = append(names, t.Name)
	}
	return names, scans.Unreadable("source", err)
}

// mayOverwrite refuses a copy of many tables that would replace rows, unless the request allows that. Do not call it
// for a started scan, which may have written the rows itself.
func (ck *Checker) mayOverwrite(ctx context.Context, o *scans.RunnableScan) error {
	r := o.Request
	if !r.NeedsOverwrite() {
		return nil
	}
	to, err := ck.scans.Account("action.destination", r.Action.Destination.Connection)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(o.Tables), func(name string) bool { return ck.scans.CheckTable("", to.Table(name)) != nil }) // without tables that the group leaves out
	there, err := to.TableStates(ctx, others, concurrentTables)
	if err != nil {
		return scans.Refusal("action.destination", "the Table service refuses to read the tables of this account; check the connection and its permissions", err)
	}
	if full := storage.WithRows(there); full != nil {
		return problem.Conflictf("action.overwrite", "must be true, because the copy would overwrite rows in %d of %d destination tables (%s); to keep these rows, use the mode \"skip\"", len(full), len(o.Tables), problem.Named(full, namedMembers))
	}
	return nil
}
