package emulator_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func blobProperties() []property {
	return []property{
		{"containers are created once", containerLifecycle},
		{"container names follow the rules", containerNames},
		{"a blob can be put, read and deleted", blobLifecycle},
		{"a blob can be put only if it does not exist", blobConditions},
		{"a range of a blob can be read", blobRanges},
		{"blobs are listed in pages, by their prefix", blobList},
		{"names of blobs are stored unchanged", blobNames},
		{"a blob needs its container", blobWithoutContainer},
		{"blob requests are authenticated", blobAuthentication},
		{"a blob's properties are stored", blobHeaders},
		{"requests for blobs may have conditions", blobReadConditions},
		{"a delimiter groups blobs in a list", blobWalk},
		{"containers are listed, described and deleted", containerCalls},
		{"leases are acquired, renewed, released and broken", leaseCalls},
		{"a leased blob refuses requests without its lease", leasedBlob},
	}
}

const aContainer = "restype=container"

func (b backend) newContainer(t testing.TB) string {
	t.Helper()
	name := b.newName()
	check(t, "create container", b.blob(t, request{method: "PUT", path: "/" + name, query: aContainer}), 201, "")
	return name
}

func (b backend) putBlob(t testing.TB, container, name, content string, header map[string]string) answer {
	t.Helper()
	h := map[string]string{"x-ms-blob-type": "BlockBlob"}
	for name, value := range header {
		h[name] = value
	}
	return b.blob(t, request{method: "PUT", path: "/" + container + "/" + name, header: h, body: content})
}

func (b backend) getBlob(t testing.TB, container, name string, header map[string]string) answer {
	t.Helper()
	return b.blob(t, request{method: "GET", path: "/" + container + "/" + name, header: header})
}

type blobPage struct {
	Blobs []struct {
		Name       string
		Properties struct {
			ContentLength int `xml:"Content-Length"`
			BlobType      string
		}
	} `xml:"Blobs>Blob"`
	NextMarker string
}

func (b backend) listBlobs(t testing.TB, container, query string) blobPage {
	t.Helper()
	got := b.blob(t, request{method: "GET", path: "/" + container, query: aContainer + "&comp=list" + query})
	var p blobPage
	if err := xml.Unmarshal(bytes.TrimPrefix(got.body, []byte("\ufeff")), &p); err != nil || got.status != 200 {
		t.Fatalf("the list is %v, error %v", got, err)
	}
	return p
}

func (p blobPage) names() (names []string) {
	for _, b := range p.Blobs {
		names = append(names, b.Name)
	}
	return names
}

func containerLifecycle(t *testing.T, b backend) {
	name := b.newName()
	at := request{method: "PUT", path: "/" + name, query: aContainer}
	check(t, "create", b.blob(t, at), 201, "")
	check(t, "create again", b.blob(t, at), 409, "ContainerAlreadyExists")
}

func containerNames(t *testing.T, b backend) {
	create := func(name string) answer {
		return b.blob(t, request{method: "PUT", path: "/" + name, query: aContainer})
	}
	for _, name := range []string{"ab", strings.Repeat("a", 64)} {
		check(t, name, create(name), 400, "OutOfRangeInput")
	}
	for _, name := range []string{"Abc", "a--b", "-ab", "ab-", "a_b"} {
		check(t, name, create(name), 400, "InvalidResourceName")
	}
}

func blobLifecycle(t *testing.T, b backend) {
	container := b.newContainer(t)
	content := "bytes \x00\xff of any kind"
	put := b.putBlob(t, container, "a/b", content, nil)
	check(t, "put", put, 201, "")
	got := b.getBlob(t, container, "a/b", nil)
	same(t, "status", got.status, 200)
	same(t, "content", string(got.body), content)
	if put.header.Get("ETag") == "" || put.header.Get("x-ms-version") == "" || put.header.Get("Date") == "" {
		t.Errorf("the answer to the put is %v", put.header)
	}
	check(t, "replace", b.putBlob(t, container, "a/b", "other", nil), 201, "")
	same(t, "new content", string(b.getBlob(t, container, "a/b", nil).body), "other")
	at := request{method: "DELETE", path: "/" + container + "/a/b"}
	check(t, "delete", b.blob(t, at), 202, "")
	check(t, "delete again", b.blob(t, at), 404, "BlobNotFound")
	check(t, "get", b.getBlob(t, container, "a/b", nil), 404, "BlobNotFound")
	if code := b.getBlob(t, container, "a/b", nil).header.Get("x-ms-error-code"); code != "BlobNotFound" {
		t.Errorf("error code in the header: %q", code)
	}
	check(t, "put empty", b.putBlob(t, container, "empty", "", nil), 201, "")
	same(t, "empty", len(b.getBlob(t, container, "empty", nil).body), 0)
}

