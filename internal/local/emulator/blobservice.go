package emulator

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/queue"
	"tablesweep/internal/local/emulator/refusal"
)

// blobService is the part of the pipeline for the Blob service. It supports the requests in blobRoutes, which exports
// and the Functions host need.
type blobService struct{ *Emulator }

const (
	maxBlobBody  = 256 << 20 // bytes; the service has allowed more since version 2019-12-12, but the emulator keeps blobs in memory
	maxBlobsPage = 5000      // the maximum number of blobs in one list
)

// blobStore contains an account's containers.
type blobStore struct {
	mu         sync.Mutex // guards the fields below
	containers map[string]*container
	deleting   map[string]time.Time // when the name of a deleted container becomes free again
	version    int64                // the number of the last write, for ETags
}

type container struct {
	resource
	blobs map[string]*blob
}

type resource struct {
	metadata map[string]string
	etag     string // without its quotes
	modified time.Time
}

// blob is a stored blob. Its content is never changed in place.
type blob struct {
	resource
	lease
	created time.Time
	content []byte
	header  [][2]string // the headers that describe the content, with the names that answers use
	md5     string
}

// contentHeaders are the headers that describe a blob's content, with their default values. In requests, their names
// may have the prefix "x-ms-blob-".
var contentHeaders = [][2]string{{"Content-Type", "application/octet-stream"}, {"Content-Encoding"}, {"Content-Language"}, {"Cache-Control"}, {"Content-Disposition"}}

// stamp returns a resource that was last written at the given time.
func (s *blobStore) stamp(metadata map[string]string, now time.Time) resource {
	s.version = max(s.version+1, now.UnixMicro())
	return resource{metadata, fmt.Sprintf("0x%X", s.version), now.UTC().Truncate(time.Second)}
}

func (r resource) answer(status int, more ...[2]string) response {
	return response{status: status, header: append([][2]string{{"ETag", strconv.Quote(r.etag)}, {"Last-Modified", httpTime(r.modified)}}, more...)}
}

// described returns the answer to a request that reads a resource.
func (r resource) described(more ...[2]string) response {
	for name, value := range r.metadata {
		more = append(more, [2]string{metadataPrefix + name, value})
	}
	return r.answer(http.StatusOK, more...)
}

// encrypted is a header of answers to writes of blobs.
var encrypted = [2]string{"X-Ms-Request-Server-Encrypted", "true"}

// blobCall is the request that a blobService is handling. A blobService handles only one request at a time.
type blobCall struct {
	*call
	s         blobService
	now       time.Time
	plan      fault.Plan
	metadata  map[string]string // from the request
	container string
	name      string     // the blob's name, or ""
	in        *container // nil if it does not exist
	blob      *blob      // nil if it does not exist
}

// blobRoute is a supported request. Its path names the account, a container or a blob (zero, one or two parts).
type blobRoute struct {
	name    string // the name in Microsoft's documentation
	method  string // GET includes HEAD
	parts   int
	comp    string
	kind    fault.Kind
	makes   bool   // the container or blob in the path need not exist, because the request makes it
	headers string // additional allowed headers, without the prefix x-ms-; other x-ms- headers are refused
	run     func(*blobCall) (response, error)
}

var blobRoutes = []blobRoute{
	{"List Containers", http.MethodGet, 0, "list", fault.Containers, false, "", (*blobCall).listContainers},
	{"Create Container", http.MethodPut, 1, "", fault.Containers, true, "meta", (*blobCall).createContainer},
	{"Get Container Properties", http.MethodGet, 1, "", fault.Containers, false, "", (*blobCall).containerProperties},
	{"Delete Container", http.MethodDelete, 1, "", fault.Containers, false, "", (*blobCall).deleteContainer},
	{"List Blobs", http.MethodGet, 1, "list", fault.ListBlobs, false, "", (*blobCall).listBlobs},
	{"Put Blob", http.MethodPut, 2, "", fault.PutBlob, true, "meta lease-id blob-type blob-content-type blob-content-encoding blob-content-language blob-content-disposition blob-content-md5 blob-cache-control", (*blobCall).put},
	{"Get Blob and Get Blob Properties", http.MethodGet, 2, "", fault.GetBlob, false, "lease-id range range-get-content-md5", (*blobCall).get},
	{"Get Blob Metadata", http.MethodGet, 2, "metadata", fault.GetBlob, false, "lease-id", (*blobCall).blobMetadata},
	{"Set Blob Metadata", http.MethodPut, 2, "metadata", fault.PutBlob, false, "meta lease-id", (*blobCall).setMetadata},
	{"Delete Blob", http.MethodDelete, 2, "", fault.DeleteBlob, false, "lease-id delete-snapshots", (*blobCall).delete},
	{"Lease Blob", http.MethodPut, 2, "lease", fault.PutBlob, false, "lease-id lease-action lease-duration lease-break-period proposed-lease-id", (*blobCall).changeLease},
}

