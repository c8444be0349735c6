package storage

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// rowRequest is a request of the Table service about rows.
type rowRequest struct {
	method      string
	target      string // the URL behind the account's endpoint, without a signature
	contentType string // of body
	body        []byte // must stay as it is until the request was answered at the first try
	ifMatch     string // an ETag; "" for no condition
}

// Which answers requests for rows ask for.
const (
	accepted  = "application/json;odata=minimalmetadata" // types of properties, but no links
	noContent = "return-no-content"                      // not the row that was inserted
)

// Headers of all requests for rows. They are shared, and never changed.
var (
	versionHeader   = []string{"2019-02-02"}
	dataHeader      = []string{"3.0"}
	acceptHeader    = []string{accepted}
	noContentHeader = []string{noContent}
)

// send makes a request for rows and returns the headers of a good answer; x has the body.
// what names the request in errors, with the table's name behind it.
func (t *Table) send(ctx context.Context, x *exchange, what string, r rowRequest) (http.Header, error) {
	c := t.account.connection
	url := c.tableURL + r.target
	if c.sas != "" {
		url += pick(r.method == http.MethodGet, "&", "?") + c.sas // a query has parameters
	}
	req, err := runtime.NewRequest(x.in(ctx), r.method, url)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", what, t.name, withoutURL(err))
	}
	h := req.Raw().Header
	h["X-Ms-Version"], h["Dataserviceversion"], h["Accept"] = versionHeader, dataHeader, acceptHeader
	if r.method == http.MethodPost {
		h["Prefer"] = noContentHeader
	}
	if r.ifMatch != "" {
		h["If-Match"] = []string{r.ifMatch}
	}
	if x.body = r.body; len(r.body) > 0 {
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(r.body)), r.contentType); err != nil {
			return nil, err
		}
	}
	runtime.SkipBodyDownload(req) // into a buffer of its own each
	resp, err := t.account.rows.Do(req)
	if err == nil && resp.StatusCode >= 300 {
		err = runtime.NewResponseError(resp)
	}
	if err != nil {
		return nil, wrap(what+t.name, x, err)
	}
	return resp.Header, nil
}

// openRows returns the way of requests about rows. It is the SDK's, but for
// signing by key, which aztables keeps to itself.
func openRows(c Connection, cred azcore.TokenCredential, o azcore.ClientOptions) (runtime.Pipeline, error) {
	sign, err := signer(c, cred, func(account string, key []byte) policy.Policy { return keySigner{account, key} })
	if err != nil {
		return runtime.Pipeline{}, err
	}
	return runtime.NewPipeline("tables", versionHeader[0], runtime.PipelineOptions{PerRetry: sign}, &o), nil
}

// signer returns the policy that signs requests: by a token of Entra ID, or by the key as byKey does. With a shared
// access signature there is none.
func signer(c Connection, cred azcore.TokenCredential, byKey func(account string, key []byte) policy.Policy) ([]policy.Policy, error) {
	switch {
	case cred != nil:
		return []policy.Policy{runtime.NewBearerTokenPolicy(cred, []string{"https://storage.azure.com/.default"}, nil)}, nil
	case c.key != "":
		key, err := base64.StdEncoding.DecodeString(c.key)
		if err != nil {
			return nil, fmt.Errorf("decode the account's key: %w", err)
		}
		return []policy.Policy{byKey(c.account, key)}, nil
	}
	return nil, nil
}

// keySigner signs by Shared Key Lite. (Microsoft Learn, "Authorize with Shared Key")
type keySigner struct {
	account string
	key     []byte
}

func (s keySigner) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(date + "\n/" + s.account + r.URL.EscapedPath()))
	r.Header["X-Ms-Date"] = []string{date}
	r.Header["Authorization"] = []string{"SharedKeyLite " + s.account + ":" + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	return req.Next()
}