func blobConditions(t *testing.T, b backend) {
	container := b.newContainer(t)
	none := map[string]string{"If-None-Match": "*"}
	check(t, "the first put", b.putBlob(t, container, "b", "first", none), 201, "")
	check(t, "the second put", b.putBlob(t, container, "b", "second", none), 409, "BlobAlreadyExists")
	same(t, "content", string(b.getBlob(t, container, "b", nil).body), "first")
}

func blobRanges(t *testing.T, b backend) {
	container := b.newContainer(t)
	check(t, "put", b.putBlob(t, container, "b", "0123456789", nil), 201, "")
	check(t, "put", b.putBlob(t, container, "empty", "", nil), 201, "")
	for rangeHeader, want := range map[string]string{"bytes=0-0": "0", "bytes=2-4": "234", "bytes=7-": "789", "bytes=8-100": "89", "bytes=0-9": "0123456789"} {
		got := b.getBlob(t, container, "b", map[string]string{"x-ms-range": rangeHeader})
		same(t, rangeHeader, got.status, 206)
		same(t, rangeHeader, string(got.body), want)
		first := strings.Index("0123456789", want)
		same(t, "Content-Range", got.header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/10", first, first+len(want)-1))
	}
	check(t, "after the end", b.getBlob(t, container, "b", map[string]string{"x-ms-range": "bytes=10-20"}), either(t, b, 416, 206, "Azurite treats the end as a part of the blob"), either(t, b, "InvalidRange", "", "as above"))
	check(t, "far after the end", b.getBlob(t, container, "b", map[string]string{"x-ms-range": "bytes=11-20"}), 416, "InvalidRange")
	check(t, "of nothing", b.getBlob(t, container, "empty", map[string]string{"x-ms-range": "bytes=0-20"}), 416, "InvalidRange")
}

func blobList(t *testing.T, b backend) {
	container := b.newContainer(t)
	same(t, "of none", b.listBlobs(t, container, "").names(), []string(nil))
	want := []string{"A", "a", "a/1", "a/2", "a/30", "ab", "b"}
	for _, i := range []int{3, 1, 6, 0, 5, 2, 4} {
		check(t, "put", b.putBlob(t, container, want[i], want[i], map[string]string{}), 201, "")
	}
	all := b.listBlobs(t, container, "")
	same(t, "all", all.names(), want)
	for _, e := range all.Blobs {
		same(t, e.Name, e.Properties.ContentLength, len(e.Name))
		same(t, e.Name, e.Properties.BlobType, "BlockBlob")
	}
	same(t, "by prefix", b.listBlobs(t, container, "&prefix=a%2F").names(), []string{"a/1", "a/2", "a/30"})
	same(t, "no such prefix", b.listBlobs(t, container, "&prefix=c").names(), []string(nil))
	var names []string
	for query := "&maxresults=2&prefix=a"; ; {
		p := b.listBlobs(t, container, query)
		if names = append(names, p.names()...); len(p.Blobs) > 2 {
			t.Errorf("the page has %d blobs", len(p.Blobs))
		}
		if p.NextMarker == "" {
			break
		}
		query = "&maxresults=2&prefix=a&marker=" + url.QueryEscape(p.NextMarker)
	}
	same(t, "in pages", names, want[1:6])
	check(t, "list none", b.blob(t, request{method: "GET", path: "/" + b.newName(), query: aContainer + "&comp=list"}), 404, "ContainerNotFound")
}

func blobNames(t *testing.T, b backend) {
	container := b.newContainer(t)
	names := []string{"a b+c%2F&=?#'é", "😀/x", "a/b/c/d", "A-Z_~."}
	for _, name := range names {
		check(t, name, b.putBlob(t, container, strings.ReplaceAll(url.PathEscape(name), "%2F", "/"), name, nil), 201, "")
	}
	slices.Sort(names)
	got := b.listBlobs(t, container, "").names()
	slices.Sort(got)
	same(t, "names", got, names)
}

func blobWithoutContainer(t *testing.T, b backend) {
	container := b.newName()
	check(t, "put", b.putBlob(t, container, "b", "x", map[string]string{"If-None-Match": "*"}), 404, "ContainerNotFound")
	check(t, "get", b.getBlob(t, container, "b", nil), 404, "ContainerNotFound")
	check(t, "delete", b.blob(t, request{method: "DELETE", path: "/" + container + "/b"}), 404, "ContainerNotFound")
}

func blobAuthentication(t *testing.T, b backend) {
	container := b.newContainer(t)
	wrong := *b.account
	wrong.key = []byte("a wrong key")
	got := wrong.blob(t, request{method: "GET", path: "/" + container, query: aContainer + "&comp=list"})
	check(t, "another key", got, 403, either(t, b, "AuthenticationFailed", "AuthorizationFailure", "Azurite has one code for both"))
}

// blobCall sends a request about a container or a blob. header consists of names, each followed by its value.
func (b backend) blobCall(t testing.TB, method, path, query string, header ...string) answer {
	t.Helper()
	h := map[string]string{"x-ms-client-request-id": leaseA, "x-ms-return-client-request-id": "true", "Accept": "application/xml"} // like the .NET client
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	got := b.blob(t, request{method: method, path: "/" + path, query: query, header: h})
	if id := got.header.Get("x-ms-client-request-id"); got.status < 300 && id != leaseA { // Azurite sends none with 304
		t.Errorf("the answer to %s %s?%s has the client's request id %q", method, path, query, id)
	}
	return got
}

func blobHeaders(t *testing.T, b backend) {
	container := b.newContainer(t)
	const content, sum = "0123456789", "eB5eJF1ptWaXm4bijSPyxw=="
	given := map[string]string{
		"x-ms-blob-content-type": "text/csv", "x-ms-blob-content-encoding": "identity", "x-ms-blob-content-language": "de", "x-ms-blob-cache-control": "no-store",
		"x-ms-blob-content-disposition": "inline", "x-ms-meta-colorOfIt": "red", "x-ms-blob-content-md5": sum,
	}
	put := b.putBlob(t, container, "b", content, given)
	check(t, "put", put, 201, "")
	same(t, "MD5 of the put", put.header.Get("Content-MD5"), sum)
	same(t, "MD5 in the answer to the put", put.header.Get("x-ms-meta-colorOfIt")+" "+put.header.Get("x-ms-request-server-encrypted"), " true")
	want := map[string]string{
		"Content-Type": "text/csv", "Content-Encoding": "identity", "Content-Language": "de", "Cache-Control": "no-store", "Content-Disposition": "inline",
		"x-ms-meta-colorOfIt": "red", "Content-MD5": sum, "ETag": put.header.Get("ETag"), "Last-Modified": put.header.Get("Last-Modified"),
		"Accept-Ranges": "bytes", "x-ms-blob-type": "BlockBlob", "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked", "Content-Length": "10",
	}
	head, got := b.blobCall(t, "HEAD", container+"/b", ""), b.getBlob(t, container, "b", nil)
	for name, value := range want {
		if value == "" || head.header.Get(name) != value || got.header.Get(name) != value {
			t.Errorf("%s: HEAD has %q, GET %q, want %q", name, head.header.Get(name), got.header.Get(name), value)
		}
	}
	same(t, "content of HEAD", len(head.body), 0)
	same(t, "tier", head.header.Get("x-ms-access-tier")+" "+head.header.Get("x-ms-access-tier-inferred"), "Hot true")
	gone := b.blobCall(t, "HEAD", container+"/nothere", "")
	same(t, "HEAD of a missing blob", gone.status, 404)
	same(t, "its code", gone.header.Get("x-ms-error-code"), "BlobNotFound")
	same(t, "its type", gone.header.Get("Content-Type"), "")

	part := b.getBlob(t, container, "b", map[string]string{"Range": "bytes=2-4", "x-ms-range": "bytes=5-6", "x-ms-range-get-content-md5": "true"})
	same(t, "x-ms-range counts", string(part.body), "56")
	same(t, "MD5 of the whole blob", part.header.Get("x-ms-blob-content-md5"), sum)
	same(t, "MD5 of the part", part.header.Get("Content-MD5"), "n2FAjjr7Yz5QzfGyDeb0Zg==")
	same(t, "Range", string(b.getBlob(t, container, "b", map[string]string{"Range": "bytes=2-4"}).body), "234")

	plain := b.putBlob(t, container, "plain", "x", nil)
	check(t, "put", plain, 201, "")
	same(t, "a content type from the request", b.blobCall(t, "HEAD", container+"/plain", "").header.Get("Content-Type"), "application/octet-stream")
	check(t, "wrong MD5", b.putBlob(t, container, "plain", "y", map[string]string{"x-ms-blob-content-md5": sum}), 400, either(t, b, "Md5Mismatch", "InvalidOperation", "Azurite has no separate code"))
	same(t, "it stays", string(b.getBlob(t, container, "plain", nil).body), "x")

	set := b.blobCall(t, "PUT", container+"/b", "comp=metadata", "x-ms-meta-size", "9")
	check(t, "set metadata", set, 200, "")
	again := b.blobCall(t, "HEAD", container+"/b", "comp=metadata")
	same(t, "new metadata", again.header.Get("x-ms-meta-size")+again.header.Get("x-ms-meta-colorOfIt"), "9")
	if etag := again.header.Get("ETag"); etag != set.header.Get("ETag") || etag == put.header.Get("ETag") {
		t.Errorf("ETag %s, set %s, put %s", etag, set.header.Get("ETag"), put.header.Get("ETag"))
	}
}

func blobReadConditions(t *testing.T, b backend) {
	container := b.newContainer(t)
	put := b.putBlob(t, container, "b", "content", nil)
	check(t, "put", put, 201, "")
	etag, modified := put.header.Get("ETag"), put.header.Get("Last-Modified")
	const other, past = `"0x1"`, "Mon, 02 Jan 2006 15:04:05 GMT"
	read := func(what, header, value string, status int) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD"} {
			got := b.blobCall(t, method, container+"/b", "", header, value)
			if got.status != status {
				t.Errorf("%s with %s: got %v, want %d", method, what, got, status)
			}
		}
	}
	read("matches", "If-Match", etag, 200)
	read("matches any", "If-Match", "*", 200)
	read("the ETag differs", "If-Match", other, 412)
	read("matches none", "If-None-Match", other, 200)
	read("the ETag matches If-None-Match", "If-None-Match", etag, 304)
	same(t, "its code", b.getBlob(t, container, "b", map[string]string{"If-None-Match": etag}).header.Get("x-ms-error-code"), "ConditionNotMet")
	read("changed since", "If-Modified-Since", past, 200)
	read("not modified since", "If-Modified-Since", modified, 304)
	read("modified after", "If-Unmodified-Since", modified, 200)
	read("changed before", "If-Unmodified-Since", past, 412)
	check(t, "put with another ETag", b.putBlob(t, container, "b", "new", map[string]string{"If-Match": other}), 412, "ConditionNotMet")
	check(t, "put with the same ETag", b.putBlob(t, container, "b", "new", map[string]string{"If-None-Match": etag}), 412, "ConditionNotMet")
	check(t, "put with If-None-Match", b.putBlob(t, container, "none", "new", map[string]string{"If-Match": etag}), 412, "ConditionNotMet")
	check(t, "delete another", b.blobCall(t, "DELETE", container+"/b", "", "If-Match", other), 412, "ConditionNotMet")
	check(t, "put over the blob", b.putBlob(t, container, "b", "new", map[string]string{"If-Match": etag}), 201, "")
	check(t, "delete with the old ETag", b.blobCall(t, "DELETE", container+"/b", "", "If-Match", etag), 412, "ConditionNotMet")
}

