package scans

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

// Export is an export in a container, as a source of rows. It never changes, so each scan opens it once.
type Export struct {
	objects *place.Blobs
	Hash    string        // the export's hash when the scan began; "" before the start
	turn    chan struct{} // guards Content; unlike a mutex, it allows a canceled context to end the wait
	Content *place.Export
}

// Open returns the export's content. The first call reads the manifest, and fails if the place no longer contains the
// export with which the scan began.
func (x *Export) Open(ctx context.Context) (*place.Export, error) {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.Content != nil {
		return x.Content, nil
	}
	content, err := place.Open(ctx, x.objects)
	if err == nil && x.Hash != "" && x.Hash != content.Hash() {
		content, err = nil, fmt.Errorf("%s now contains another export, with the hash %s instead of %s; start a new scan", x.objects.Address(), content.Hash(), x.Hash)
	}
	x.Content = content
	return content, err
}

// Address implements [storage.Source]. The export need not be open.
func (x *Export) Address() string { return x.objects.Address() }

// Read implements [storage.Source]. An error that would occur again is fatal.
func (x *Export) Read(ctx context.Context, options storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	content, err := x.Open(ctx)
	if err == nil {
		p, queries, err = content.Read(ctx, options, q)
	}
	if err != nil && !storage.Passing(err) && !errors.Is(err, memory.ErrFull) {
		err = &FatalError{fmt.Errorf("read the source: %w", err)}
	}
	return p, queries, err
}

// Hints implements [storage.Hinted]. Call Open first.
func (x *Export) Hints(fn func(last key.Key, rows int64)) { x.Content.Hints(fn) }

// Probe opens the export, and checks that it can be read with the request's filter.
func (x *Export) Probe(ctx context.Context, field string, r Request) error {
	_, err := x.Open(ctx)
	if err := place.CheckFilter(r.Filter); err != nil && field == "source" {
		return problem.Invalidf("filter", "%v", err)
	}
	return Unreadable(field, err)
}

// Unreadable converts err, the error of an attempt to open an export, into the error for the caller. A temporary error
// stays unchanged. Every other returned error names `field`, the request's field that describes the export.
func Unreadable(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, place.ErrNoExport), errors.Is(err, fs.ErrNotExist):
		return problem.NotFoundf(field, "%v", err)
	case storage.BeingDeleted(err):
		return problem.BeingDeleted(field+".container", err)
	case storage.Permanent(err):
		return Refusal(field, "the Blob service refuses to read it; check the connection and its permissions", err)
	case storage.Passing(err):
		return err
	}
	return problem.Invalidf(field, "%v", err)
}

// exportAt returns the export named in a request's field. The export is not open yet. Callers must not wrap the
// [*Export], because other code uses the type assertion source.(*Export).
func (ss *Scans) exportAt(field string, ref TableRef) (storage.Source, error) {
	_, objects, err := ss.Blobs(field, ref)
	if err != nil {
		return nil, err
	}
	return &Export{objects: objects, Hash: ref.Export, turn: make(chan struct{}, 1)}, nil
}

// Blobs returns the account and the place that ref names. The place is a prefix of blobs in a container. Errors name the
// request's field that contains ref.
func (ss *Scans) Blobs(field string, ref TableRef) (*storage.Account, *place.Blobs, error) {
	a, err := ss.Account(field, ref.Connection)
	if err != nil {
		return nil, nil, err
	}
	b, err := place.InContainer(a, ref.Container, ref.Prefix)
	if err != nil {
		return nil, nil, problem.Invalidf(field, "%v", err)
	}
	return a, b, nil
}
