package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"tablesweep/internal/storage"
)

// Blobs has an export's objects as the blobs of a container whose names start with a prefix and a slash, or as all of them.
type Blobs struct {
	container *storage.Container
	prefix    string // with its slash; "" for the container as a whole
	address   string
}

// maxPrefix leaves room for an object's name: a blob's has 1,024 characters at most.
const maxPrefix = 800

// InContainer returns the objects under a prefix, whose slashes at its ends count for nothing. The error is a
// prefix that names of blobs must not have.
func InContainer(account *storage.Account, container, prefix string) (*Blobs, error) {
	c, err := account.Container(container)
	if err != nil {
		return nil, err
	}
	if prefix, err = cleanPrefix(prefix); err != nil {
		return nil, err
	}
	return &Blobs{c, prefix, c.Address() + "/" + prefix}, nil
}

// CheckPrefix returns what is wrong with a prefix, nil if names of blobs may have it.
func CheckPrefix(prefix string) error {
	_, err := cleanPrefix(prefix)
	return err
}

func cleanPrefix(prefix string) (string, error) {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || strings.HasSuffix(part, ".") { // the service drops these
			return "", fmt.Errorf("prefix %.100q has a part that is empty or ends with a dot", prefix)
		}
	}
	if len(prefix) > maxPrefix || strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return "", fmt.Errorf("prefix %.100q must have at most %d bytes, no control characters and no backslashes", prefix, maxPrefix)
	}
	return prefix + "/", nil
}

// Container returns the container.
func (b *Blobs) Container() *storage.Container { return b.container }

// Make makes the container unless it exists. Who may write blobs may lack the permission to make containers.
func (b *Blobs) Make(ctx context.Context) error {
	err := b.container.Create(ctx)
	if storage.Denied(err) {
		enough := errors.New("enough")
		listErr := b.List(ctx, "", func(string, int64) error { return enough })
		if listErr == nil || errors.Is(listErr, enough) {
			return nil
		}
	}
	return err
}

// With returns the same objects by requests that are made with the options.
func (b *Blobs) With(o storage.RequestOptions) *Blobs {
	return &Blobs{b.container.With(o), b.prefix, b.address}
}

// Address implements [Objects].
func (b *Blobs) Address() string { return b.address }

// Put implements [Objects].
func (b *Blobs) Put(ctx context.Context, name string, parts ...[]byte) (made bool, err error) {
	return b.container.Put(ctx, b.prefix+name, slices.Concat(parts...))
}

// Get implements [Objects].
func (b *Blobs) Get(ctx context.Context, name string, offset, most int64) ([]byte, error) {
	text, err := b.container.Get(ctx, b.prefix+name, offset, most)
	if storage.HasCode(err, "BlobNotFound") {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return text, err
}

// List implements [Objects].
func (b *Blobs) List(ctx context.Context, prefix string, fn func(name string, bytes int64) error) error {
	return b.container.List(ctx, b.prefix+prefix, func(blob storage.Blob) error {
		return fn(strings.TrimPrefix(blob.Name, b.prefix), blob.Size)
	})
}

// Delete implements [Objects].
func (b *Blobs) Delete(ctx context.Context, name string) error {
	return b.container.Delete(ctx, b.prefix+name, "")
}

// Drop removes an object if it is still the one for which this call reads its ETag before it calls stale, and stale reports true.
func (b *Blobs) Drop(ctx context.Context, name string, stale func() (bool, error)) error {
	var etag string
	err := b.container.List(ctx, b.prefix+name, func(blob storage.Blob) error {
		if blob.Name == b.prefix+name {
			etag = blob.ETag
		}
		return nil
	})
	if err != nil || etag == "" {
		return err
	}
	if ok, err := stale(); !ok {
		return err
	}
	return b.container.Delete(ctx, b.prefix+name, etag)
}
