package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// Blobs stores an export's objects as blobs in a container. The blobs' names start with a prefix and a slash. Without a prefix, the export uses the
// whole container.
type Blobs struct {
	container *storage.Container
	prefix    string // ends with a slash; "" for the whole container
	address   string
}

// maxPrefix leaves space for an object's name, because a blob's name has at most 1,024 characters.
const maxPrefix = 800

// InContainer returns the objects below a prefix. It ignores slashes at both ends of the prefix. It returns an error if the
// prefix is not legal in names of blobs.
func InContainer(account *storage.Account, container, prefix string) (*Blobs, error) {
	c, err := account.Container(container)
	if err != nil {
		return nil, err
	}
	if prefix, err = CleanPrefix(prefix); err != nil {
		return nil, err
	}
	return &Blobs{c, prefix, strings.TrimSuffix(c.Address()+"/"+prefix, "/")}, nil
}

// CleanPrefix returns the form that a prefix has in names of blobs: empty, or with a slash at its end. The error explains why the prefix is not legal
// in names of blobs.
func CleanPrefix(prefix string) (string, error) {
	if secret.In(prefix) {
		return "", errors.New("the prefix contains text that looks like a key or a signature; remove this text, because prefixes are stored and shown")
	}
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || strings.HasSuffix(part, ".") { // the service would remove such parts
			return "", fmt.Errorf("prefix %.100q has a part that is empty or ends with a dot", prefix)
		}
	}
	if len(prefix) > maxPrefix || strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return "", fmt.Errorf("prefix %.100q must have at most %d bytes, no control characters and no backslashes", prefix, maxPrefix)
	}
	return prefix + "/", nil
}

// Make creates the container unless it exists. A user may be allowed to write blobs but not to create containers. So
// Make ignores a refusal if it can list the container's blobs.
func (b *Blobs) Make(ctx context.Context) error {
	err := b.container.Create(ctx)
	if storage.Denied(err) && b.List(ctx, "", func(string, int64) error { return nil }) == nil {
		return nil
	}
	return err
}

// With returns a copy of b whose requests use the options.
func (b *Blobs) With(o storage.RequestOptions) *Blobs {
	return &Blobs{b.container.With(o), b.prefix, b.address}
}

// Parents implements [Objects].
func (b *Blobs) Parents() (above []Objects) {
	address := b.address
	for prefix := b.prefix; prefix != ""; {
		prefix = prefix[:strings.LastIndexByte(strings.TrimSuffix(prefix, "/"), '/')+1]
		address = address[:strings.LastIndexByte(address, '/')]
		above = append(above, &Blobs{b.container, prefix, address})
	}
	return above
}

// Address implements [Objects].
func (b *Blobs) Address() string { return b.address }

// Put implements [Objects].
func (b *Blobs) Put(ctx context.Context, name string, content []byte) (made bool, err error) {
	return b.container.Put(ctx, b.prefix+name, content)
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
	return b.container.Delete(ctx, b.prefix+name)
}
