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
		{"a blob is put, read and deleted", blobLifecycle},
		{"a blob can be put if there is none", blobConditions},
		{"a range of a blob is read", blobRanges},
		{"blobs are listed in pages, by their prefix", blobList},
		{"names of blobs are kept", blobNames},
		{"a blob needs its container", blobWithoutContainer},
		{"blob requests are authenticated", blobAuthentication},
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
		t.Fatalf("list: %v, %v", got, err)
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
		t.Errorf("put answers with %v", put.header)
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
	check(t, "put the first", b.putBlob(t, container, "b", "first", none), 201, "")
	check(t, "put the second", b.putBlob(t, container, "b", "second", none), 409, "BlobAlreadyExists")
	same(t, "content", string(b.getBlob(t, container, "b", nil).body), "first")
}

func blobRanges(t *testing.T, b backend) {
	container := b.newContainer(t)
	check(t, "put", b.putBlob(t, container, "b", "0123456789", nil), 201, "")
	check(t, "put", b.putBlob(t, container, "empty", "", nil), 201, "")
	for asked, want := range map[string]string{"bytes=0-0": "0", "bytes=2-4": "234", "bytes=7-": "789", "bytes=8-100": "89", "bytes=0-9": "0123456789"} {
		got := b.getBlob(t, container, "b", map[string]string{"x-ms-range": asked})
		same(t, asked, got.status, 206)
		same(t, asked, string(got.body), want)
		first := strings.Index("0123456789", want)
		same(t, "Content-Range", got.header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/10", first, first+len(want)-1))
	}
	check(t, "behind the end", b.getBlob(t, container, "b", map[string]string{"x-ms-range": "bytes=10-20"}), either(t, b, 416, 206, "Azurite takes the end for a part of the blob"), either(t, b, "InvalidRange", "", "as above"))
	check(t, "far behind the end", b.getBlob(t, container, "b", map[string]string{"x-ms-range": "bytes=11-20"}), 416, "InvalidRange")
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
			t.Errorf("a page of %d blobs", len(p.Blobs))
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
	wrong.key = []byte("not the key")
	got := wrong.blob(t, request{method: "GET", path: "/" + container, query: aContainer + "&comp=list"})
	check(t, "another key", got, 403, either(t, b, "AuthenticationFailed", "AuthorizationFailure", "Azurite has one code for both"))
}