func blobWalk(t *testing.T, b backend) {
	container := b.newContainer(t)
	for _, name := range []string{"a/1", "a/2", "a/b/3", "a0", "c/4"} {
		check(t, "put", b.putBlob(t, container, name, name, map[string]string{"x-ms-meta-is": name[:1]}), 201, "")
	}
	type listed struct {
		Prefixes []string `xml:"Blobs>BlobPrefix>Name"`
		Blobs    []struct {
			Name     string
			Metadata struct {
				Is string `xml:"is"`
			}
			Properties struct {
				Etag string
				Type string `xml:"Content-Type"`
				MD5  string `xml:"Content-MD5"`
				Last string `xml:"Last-Modified"`
			}
		} `xml:"Blobs>Blob"`
		NextMarker string
	}
	list := func(query string) (l listed) {
		t.Helper()
		got := b.blobCall(t, "GET", container, aContainer+"&comp=list&include=metadata&delimiter=%2F"+query)
		if err := xml.Unmarshal(bytes.TrimPrefix(got.body, []byte("\ufeff")), &l); err != nil || got.status != 200 {
			t.Fatalf("the list is %v, error %v", got, err)
		}
		return l
	}
	top := list("")
	same(t, "prefixes", top.Prefixes, []string{"a/", "c/"})
	if len(top.Blobs) != 1 || top.Blobs[0].Name != "a0" || top.Blobs[0].Metadata.Is != "a" {
		t.Errorf("got %v", top.Blobs)
	}
	head := b.blobCall(t, "HEAD", container+"/a0", "").header
	if p := top.Blobs[0].Properties; strings.Trim(p.Etag, `"`) != strings.Trim(head.Get("ETag"), `"`) || p.Type != head.Get("Content-Type") || p.MD5 != head.Get("Content-MD5") || p.Last != head.Get("Last-Modified") {
		t.Errorf("the list has %v, HEAD %v", p, head)
	}
	below := list("&prefix=a%2F")
	same(t, "prefixes below", below.Prefixes, []string{"a/b/"})
	same(t, "blobs below", len(below.Blobs), 2)
	var all []string
	for query, pages := "&maxresults=1", 0; ; pages++ {
		p := list(query)
		all = append(all, p.Prefixes...)
		for _, blob := range p.Blobs {
			all = append(all, blob.Name)
		}
		if p.NextMarker == "" || pages > 5 {
			break
		}
		query = "&maxresults=1&marker=" + url.QueryEscape(p.NextMarker)
	}
	slices.Sort(all)
	same(t, "in pages", all, []string{"a/", "a0", "c/"})
}

