package emulator

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tablesweep/internal/emulator/fault"
	"tablesweep/internal/emulator/refusal"
)

// blobService is the Blob service's side of the pipeline.
type blobService struct{ *Emulator }

const (
	maxBlobBody  = 256 << 20 // bytes; the service takes more since version 2019-12-12, this keeps them in memory
	maxBlobsPage = 5000      // in one list
)

func (s blobService) maxBody() int64 { return maxBlobBody }

func (s blobService) head(http.Header, *call, int) {}

func (s blobService) failure(c *call, p *refusal.Error) response {
	return queueService(s).failure(c, p)
}

// parse handles /container and /container/blob.
func (s blobService) parse(c *call) (operation, error) {
	container, name, _ := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
	op := operation{Request: fault.Request{Entities: 1}}
	op.Identity = c.Method + " " + container + "/" + name
	on := blobCondition{c.Header.Get("If-Match"), c.Header.Get("If-None-Match")}
	switch method, comp := c.Method, c.query.Get("comp"); {
	case name == "" && c.query.Get("restype") != "container":
	case name == "" && method == http.MethodPut && comp == "":
		op.Kind = fault.Containers
		op.run = func(time.Time, fault.Plan) (response, error) {
			return response{status: http.StatusCreated}, s.blobs.create(container)
		}
	case name == "" && method == http.MethodGet && comp == "":
		op.Kind = fault.Containers
		op.run = func(time.Time, fault.Plan) (response, error) {
			_, _, err := s.blobs.list(container, "", "")
			return response{status: http.StatusOK}, err
		}
	case name == "" && method == http.MethodGet && comp == "list" && !c.query.Has("delimiter") && !c.query.Has("include"):
		return s.parseList(c, container, op)
	case comp != "" || name == "":
	case method == http.MethodPut && c.Header.Get("x-ms-copy-source") == "":
		switch c.Header.Get("x-ms-blob-type") {
		case "":
			return op, refusal.New(refusal.MissingRequiredHeader, "An HTTP header that's mandatory for this request is not specified.", [2]string{"HeaderName", "x-ms-blob-type"})
		case "BlockBlob":
		default:
			return op, notImplemented()
		}
		op.Kind = fault.PutBlob
		op.run = func(time.Time, fault.Plan) (response, error) {
			b, err := s.blobs.put(container, name, bytes.Clone(c.body), on)
			r := response{status: http.StatusCreated}
			b.describe(&r)
			return r, err
		}
		return op, nil
	case method == http.MethodGet:
		op.Kind = fault.GetBlob
		op.Identity += " " + rangeHeader(c)
		op.run = func(time.Time, fault.Plan) (response, error) {
			b, err := s.blobs.get(container, name, blobCondition{match: on.match})
			if err != nil {
				return response{}, err
			}
			if on.noneMatch == "*" || on.noneMatch == b.etag {
				return response{status: http.StatusNotModified}, nil
			}
			return b.answer(rangeHeader(c))
		}
	case method == http.MethodDelete:
		op.Kind = fault.DeleteBlob
		op.run = func(time.Time, fault.Plan) (response, error) {
			return response{status: http.StatusAccepted}, s.blobs.remove(container, name, on)
		}
	}
	if op.run == nil {
		return op, notImplemented()
	}
	return op, nil
}

// rangeHeader returns the range of a blob that a request asks for.
func rangeHeader(c *call) string {
	if r := c.Header.Get("x-ms-range"); r != "" {
		return r
	}
	return c.Header.Get("Range")
}

// answer is the answer to a request for a range of the blob, or for all of it.
func (b blob) answer(asked string) (response, error) {
	r := response{status: http.StatusOK, contentType: "application/octet-stream", body: b.content}
	b.describe(&r)
	r.set("Accept-Ranges", "bytes")
	r.set("X-Ms-Blob-Type", "BlockBlob")
	if asked == "" {
		return r, nil
	}
	first, last := int64(0), int64(math.MaxInt64)
	if n, _ := fmt.Sscanf(asked, "bytes=%d-%d", &first, &last); n == 0 || first < 0 || last < first {
		return r, nil // a range that is none counts for nothing. (RFC 9110, 14.2)
	}
	size := int64(len(b.content))
	if first >= size {
		return r, refusal.New(refusal.InvalidRange, "The range specified is invalid for the current size of the resource.")
	}
	last = min(last, size-1)
	r.status, r.body = http.StatusPartialContent, b.content[first:last+1]
	r.set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	return r, nil
}

// describe sets the header of an answer about the blob.
func (b blob) describe(r *response) {
	r.set("ETag", b.etag)
	r.set("Last-Modified", httpTime(b.modified))
}

func (s blobService) parseList(c *call, container string, op operation) (operation, error) {
	asked, err := number(c.query, "maxresults", 0, 1, math.MaxInt)
	if err != nil {
		return op, err
	}
	type name struct {
		Encoded string `xml:",attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	type properties struct {
		LastModified  string `xml:"Last-Modified"`
		Etag          string
		ContentLength int    `xml:"Content-Length"`
		ContentType   string `xml:"Content-Type"`
		BlobType      string
	}
	type entry struct {
		Name       name
		Properties properties
	}
	op.Kind, op.Identity = fault.ListBlobs, "blobs "+container+"?"+c.URL.RawQuery
	op.run = func(_ time.Time, plan fault.Plan) (response, error) {
		list := struct {
			XMLName         xml.Name `xml:"EnumerationResults"`
			ServiceEndpoint string   `xml:",attr"`
			ContainerName   string   `xml:",attr"`
			Prefix          string   `xml:",omitempty"`
			Marker          string   `xml:",omitempty"`
			MaxResults      int      `xml:",omitempty"`
			Blobs           []entry  `xml:"Blobs>Blob"`
			NextMarker      string
		}{ServiceEndpoint: s.base(c) + "/", ContainerName: container, Prefix: c.query.Get("prefix"), Marker: c.query.Get("marker"), MaxResults: asked}
		names, blobs, err := s.blobs.list(container, list.Prefix, list.Marker)
		if err != nil {
			return response{}, err
		}
		limit := maxBlobsPage
		if asked > 0 {
			limit = min(asked, maxBlobsPage)
		}
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
		for _, n := range names {
			b := blobs[n]
			e := entry{name{Text: n}, properties{httpTime(b.modified), strings.Trim(b.etag, `"`), len(b.content), "application/octet-stream", "BlockBlob"}}
			if strings.ContainsFunc(n, notXML) {
				e.Name = name{"true", url.PathEscape(n)}
			}
			list.Blobs = append(list.Blobs, e)
		}
		return xmlResponse(http.StatusOK, list), nil
	}
	return op, nil
}

// notXML reports whether XML 1.0 has no such character.
func notXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff'
}
