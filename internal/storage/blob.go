package storage

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"tablesweep/internal/problem/secret"
)

var errNoBlobs = errors.New("the connection has no blob endpoint: add BlobEndpoint to the connection string or set NAME__blobServiceUri")

// CheckContainerName returns an error unless a container's name is legal. The rules are the same as for queues.
// (Microsoft Learn, "Naming and referencing containers, blobs, and metadata")
func CheckContainerName(name string) error {
	if CheckQueueName(name) != nil {
		return fmt.Errorf("container name %s must have 3 to 63 characters: lower-case letters and digits, with single hyphens between them", secret.Name(name))
	}
	return nil
}

// Container gives access to one container of blobs. Blobs are never replaced.
type Container struct {
	account *Account
	name    string
	options RequestOptions
}

// Container returns access to a container, which need not exist. It refuses an illegal name, because the name may come from a row that
// somebody has edited.
func (a *Account) Container(name string) (*Container, error) {
	if a.connection.blobURL == "" {
		return nil, errNoBlobs
	}
	if err := CheckContainerName(name); err != nil {
		return nil, err
	}
	return &Container{account: a, name: name}, nil
}

// Address returns the container's URL, which identifies it.
func (c *Container) Address() string { return c.account.connection.blobURL + "/" + c.name }

// With returns a copy of c whose requests use the options.
func (c *Container) With(o RequestOptions) *Container {
	with := *c
	with.options = o
	return &with
}

// Create makes the container unless it exists.
func (c *Container) Create(ctx context.Context) error {
	_, err := c.send(ctx, createContainer, "create container ", request{method: http.MethodPut, url: aContainer})
	if Conflict(err) {
		return nil
	}
	return err
}

// Put writes `content` to a new blob. The caller must not change the bytes of `content` before Put returns.
// If a blob of that name exists, perhaps from an earlier try, Put changes nothing, and `created` is false.
func (c *Container) Put(ctx context.Context, name string, content []byte) (created bool, err error) {
	_, err = c.send(ctx, putBlob, "put blob "+name+" into container ", request{
		method: http.MethodPut, url: blobURL(name), body: content, header: http.Header{"If-None-Match": {"*"}, "X-Ms-Blob-Type": {"BlockBlob"}},
	})
	if Conflict(err) {
		return false, nil
	}
	return err == nil, err
}

// Get reads length bytes of a blob, starting at offset. At the blob's end, Get returns fewer bytes.
func (c *Container) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if length <= 0 {
		return nil, nil
	}
	op := operation{blobService, []int{http.StatusPartialContent}, func(h http.Header, body []byte) error {
		return wholeRange(h, body, offset, length)
	}}
	content, err := c.send(ctx, op, "get blob "+name+" of container ", request{
		method: http.MethodGet, url: blobURL(name), expect: length, header: http.Header{"X-Ms-Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)}},
	})
	if HasCode(err, "InvalidRange") {
		return nil, nil
	}
	return content, err
}

// wholeRange returns an error unless an answer is exactly the requested part of a blob.
func wholeRange(h http.Header, body []byte, offset, length int64) error {
	var first, last, size int64
	if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err != nil {
		return errors.New("it has no range")
	}
	if end := min(offset+length, size); first != offset || last != end-1 || int64(len(body)) != end-offset {
		return fmt.Errorf("its body has %d bytes, which does not fit the range %s", len(body), h.Get("Content-Range"))
	}
	return nil
}

// Blob is an entry of a list.
type Blob struct {
	Name string
	Size int64 `xml:"Properties>Content-Length"`
}

// List calls fn with the blobs whose names start with the prefix, in order.
func (c *Container) List(ctx context.Context, prefix string, fn func(Blob) error) error {
	for marker := ""; ; {
		query := aContainer + "&comp=list&prefix=" + escape(prefix)
		if marker != "" {
			query += "&marker=" + escape(marker)
		}
		var page blobPage
		op := operation{blobService, []int{http.StatusOK}, func(_ http.Header, body []byte) error {
			page = blobPage{}
			return xml.Unmarshal(body, &page)
		}}
		if _, err := c.send(ctx, op, "list blobs of container ", request{method: http.MethodGet, url: query}); err != nil {
			return err
		}
		for _, b := range page.Blobs {
			if err := fn(b); err != nil {
				return err
			}
		}
		if marker = page.NextMarker; marker == "" {
			return nil
		}
	}
}

// blobPage is the answer to one request of [Container.List]. (Microsoft Learn, "List Blobs")
type blobPage struct {
	XMLName    xml.Name `xml:"EnumerationResults"`
	Blobs      []Blob   `xml:"Blobs>Blob"`
	NextMarker string
}

// Delete removes a blob if it exists.
func (c *Container) Delete(ctx context.Context, name string) error {
	_, err := c.send(ctx, deleteBlob, "delete blob "+name+" of container ", request{method: http.MethodDelete, url: blobURL(name)})
	if NotFound(err) {
		return nil
	}
	return err
}

const (
	blobVersion = "2021-12-02" // the first version that escapes characters that XML cannot contain
	aContainer  = "?restype=container"
)

// blobURL returns a blob's URL, relative to the container's URL.
func blobURL(name string) string { return "/" + strings.ReplaceAll(escape(name), "%2F", "/") }

// send makes a request and returns the body of a good answer. The request's URL is relative to the container's. Errors
// describe the request with `what` and the container's name.
func (c *Container) send(ctx context.Context, op operation, what string, r request) ([]byte, error) {
	x := newExchange(c.options, op)
	x.creates = r.url == aContainer
	r.url = c.account.connection.withSAS(c.Address() + r.url)
	r.contentType = "application/octet-stream"
	header := http.Header{"X-Ms-Version": {blobVersion}, "User-Agent": {userAgent}}
	maps.Copy(header, r.header)
	r.header = header
	if _, err := x.do(ctx, c.account.blobs, what+c.name, r); err != nil {
		return nil, err
	}
	return x.answer, nil
}