func containerCalls(t *testing.T, b backend) {
	name := b.newName()
	check(t, "create", b.blobCall(t, "PUT", name, aContainer, "x-ms-meta-of", "tests"), 201, "")
	check(t, "put", b.putBlob(t, name, "b", "x", nil), 201, "")
	for _, method := range []string{"GET", "HEAD"} {
		got := b.blobCall(t, method, name, aContainer)
		check(t, "properties", got, 200, "")
		for _, header := range []string{"ETag", "Last-Modified", "x-ms-lease-state"} {
			if got.header.Get(header) == "" {
				t.Errorf("the answer to %s has no header %s", method, header)
			}
		}
		same(t, "metadata", got.header.Get("x-ms-meta-of"), "tests")
	}
	got := b.blobCall(t, "GET", "", "comp=list&include=metadata&prefix="+name)
	var list struct {
		Name     string `xml:"Containers>Container>Name"`
		Of       string `xml:"Containers>Container>Metadata>of"`
		Modified string `xml:"Containers>Container>Properties>Last-Modified"`
	}
	if err := xml.Unmarshal(bytes.TrimPrefix(got.body, []byte("\ufeff")), &list); err != nil || list.Name != name || list.Of != "tests" || list.Modified == "" {
		t.Errorf("got %v, error %v", got, err)
	}
	check(t, "delete", b.blobCall(t, "DELETE", name, aContainer), 202, "")
	check(t, "delete again", b.blobCall(t, "DELETE", name, aContainer), 404, "ContainerNotFound")
	same(t, "HEAD of a missing container", b.blobCall(t, "HEAD", name, aContainer).status, 404)
}