// ServedBlobs returns a sentence that lists what the Blob service supports and refuses.
func ServedBlobs() string {
	var names []string
	for _, r := range blobRoutes {
		names = append(names, r.name)
	}
	return "The Blob service has " + strings.Join(names, ", ") + " (acquire, renew, release, break). All blobs are block blobs, and one request writes a whole blob. Any other operation gets 501, with the operation's name."
}

// usualHeaders are the headers that every request may have, without the prefix "x-ms-".
const usualHeaders = "version date client-request-id return-client-request-id useragent "

func noBlob() error { return refusal.New("BlobNotFound", "The specified blob does not exist.") }

func notPart(what string) error {
	return refusal.New("NotImplemented", what+" is not part of embedded storage. Use Azurite for it.")
}

func (s blobService) maxBody() int64 { return maxBlobBody }

func (s blobService) headers(http.Header, *call, int) {}

func (s blobService) failure(c *call, p *refusal.Error) response {
	return queueService(s).failure(c, p)
}

// parse finds the route of a request.
func (s blobService) parse(c *call) (operation, error) {
	name, blobName, _ := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
	op := operation{Request: fault.Request{Entities: 1, Identity: c.Method + " " + name + "/" + blobName}}
	parts, method, comp := 2, c.Method, c.query.Get("comp")
	switch {
	case name == "":
		parts = 0
	case blobName == "":
		parts = 1
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	i := slices.IndexFunc(blobRoutes, func(r blobRoute) bool { return r.method == method && r.parts == parts && r.comp == comp })
	if i < 0 || (parts == 1) != (c.query.Get("restype") == "container") {
		return op, notPart(fmt.Sprintf("%s with comp=%q of %s", c.Method, comp, [...]string{"the account", "a container", "a blob"}[parts]))
	}
	route := blobRoutes[i]
	for _, query := range []string{"snapshot", "versionid", "showonly"} {
		if c.query.Has(query) {
			return op, notPart(route.name + " with " + query)
		}
	}
	for header := range c.Header {
		header = strings.ToLower(header)
		own, special := strings.CutPrefix(header, "x-ms-")
		if strings.HasPrefix(header, metadataPrefix) {
			own = "meta"
		}
		if special && !slices.Contains(strings.Fields(usualHeaders+route.headers), own) || parts < 2 && strings.HasPrefix(header, "if-") {
			return op, notPart(route.name + " with " + header)
		}
	}
	metadata, err := parseMetadata(c.Header)
	if err != nil {
		return op, err
	}
	op.Kind = route.kind
	if route.kind == fault.ListBlobs {
		op.Identity = "blobs " + name + "?" + c.URL.RawQuery
	}
	if route.kind == fault.GetBlob && c.Method == http.MethodGet {
		op.Identity += " " + rangeRequested(c)
	}
	op.run = func(now time.Time, plan fault.Plan) (response, error) {
		s.blobs.mu.Lock()
		defer s.blobs.mu.Unlock()
		b := &blobCall{call: c, s: s, now: now, plan: plan, metadata: metadata, container: name, name: blobName, in: s.blobs.containers[name]}
		if parts > 0 && now.Before(s.blobs.deleting[name]) {
			return response{}, refusal.New("ContainerBeingDeleted", "The specified container is being deleted. Try operation later.")
		}
		if b.in == nil && parts > 0 && !(parts == 1 && route.makes) {
			return response{}, refusal.New("ContainerNotFound", "The specified container does not exist.")
		}
		if parts == 2 {
			if b.blob = b.in.blobs[blobName]; b.blob == nil && !route.makes {
				return response{}, noBlob()
			}
			write := method != http.MethodGet
			if err := b.meetsConditions(write); errors.Is(err, errNotModified) {
				return b.blob.answer(http.StatusNotModified, [2]string{"X-Ms-Error-Code", "ConditionNotMet"}), nil // every other ConditionNotMet has status 412
			} else if err != nil {
				return response{}, err
			}
			if comp != "lease" {
				if err := b.meetsLease(write); err != nil {
					return response{}, err
				}
			}
		}
		return route.run(b)
	}
	return op, nil
}

var errNotModified = errors.New("the blob is not modified")

// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
func (b *blobCall) meetsConditions(write bool) error {
	match, none := strings.Trim(b.Header.Get("If-Match"), `"`), strings.Trim(b.Header.Get("If-None-Match"), `"`)
	unmet := refusal.New("ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
	if b.blob == nil {
		if match != "" {
			return unmet
		}
		return nil
	}
	since, sinceErr := http.ParseTime(b.Header.Get("If-Modified-Since"))
	until, untilErr := http.ParseTime(b.Header.Get("If-Unmodified-Since"))
	fresh := none != "" && none == b.blob.etag || none == "" && sinceErr == nil && !b.blob.modified.After(since)
	switch {
	case none == "*" && b.Header.Get("x-ms-blob-type") != "":
		return refusal.New("BlobAlreadyExists", "The specified blob already exists.")
	case none == "*" && !write:
		return refusal.New("UnsatisfiableCondition", "The request includes an unsatisfiable condition for this operation.")
	case match != "" && match != "*" && match != b.blob.etag, match == "" && untilErr == nil && b.blob.modified.After(until), fresh && write, none == "*":
		return unmet
	case fresh:
		return errNotModified
	}
	return nil
}

// meetsLease returns an error if the blob's lease forbids the request.
func (b *blobCall) meetsLease(write bool) error {
	id := b.Header.Get("x-ms-lease-id")
	if b.blob == nil {
		return lease{}.allows(id, false, b.now)
	}
	return b.blob.allows(id, write, b.now)
}

type entry struct {
	XMLName    xml.Name
	Name       string
	Properties *elements
	Metadata   *elements
}

// list answers with a page of the sorted names. If the request has a delimiter, each name is cut after the first
// delimiter that follows the prefix, and equal results become one entry.
func (b *blobCall) list(element string, all []string, describe func(name string) (elements, resource)) (response, error) {
	type entries struct {
		XMLName xml.Name
		All     []entry
	}
	q := b.query
	answer := struct {
		XMLName         xml.Name `xml:"EnumerationResults"`
		ServiceEndpoint string   `xml:",attr"`
		ContainerName   string   `xml:",attr,omitempty"`
		Prefix          string   `xml:",omitempty"`
		Marker          string   `xml:",omitempty"`
		MaxResults      int      `xml:",omitempty"`
		Delimiter       string   `xml:",omitempty"`
		Entries         entries
		NextMarker      string
	}{ServiceEndpoint: b.s.base(b.call) + "/", ContainerName: b.container, Prefix: q.Get("prefix"), Marker: q.Get("marker"), Delimiter: q.Get("delimiter")}
	answer.Entries.XMLName.Local = element + "s"
	var err error
	if answer.MaxResults, err = number(q, "maxresults", 0, 1, math.MaxInt); err != nil {
		return response{}, err
	}
	var names []string
	cut := map[string]bool{}
	for _, name := range all {
		rest, ok := strings.CutPrefix(name, answer.Prefix)
		if first, _, more := strings.Cut(rest, answer.Delimiter); more && answer.Delimiter != "" {
			name = answer.Prefix + first + answer.Delimiter
			cut[name] = true
		}
		if ok && name >= answer.Marker && (len(names) == 0 || name != names[len(names)-1]) {
			names = append(names, name)
		}
	}
	limit := min(cmp.Or(answer.MaxResults, maxBlobsPage), maxBlobsPage)
	if n := len(names); b.plan.Short && n > 1 {
		limit = min(limit, 1+int(b.plan.ShortDraw%uint64(n-1)))
		b.s.injector.Load().Fired(fault.ShortPage)
	}
	if b.plan.Empty && len(names) > 0 {
		limit = 0
		b.s.injector.Load().Fired(fault.EmptyPage)
	}
	if len(names) > limit {
		answer.NextMarker, names = names[limit], names[:limit]
	}
	metadata := slices.Contains(strings.Split(q.Get("include"), ","), "metadata")
	for _, name := range names {
		e := entry{xml.Name{Local: element}, name, nil, nil}
		if cut[name] {
			e.XMLName.Local = "BlobPrefix"
		} else {
			properties, about := describe(name)
			properties = append(properties, [][2]string{{"Last-Modified", httpTime(about.modified)}, {"Etag", about.etag}}...)
			if e.Properties = &properties; metadata {
				e.Metadata = sortedElements(about.metadata)
			}
		}
		answer.Entries.All = append(answer.Entries.All, e)
	}
	return xmlResponse(http.StatusOK, answer), nil
}

func (b *blobCall) listContainers() (response, error) {
	return b.list("Container", slices.Sorted(maps.Keys(b.s.blobs.containers)), func(name string) (elements, resource) {
		return lease{}.headers(b.now, "Lease"), b.s.blobs.containers[name].resource
	})
}

func (b *blobCall) listBlobs() (response, error) {
	return b.list("Blob", slices.Sorted(maps.Keys(b.in.blobs)), func(name string) (elements, resource) {
		blob := b.in.blobs[name]
		own := elements{{"Creation-Time", httpTime(blob.created)}, {"Content-Length", strconv.Itoa(len(blob.content))}, {"Content-MD5", blob.md5},
			{"BlobType", "BlockBlob"}, {"AccessTier", "Hot"}, {"AccessTierInferred", "true"}, {"ServerEncrypted", "true"}}
		return slices.Concat(own, blob.header, blob.headers(b.now, "Lease")), blob.resource
	})
}

func (b *blobCall) createContainer() (response, error) {
	if err := queue.CheckName(b.container); err != nil { // container names follow the same rules as queue names
		return response{}, err
	}
	if b.in != nil {
		return response{}, refusal.New("ContainerAlreadyExists", "The specified container already exists.")
	}
	b.in = &container{b.s.blobs.stamp(b.metadata, b.now), make(map[string]*blob)}
	b.s.blobs.containers[b.container] = b.in
	return b.in.answer(http.StatusCreated), nil
}

func (b *blobCall) deleteContainer() (response, error) {
	delete(b.s.blobs.containers, b.container)
	if b.plan.Deletion > 0 {
		b.s.blobs.deleting[b.container] = b.now.Add(b.plan.Deletion)
	}
	b.s.deleting(b.plan)
	return response{status: http.StatusAccepted}, nil
}

func (b *blobCall) containerProperties() (response, error) {
	return b.in.described(lease{}.headers(b.now, "X-Ms-Lease-")...), nil
}

func (b *blobCall) blobMetadata() (response, error) { return b.blob.described(), nil }

func hash(content []byte) string {
	sum := md5.Sum(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// checked returns the hash of the request's body. If a header also contains a hash, the two hashes must be equal.
func (b *blobCall) checked() (string, error) {
	found := hash(b.body)
	for _, header := range []string{"Content-MD5", "X-Ms-Blob-Content-MD5"} {
		switch value := b.Header.Get(header); {
		case value == "" || value == found:
		case len(value) != len(found):
			return "", refusal.New("InvalidMd5", "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.")
		default:
			return "", refusal.New("Md5Mismatch", "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
				[2]string{"UserSpecifiedMd5", value}, [2]string{"ServerCalculatedMd5", found})
		}
	}
	return found, nil
}

func (b *blobCall) put() (response, error) {
	if kind := b.Header.Get("x-ms-blob-type"); kind != "BlockBlob" {
		return response{}, notPart("Put Blob with the type " + strconv.Quote(kind))
	}
	sum, err := b.checked()
	if err != nil {
		return response{}, err
	}
	made := &blob{resource: b.s.blobs.stamp(b.metadata, b.now), content: bytes.Clone(b.body), md5: sum}
	made.created = made.modified
	if b.blob != nil && b.blob.locked(b.now) {
		made.lease = b.blob.lease
	}
	for _, h := range contentHeaders {
		if value := cmp.Or(b.Header.Get("x-ms-blob-"+h[0]), b.Header.Get(h[0]), h[1]); value != "" {
			made.header = append(made.header, [2]string{h[0], value})
		}
	}
	b.in.blobs[b.name] = made
	return made.answer(http.StatusCreated, encrypted, [2]string{"Content-MD5", sum}), nil
}

func (b *blobCall) setMetadata() (response, error) {
	made := *b.blob
	made.resource = b.s.blobs.stamp(b.metadata, b.now)
	if !made.locked(b.now) {
		made.lease = lease{}
	}
	b.in.blobs[b.name] = &made
	return made.answer(http.StatusOK, encrypted), nil
}

func (b *blobCall) delete() (response, error) {
	delete(b.in.blobs, b.name)
	return response{status: http.StatusAccepted}, nil
}

func (b *blobCall) get() (response, error) {
	blob, requested := b.blob, ""
	header := slices.Concat(blob.header, blob.headers(b.now, "X-Ms-Lease-"), [][2]string{{"Accept-Ranges", "bytes"}, {"X-Ms-Blob-Type", "BlockBlob"}, {"X-Ms-Creation-Time", httpTime(blob.created)}, {"X-Ms-Server-Encrypted", "true"}})
	if b.Method == http.MethodGet {
		requested = rangeRequested(b.call)
	} else {
		header = append(header, [][2]string{{"X-Ms-Access-Tier", "Hot"}, {"X-Ms-Access-Tier-Inferred", "true"}}...)
	}
	r := blob.described(header...)
	r.body = blob.content
	if err := r.cut(requested); err != nil || r.status == http.StatusOK {
		r.set("Content-MD5", blob.md5)
		return r, err
	}
	r.set("X-Ms-Blob-Content-MD5", blob.md5)
	if strings.EqualFold(b.Header.Get("x-ms-range-get-content-md5"), "true") {
		r.set("Content-MD5", hash(r.body))
	}
	return r, nil
}

func rangeRequested(c *call) string { return cmp.Or(c.Header.Get("x-ms-range"), c.Header.Get("Range")) }

func (r *response) cut(requested string) error {
	first, last, size := 0, math.MaxInt, len(r.body)
	if n, _ := fmt.Sscanf(requested, "bytes=%d-%d", &first, &last); n == 0 || first < 0 || last < first {
		return nil // ignore an invalid range (RFC 9110, 14.2)
	}
	if first >= size {
		return refusal.New("InvalidRange", "The range specified is invalid for the current size of the resource.")
	}
	last = min(last, size-1)
	r.status, r.body = http.StatusPartialContent, r.body[first:last+1]
	r.set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	return nil
}

func (b *blobCall) changeLease() (response, error) {
	action := b.Header.Get("x-ms-lease-action")
	status := map[string]int{"acquire": http.StatusCreated, "renew": http.StatusOK, "release": http.StatusOK, "break": http.StatusAccepted}[action]
	if status == 0 {
		return response{}, notPart("Lease Blob with the action " + strconv.Quote(action))
	}
	var err error
	header := func(name string, needed bool, ok func(string) bool) string {
		value := b.Header.Get(name)
		switch {
		case value == "" && needed:
			err = refusal.New("MissingRequiredHeader", "An HTTP header that's mandatory for this request is not specified.", [2]string{"HeaderName", name})
		case value != "" && !ok(value):
			err = refusal.New("InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.", [2]string{"HeaderName", name}, [2]string{"HeaderValue", value})
		}
		return value
	}
	isID := func(value string) bool { return uuid.Validate(value) == nil }
	between := func(low, high int, value *int) func(string) bool {
		return func(text string) (ok bool) {
			n, err := strconv.Atoi(text)
			*value = n
			return err == nil && (n >= low && n <= high || n == -1 && low > 0)
		}
	}
	duration, period := -1, -1
	id, proposed := header("x-ms-lease-id", action == "renew" || action == "release", isID), header("x-ms-proposed-lease-id", false, isID)
	header("x-ms-lease-duration", action == "acquire", between(15, 60, &duration))
	header("x-ms-lease-break-period", false, between(0, 60, &period))
	if err != nil {
		return response{}, err
	}
	l, err := b.blob.change(action, id, proposed, seconds(duration), seconds(period), b.now)
	if err != nil {
		return response{}, err
	}
	b.blob.lease = l
	idHeader := [2]string{"X-Ms-Lease-Id", cmp.Or(l.id, id)}
	if action == "break" {
		idHeader = [2]string{"X-Ms-Lease-Time", strconv.Itoa(int(math.Ceil(l.ends.Sub(b.now).Seconds())))}
	}
	return b.blob.answer(status, idHeader), nil
}
