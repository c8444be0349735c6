package emulator

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/emulator/fault"
	"tablesweep/internal/emulator/queue"
	"tablesweep/internal/emulator/refusal"
)

// blobService is the Blob service's side of the pipeline. It serves what this program asks of it: containers are created;
// blobs are put, read by ranges, listed and deleted.
type blobService struct{ *Emulator }

const (
	maxBlobBody  = 256 << 20 // bytes; the service takes more since version 2019-12-12, this keeps them in memory
	maxBlobsPage = 5000      // in one list
)

// blobStore holds an account's containers of blobs.
type blobStore struct {
	mu         sync.Mutex                   // guards the containers
	containers map[string]map[string][]byte // by their names, blobs by theirs; what a blob has is never changed
}

// create makes a container.
func (s *blobStore) create(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := queue.CheckName(name); err != nil { // the rules are the same
		return err
	}
	if s.containers[name] != nil {
		return refusal.New("ContainerAlreadyExists", "The specified container already exists.")
	}
	s.containers[name] = make(map[string][]byte)
	return nil
}

// in makes an operation's run of one that needs a container. It is called with the container's blobs, while nobody else is.
func (s *blobStore) in(container string, do func(blobs map[string][]byte, plan fault.Plan) (response, error)) run {
	return func(_ time.Time, plan fault.Plan) (response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		blobs := s.containers[container]
		if blobs == nil {
			return response{}, refusal.New("ContainerNotFound", "The specified container does not exist.")
		}
		return do(blobs, plan)
	}
}

func noBlob() error { return refusal.New("BlobNotFound", "The specified blob does not exist.") }

func (s blobService) maxBody() int64 { return maxBlobBody }

func (s blobService) headers(http.Header, *call, int) {}

func (s blobService) failure(c *call, p *refusal.Error) response {
	return queueService(s).failure(c, p)
}

// parse handles /container and /container/blob.
func (s blobService) parse(c *call) (operation, error) {
	container, name, _ := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
	op := operation{Request: fault.Request{Entities: 1}}
	op.Identity = c.Method + " " + container + "/" + name
	noneMatch := c.Header.Get("If-None-Match")
	switch method, comp := c.Method, c.query.Get("comp"); {
	case c.Header.Get("If-Match") != "" || noneMatch != "" && (noneMatch != "*" || method != http.MethodPut):
	case name == "" && c.query.Get("restype") != "container":
	case name == "" && method == http.MethodPut && comp == "":
		op.Kind = fault.Containers
		op.run = func(time.Time, fault.Plan) (response, error) {
			return response{status: http.StatusCreated}, s.blobs.create(container)
		}
	case name == "" && method == http.MethodGet && comp == "list" && !c.query.Has("delimiter") && !c.query.Has("include"):
		return s.parseList(c, container, op)
	case comp != "" || name == "":
	case method == http.MethodPut && c.Header.Get("x-ms-blob-type") == "BlockBlob" && c.Header.Get("x-ms-copy-source") == "":
		op.Kind = fault.PutBlob
		op.run = s.blobs.in(container, func(blobs map[string][]byte, _ fault.Plan) (response, error) {
			if _, found := blobs[name]; found && noneMatch == "*" {
				return response{}, refusal.New("BlobAlreadyExists", "The specified blob already exists.")
			}
			blobs[name] = bytes.Clone(c.body)
			r := response{status: http.StatusCreated}
			r.set("ETag", `"0x8D0000000000000"`) // no condition but * is served
			return r, nil
		})
	case method == http.MethodGet:
		op.Kind = fault.GetBlob
		op.Identity += " " + c.Header.Get("x-ms-range")
		op.run = s.blobs.in(container, func(blobs map[string][]byte, _ fault.Plan) (response, error) {
			content, found := blobs[name]
			if !found {
				return response{}, noBlob()
			}
			return rangeOf(content, c.Header.Get("x-ms-range"))
		})
	case method == http.MethodDelete:
		op.Kind = fault.DeleteBlob
		op.run = s.blobs.in(container, func(blobs map[string][]byte, _ fault.Plan) (response, error) {
			if _, found := blobs[name]; !found {
				return response{}, noBlob()
			}
			delete(blobs, name)
			return response{status: http.StatusAccepted}, nil
		})
	}
	if op.run == nil {
		return op, notImplemented()
	}
	return op, nil
}

// rangeOf is the answer to a request for a range of a blob, or for all of it.
func rangeOf(content []byte, asked string) (response, error) {
	r := response{status: http.StatusOK, contentType: "application/octet-stream", body: content}
	first, last := 0, math.MaxInt
	if n, _ := fmt.Sscanf(asked, "bytes=%d-%d", &first, &last); n == 0 || first < 0 || last < first {
		return r, nil // a range that is none counts for nothing. (RFC 9110, 14.2)
	}
	if first >= len(content) {
		return r, refusal.New("InvalidRange", "The range specified is invalid for the current size of the resource.")
	}
	last = min(last, len(content)-1)
	r.status, r.body = http.StatusPartialContent, content[first:last+1]
	r.set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
	return r, nil
}

func (s blobService) parseList(c *call, container string, op operation) (operation, error) {
	limit, err := number(c.query, "maxresults", maxBlobsPage, 1, math.MaxInt)
	if err != nil {
		return op, err
	}
	type entry struct {
		Name     string
		Size     int    `xml:"Properties>Content-Length"`
		BlobType string `xml:"Properties>BlobType"`
	}
	op.Kind, op.Identity = fault.ListBlobs, "blobs "+container+"?"+c.URL.RawQuery
	op.run = s.blobs.in(container, func(blobs map[string][]byte, plan fault.Plan) (response, error) {
		list := struct {
			XMLName         xml.Name `xml:"EnumerationResults"`
			ServiceEndpoint string   `xml:",attr"`
			ContainerName   string   `xml:",attr"`
			Blobs           []entry  `xml:"Blobs>Blob"`
			NextMarker      string
		}{ServiceEndpoint: s.base(c) + "/", ContainerName: container}
		prefix, from := c.query.Get("prefix"), c.query.Get("marker")
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(blobs)), func(name string) bool { return !strings.HasPrefix(name, prefix) || name < from })
		limit := min(limit, maxBlobsPage)
		if n := len(names); plan.Short && n > 1 {
			limit = min(limit, 1+int(plan.ShortDraw%uint64(n-1)))
			s.injector.Load().Fired(fault.ShortPage)
		}
		if plan.Empty && len(names) > 0 {
			limit = 0
			s.injector.Load().Fired(fault.EmptyPage)
		}
		if len(names) > limit {
			list.NextMarker, names = names[limit], names[:limit]
		}
		for _, name := range names {
			list.Blobs = append(list.Blobs, entry{name, len(blobs[name]), "BlockBlob"})
		}
		return xmlResponse(http.StatusOK, list), nil
	})
	return op, nil
}