const leaseA, leaseB = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"

// lease sends a request about a blob's lease.
func (b backend) lease(t testing.TB, path, action string, header ...string) answer {
	t.Helper()
	return b.blobCall(t, "PUT", path, "comp=lease", append(header, "x-ms-lease-action", action)...)
}

func leaseCalls(t *testing.T, b backend) {
	container := b.newContainer(t)
	for _, name := range []string{"b", "endless", "slow"} {
		check(t, "put", b.putBlob(t, container, name, "x", nil), 201, "")
	}
	const id, proposed, duration, period = "x-ms-lease-id", "x-ms-proposed-lease-id", "x-ms-lease-duration", "x-ms-lease-break-period"
	for _, c := range []struct {
		blob, action string
		header       []string
		status       int
		code, state  string
	}{
		{"b", "renew", []string{id, leaseA}, 409, "LeaseIdMismatchWithLeaseOperation", "available"},
		{"b", "release", []string{id, leaseA}, 409, "LeaseIdMismatchWithLeaseOperation", "available"},
		{"b", "break", nil, 409, "LeaseNotPresentWithLeaseOperation", "available"},
		{"b", "renew", nil, 400, either(t, b, "MissingRequiredHeader", "", "Azurite's code is empty"), "available"},
		{"b", "acquire", []string{duration, "14", proposed, leaseA}, 400, "InvalidHeaderValue", "available"},
		{"b", "acquire", []string{duration, "60", proposed, leaseA}, 201, "", "leased"},
		{"b", "acquire", []string{duration, "15"}, 409, "LeaseAlreadyPresent", "leased"},
		{"b", "acquire", []string{duration, "15", proposed, leaseB}, 409, "LeaseAlreadyPresent", "leased"},
		{"b", "acquire", []string{duration, "60", proposed, leaseA}, 201, "", "leased"},
		{"b", "renew", []string{id, leaseB}, 409, "LeaseIdMismatchWithLeaseOperation", "leased"},
		{"b", "renew", []string{id, leaseA}, 200, "", "leased"},
		{"b", "release", []string{id, leaseB}, 409, "LeaseIdMismatchWithLeaseOperation", "leased"},
		{"b", "release", []string{id, leaseA}, 200, "", "available"},
		{"b", "acquire", []string{duration, "60", proposed, leaseB}, 201, "", "leased"},
		{"b", "break", []string{period, "30"}, 202, "", "breaking"},
		{"b", "acquire", []string{duration, "60", proposed, leaseB}, 409, "LeaseIsBreakingAndCannotBeAcquired", "breaking"},
		{"b", "acquire", []string{duration, "60", proposed, leaseA}, 409, "LeaseAlreadyPresent", "breaking"},
		{"b", "renew", []string{id, leaseB}, 409, "LeaseIsBrokenAndCannotBeRenewed", "breaking"},
		{"b", "renew", []string{id, leaseA}, 409, "LeaseIdMismatchWithLeaseOperation", "breaking"},
		{"b", "break", []string{period, "0"}, 202, "", "broken"},
		{"b", "break", nil, 202, "", "broken"},
		{"b", "renew", []string{id, leaseB}, 409, "LeaseIsBrokenAndCannotBeRenewed", "broken"},
		{"b", "acquire", []string{duration, "-1", proposed, leaseA}, 201, "", "leased"},
		{"endless", "acquire", []string{duration, "-1", proposed, leaseA}, 201, "", "leased"},
		{"endless", "renew", []string{id, leaseA}, 200, "", "leased"},
		{"endless", "break", nil, 202, "", "broken"},
		{"endless", "release", []string{id, leaseA}, 200, "", "available"},
		{"slow", "acquire", []string{duration, "60", proposed, leaseA}, 201, "", "leased"},
		{"slow", "break", nil, 202, "", "breaking"},
		{"slow", "release", []string{id, leaseA}, 200, "", "available"},
	} {
		what := fmt.Sprint(c.action, " ", c.blob, " ", c.header)
		got := b.lease(t, container+"/"+c.blob, c.action, c.header...)
		check(t, what, got, c.status, c.code)
		same(t, what+" leaves", b.blobCall(t, "HEAD", container+"/"+c.blob, "").header.Get("x-ms-lease-state"), c.state)
		if c.status == 201 && got.header.Get(id) != c.header[3] {
			t.Errorf("%s: the answer has the lease id %q", what, got.header.Get(id))
		}
		if time := got.header.Get("x-ms-lease-time"); c.status == 202 && (time == "0") != (c.state == "broken") {
			t.Errorf("%s: the lease ends in %s s", what, time)
		}
	}
	check(t, "of none", b.lease(t, container+"/none", "acquire", duration, "15"), 404, "BlobNotFound")
}

