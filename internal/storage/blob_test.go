package storage_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

type do func(*http.Request) (*http.Response, error)

func (f do) Do(r *http.Request) (*http.Response, error) { return f(r) }

func newContainer(t *testing.T, a *storage.Account) *storage.Container {
	t.Helper()
	c, err := a.Container("c" + strings.ToLower(rand.Text()))
	proof.Must(t, err)
	for range 2 { // the second time, the container exists
		proof.Must(t, c.Create(t.Context()))
	}
	return c
}

func TestBlobs(t *testing.T) {
	onEach(t, func(t *testing.T, a *storage.Account) {
		c := newContainer(t, a)
		content := bytes.Repeat([]byte("0123456789\x00\xff"), 50_000)
		for _, name := range []string{"data/1", "data/o'b é+%2F&?#", "other"} {
			for i, text := range [][]byte{content, []byte("another")} {
				if created, err := c.Put(t.Context(), name, text); created != (i == 0) || err != nil {
					t.Errorf("put %q: created %v, error %v", name, created, err)
				}
			}
			for _, tt := range []struct{ offset, length int64 }{{0, 1}, {0, 600_000}, {5, 100}, {599_990, 100}, {0, 1 << 40}, {600_000, 1}, {600_001, 10}, {0, 0}} {
				got, err := c.Get(t.Context(), name, tt.offset, tt.length)
				from := min(tt.offset, 600_000)
				if want := content[from:min(from+tt.length, 600_000)]; !bytes.Equal(got, want) || err != nil {
					t.Errorf("get %q, %v: got %d bytes, error %v, want %d bytes", name, tt, len(got), err, len(want))
				}
			}
		}
		var names []string
		err := c.List(t.Context(), "data/", func(b storage.Blob) error {
			names = append(names, fmt.Sprint(b.Name, b.Size))
			return nil
		})
		if want := []string{"data/1600000", "data/o'b é+%2F&?#600000"}; !slices.Equal(names, want) || err != nil {
			t.Errorf("list: got %q, error %v, want %q", names, err, want)
		}
		for range 2 { // the second time, the blob does not exist
			if err := c.Delete(t.Context(), "data/o'b é+%2F&?#"); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Get(t.Context(), "data/o'b é+%2F&?#", 0, 1); !storage.NotFound(err) || !storage.HasCode(err, "BlobNotFound") {
			t.Errorf("get a deleted blob: error %v", err)
		}
		if created, err := c.Put(t.Context(), "empty", nil); !created || err != nil {
			t.Errorf("put an empty blob: created %v, error %v", created, err)
		}
		if got, err := c.Get(t.Context(), "empty", 0, 10); len(got) != 0 || err != nil {
			t.Errorf("get an empty blob: content %q, error %v", got, err)
		}
		missing, err := a.Container("missing-" + strings.ToLower(rand.Text()))
		proof.Must(t, err)
		if _, err := missing.Put(t.Context(), "b", content); !storage.HasCode(err, "ContainerNotFound") || !strings.Contains(err.Error(), "put blob b into container missing-") {
			t.Errorf("put without a container: error %v", err)
		}
	})
}

// Requests for blobs are retried like requests for rows. Only the service's own answers are accepted.
func TestBlobsUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em, a := emulatortest.NewAccount(t, emulator.Options{Faults: "seed=3; busy p=0.1; timeout-before p=0.1; timeout-after p=0.1; reset-before p=0.1; reset-after p=0.1; html p=0.05; empty p=0.05; braces p=0.05; half p=0.05; short-page p=0.7; empty-page p=0.5"})
		c, err := a.Container("faults")
		proof.Must(t, err)
		var counter storage.Counter
		c = c.With(storage.RequestOptions{Counter: &counter})
		proof.Must(t, c.Create(t.Context()))
		var want []string
		for i := range 200 {
			name := fmt.Sprintf("b%03d", i)
			if _, err := c.Put(t.Context(), name, []byte(name)); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		var got []string
		err = c.List(t.Context(), "", func(b storage.Blob) error {
			text, err := c.Get(t.Context(), b.Name, 0, 100)
			if string(text) != b.Name {
				t.Errorf("blob %s contains %q", b.Name, text)
			}
			got = append(got, b.Name)
			return errors.Join(err, c.Delete(t.Context(), b.Name))
		})
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("got %d blobs, error %v, want %d", len(got), err, len(want))
		}
		counts, fired := em.Counts(), em.FaultCounts()
		if n := counts.BlobPut + counts.BlobGet + counts.BlobList + counts.BlobDelete + counts.Containers; n != counter.Requests() {
			t.Errorf("counted %d requests, but the service got %d", counter.Requests(), n)
		}
		for _, name := range []string{"busy", "timeout-before", "timeout-after", "reset-before", "reset-after", "html", "empty", "braces", "half", "short-page", "empty-page"} {
			if fired[name] == 0 {
				t.Errorf("the fault %s never occurred", name)
			}
		}
	})
}

