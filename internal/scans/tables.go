package scans

import (
	"errors"
	"path"
	"strings"

	"tablesweep/internal/action"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// IsGroup reports whether the request is for many tables.
func (r Request) IsGroup() bool { return r.Source.Tables != "" }

const anyTable = "table" // in the check of a group's request, this name stands for any of the group's tables

// Member returns the request for the group's member that scans the table.
func (r Request) Member(table string) Request {
	of := func(t TableRef) TableRef {
		if t.Tables = ""; t.Container == "" {
			t.Table = table
		} else {
			t.Prefix = strings.Trim(t.Prefix, "/") + "/" + table
		}
		return t
	}
	r.Source, r.Verify, r.Action.Overwrite = of(r.Source), false, false
	if d := r.Action.Destination; d != nil && r.Action.Type != Keys {
		to := of(*d)
		r.Action.Destination = &to
	}
	return r
}

// checkGroup checks those fields of a group's request that a member's request does not have.
func (r Request) checkGroup() error {
	var errs fieldErrors
	switch d := r.Action.Destination; {
	case r.Source.Table != "":
		errs.add("source", "has both a table and a pattern of tables; leave one out")
	case r.Action.Type == Delete:
		errs.add("source.tables", "is not possible for delete; name one table")
	case r.OverExisting() && r.Source.Container != "" && d.Connection == "":
		errs.add("action.destination.connection", "is missing: many tables are copied only to a connection that the request names; name one, such as %s", storage.HostConnection)
	case d != nil && d.Table != "" && r.Action.Type != Keys:
		errs.add("action.destination.table", "is the name that each table has in the source; leave it out")
	}
	if r.Action.Overwrite && !r.OverExisting() {
		errs.add("action.overwrite", overwriteMisplaced)
	}
	for pattern := range strings.SplitSeq(r.Source.Tables, ",") {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			errs.add("source.tables", "%s is not a pattern such as logs* or log[0-9]; separate several by commas", secret.Name(pattern))
		}
	}
	return errors.Join(errs...)
}

// OverExisting reports whether the request copies many tables into tables that may already exist.
func (r Request) OverExisting() bool {
	return r.IsGroup() && r.Action.Type == Copy && r.Action.Destination != nil && r.Action.Destination.Container == ""
}

// NeedsOverwrite reports whether the request copies many tables, but does not say how to treat existing rows.
func (r Request) NeedsOverwrite() bool {
	return r.OverExisting() && !r.Action.Overwrite && r.Action.Mode != action.Skip && r.Action.Mode != action.Fail
}

const overwriteMisplaced = "is only for a copy of many tables into tables; leave it out"

// TakesTable reports whether a table matches the request's patterns. Case is ignored, as in names of tables.
func (r Request) TakesTable(table string) bool {
	for pattern := range strings.SplitSeq(r.Source.Tables, ",") {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(table)); ok && err == nil {
			return true
		}
	}
	return false
}

// openGroup opens the request of a group. It first opens the request of one member. Then it removes that member's source and work from the result.
func (ss *Scans) openGroup(r Request) (*RunnableScan, error) {
	o, err := ss.Open(r.Member(anyTable))
	if err != nil {
		return nil, err
	}
	if d := o.Destination; d != nil && o.Table() != nil && d.Same(o.Table()) {
		return nil, problem.Invalidf("action.destination.connection", "is the account of the source; name another account")
	}
	o.Request, o.Source = r, nil
	if o.Container == nil {
		o.plan = plan{}
		return o, nil
	}
	_, to, err := ss.Blobs("action.destination", *r.Action.Destination)
	o.plan = plan{Container: to, Prepare: o.Prepare}
	return o, err
}