func leasedBlob(t *testing.T, b backend) {
	container := b.newContainer(t)
	path := container + "/b"
	check(t, "put", b.putBlob(t, container, "b", "x", nil), 201, "")
	id := func(id string) map[string]string { return map[string]string{"x-ms-lease-id": id} }
	check(t, "put with a lease id without a lease", b.putBlob(t, container, "b", "y", id(leaseA)), 412, "LeaseNotPresentWithBlobOperation")
	check(t, "acquire", b.lease(t, path, "acquire", "x-ms-lease-duration", "60", "x-ms-proposed-lease-id", leaseA), 201, "")
	head := b.blobCall(t, "HEAD", path, "").header
	same(t, "told", head.Get("x-ms-lease-status")+" "+head.Get("x-ms-lease-duration"), "locked fixed")
	check(t, "put", b.putBlob(t, container, "b", "y", nil), 412, "LeaseIdMissing")
	check(t, "put with another lease id", b.putBlob(t, container, "b", "y", id(leaseB)), 412, "LeaseIdMismatchWithBlobOperation")
	check(t, "set metadata", b.blobCall(t, "PUT", path, "comp=metadata", "x-ms-meta-a", "b"), 412, "LeaseIdMissing")
	check(t, "set metadata with the lease id", b.blobCall(t, "PUT", path, "comp=metadata", "x-ms-meta-a", "b", "x-ms-lease-id", leaseA), 200, "")
	check(t, "delete", b.blobCall(t, "DELETE", path, ""), 412, "LeaseIdMissing")
	check(t, "read", b.getBlob(t, container, "b", nil), 200, "")
	check(t, "read with the lease id", b.getBlob(t, container, "b", id(leaseA)), 200, "")
	check(t, "read with another lease id", b.getBlob(t, container, "b", id(leaseB)), 412, "LeaseIdMismatchWithBlobOperation")
	check(t, "put with the lease id", b.putBlob(t, container, "b", "y", id(leaseA)), 201, "")
	same(t, "still leased", b.blobCall(t, "HEAD", path, "").header.Get("x-ms-lease-state"), "leased")
	check(t, "break", b.lease(t, path, "break", "x-ms-lease-break-period", "0"), 202, "")
	check(t, "put with the id of a lost lease", b.putBlob(t, container, "b", "z", id(leaseA)), 412, either(t, b, "LeaseLost", "LeaseNotPresentWithBlobOperation", "Azurite has one code for both"))
	check(t, "put", b.putBlob(t, container, "b", "z", nil), 201, "")
	same(t, "free", b.blobCall(t, "HEAD", path, "").header.Get("x-ms-lease-state"), "available")
	check(t, "acquire again", b.lease(t, path, "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", leaseB), 201, "")
	check(t, "delete with the lease id", b.blobCall(t, "DELETE", path, "", "x-ms-lease-id", leaseB), 202, "")
}