func TestNoBlobEndpoint(t *testing.T) {
	a := open(t, "AccountName=a;AccountKey=c2VjcmV0;TableEndpoint=http://h/a;QueueEndpoint=http://h/a", storage.Options{})
	if _, err := a.Container("abc"); err == nil || !strings.Contains(err.Error(), "add BlobEndpoint") {
		t.Errorf("got %v", err)
	}
}

// If the SAS had expired by the service's clock, the error contains the expiry, whatever error code the service sends.
func TestExpiredSAS(t *testing.T) {
	t.Parallel()
	for se, ended := range map[string]string{
		"2026-11-23T09:59:59Z": "2026-11-23T09:59:59Z", "2026-11-23T11%3A00%2B02%3A00": "2026-11-23T11:00:00+02:00", "2026-11-22": "2026-11-22T00:00:00Z",
		"2026-11-23T10%3A01Z": "", "2026-11-24": "", "soon": "", "": "",
	} {
		service := do(func(r *http.Request) (*http.Response, error) {
			refusal := emulatortest.Refusal(r, http.StatusForbidden, "AuthorizationFailure")
			refusal.Header.Set("Date", "Mon, 23 Nov 2026 10:00:00 GMT")
			return refusal, nil
		})
		a := open(t, "AccountName=acct;SharedAccessSignature=sv=1&se="+se+"&sig=SECRET", storage.Options{Transport: service})
		c, err := a.Container("abc")
		proof.Must(t, err)
		_, query := a.Table("orders").Query(t.Context(), storage.Query{})
		for _, err := range []error{c.Create(t.Context()), query, a.Table("orders").Create(t.Context())} {
			if named := strings.Contains(fmt.Sprint(err), "; the SAS expired at "+ended); storage.Expired(err) != (ended != "") || named != (ended != "") || !storage.Denied(err) {
				t.Errorf("se=%s: got error %v", se, err)
			}
		}
	}
}

// A shared access signature is part of the URL of each request for blobs, and must not be in errors.
func TestBlobsBySharedAccessSignature(t *testing.T) {
	var seen []string
	service := do(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Method+" "+r.URL.RequestURI()+r.Header.Get("Authorization"))
		return emulatortest.Refusal(r, http.StatusForbidden, "AuthorizationPermissionMismatch"), nil
	})
	a := open(t, "AccountName=acct;SharedAccessSignature=sv=1&sig=TOP%2FSECRET", storage.Options{Transport: service})
	c, err := a.Container("abc")
	proof.Must(t, err)
	_, put := c.Put(t.Context(), "x/y", nil)
	_, get := c.Get(t.Context(), "x/y", 0, 1)
	for _, err := range []error{c.Create(t.Context()), put, get, c.List(t.Context(), "p", nil), c.Delete(t.Context(), "x/y")} {
		if !storage.Denied(err) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("got %v", err)
		}
	}
	const sas = "sv=1&sig=TOP%2FSECRET"
	want := []string{"PUT /abc/x/y?" + sas, "GET /abc/x/y?" + sas, "PUT /abc?restype=container&" + sas, "GET /abc?restype=container&comp=list&prefix=p&" + sas, "DELETE /abc/x/y?" + sas}
	if !slices.Equal(seen, want) {
		t.Errorf("sent requests %q, want %q", seen, want)
	}
}
