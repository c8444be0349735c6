package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"tablesweep/internal/key"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// export is a source of rows: an export in a container. It is opened once, since it never changes.
type export struct {
	objects *place.Blobs
	hash    string        // of the one that the scan began with; "" before it begins
	turn    chan struct{} // has room for the one that opens it, or looks whether it is open
	content *place.Export
}

func (x *export) open(ctx context.Context) (*place.Export, error) {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.content != nil {
		return x.content, nil
	}
	content, err := place.Open(ctx, x.objects)
	if err == nil && x.hash != "" && x.hash != content.Hash() {
		content, err = nil, fmt.Errorf("%s has another export now, %s, not %s; start a new scan", x.objects.Address(), content.Hash(), x.hash)
	}
	x.content = content
	return content, err
}

// Address implements [storage.Source]: an export that is not open yet is where it stands.
func (x *export) Address() string { return x.objects.Address() }

// Read implements [storage.Source]. An error that no repetition mends is fatal.
func (x *export) Read(ctx context.Context, options storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	content, err := x.open(ctx)
	if err == nil {
		p, queries, err = content.Read(ctx, options, q)
	}
	if err != nil && !storage.Passing(err) && !errors.Is(err, memory.ErrFull) {
		err = &fatalError{fmt.Errorf("read the source: %w", err)}
	}
	return p, queries, err
}

// Hints implements [storage.Hinted]. The export must be open.
func (x *export) Hints(fn func(last key.Key, rows int64)) { x.content.Hints(fn) }

// probe opens the export, and finds out whether it can be read.
func (x *export) probe(ctx context.Context, field string, r Request) error {
	_, err := x.open(ctx)
	if err := place.CheckFilter(r.Filter); err != nil && field == "source" {
		return problem.Invalidf("filter", "%v", err)
	}
	return unreadable(field, err)
}

// unreadable returns an error of opening exports as the caller's, who named them in a field, unless it may pass.
func unreadable(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, place.ErrNoExport), errors.Is(err, fs.ErrNotExist):
		return problem.NotFoundf(field, "%v", err)
	case storage.BeingDeleted(err):
		return problem.BeingDeleted(field+".container", err)
	case storage.Permanent(err):
		return refusal(field, "the Blob service refuses to read it; check the connection and its permissions", err)
	case storage.Passing(err):
		return err
	}
	return problem.Invalidf(field, "%v", err)
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

// exportAt returns an export as a source, which is not open yet.
func (ss *Scans) exportAt(field string, ref TableRef) (storage.Source, error) {
	_, objects, err := ss.blobs(field, ref)
	if err != nil {
		return nil, err
	}
	return &export{objects: objects, hash: ref.Export, turn: make(chan struct{}, 1)}, nil
}

func (ss *Scans) blobs(field string, ref TableRef) (*storage.Account, *place.Blobs, error) {
	a, err := ss.account(field, ref.Connection)
	if err != nil {
		return nil, nil, err
	}
	b, err := place.InContainer(a, ref.Container, ref.Prefix)
	if err != nil {
		return nil, nil, problem.Invalidf(field, "%v", err)
	}
	return a, b, nil
}
