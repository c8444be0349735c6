package storage

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"

	"tablesweep/internal/proof"
)

// sdkSigned compares the signatures that requests of the SDK have with those of keySigner.
type sdkSigned struct {
	*testing.T
	own keySigner
	n   int
}

func (s *sdkSigned) Do(r *http.Request) (*http.Response, error) {
	sdk, date := r.Header.Get("Authorization"), r.Header.Get("X-Ms-Date")
	again, err := runtime.NewRequest(r.Context(), r.Method, r.URL.String())
	if err != nil {
		return nil, err
	}
	again.Raw().Header, again.Raw().ContentLength = r.Header.Clone(), r.ContentLength
	send := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, PerRetryPolicies: []policy.Policy{s.own}, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		if got := r.Header.Get("Authorization"); r.Header.Get("X-Ms-Date") == date && got != sdk { // else a second has passed
			s.Errorf("%s %s is signed by %s, want %s", r.Method, r.URL, got, sdk)
		}
		s.n++
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})}
	return runtime.NewPipeline("twin", "", runtime.PipelineOptions{}, &send).Do(again)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestKeySignsAsTheSDK(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://acct.core.windows.net", "http://127.0.0.1:1/acct"} { // which has no path of its own, and one that has
		key := []byte("key")
		tables := &sdkSigned{T: t, own: keySigner{"SharedKeyLite", "acct", key, liteText}}
		queues := &sdkSigned{T: t, own: keySigner{"SharedKey", "acct", key, fullText}}
		tableKey, err := aztables.NewSharedKeyCredential("acct", "a2V5")
		proof.Must(t, err)
		queueKey, err := azqueue.NewSharedKeyCredential("acct", "a2V5")
		proof.Must(t, err)
		service, err := aztables.NewServiceClientWithSharedKey(base, tableKey, &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: tables}})
		proof.Must(t, err)
		account, err := azqueue.NewServiceClientWithSharedKeyCredential(base, queueKey, &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: queues}})
		proof.Must(t, err)
		_, _ = service.NewListTablesPager(nil).NextPage(t.Context())
		_, _ = service.CreateTable(t.Context(), "Orders", nil)
		_, _ = account.NewListQueuesPager(&azqueue.ListQueuesOptions{MaxResults: new(int32(1))}).NextPage(t.Context())
		q := account.NewQueueClient("work")
		_, _ = q.Create(t.Context(), nil)
		_, _ = q.EnqueueMessage(t.Context(), strings.Repeat("é", 100), nil)
		_, _ = q.DeleteMessage(t.Context(), "id", "a+/=&", nil)
		if tables.n != 2 || queues.n != 4 {
			t.Errorf("%d and %d requests were signed", tables.n, queues.n)
		}
	}
}
