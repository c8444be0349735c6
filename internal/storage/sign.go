package storage

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// signers returns two policies that sign requests: one for the Table service, and one for the Queue and Blob
// services. They sign with a token of Entra ID or with the account's key. Both are nil if the connection has a shared
// access signature, which is part of the URLs.
func (c Connection) signers(transport policy.Transporter) (tables, others policy.Policy, err error) {
	switch {
	case c.identity != nil:
		cred, err := credential(c.identity, transport)
		if err != nil {
			return nil, nil, err
		}
		audience := "https://storage.azure.com"
		if ofCosmos(c.tableURL) {
			audience = "https://cosmos.azure.com"
		}
		token := runtime.NewBearerTokenPolicy(cred, []string{audience + "/.default"}, nil)
		return token, token, nil
	case c.key != "":
		key, err := base64.StdEncoding.DecodeString(c.key)
		if err != nil {
			return nil, nil, fmt.Errorf("the account's key is not base64: %w", err)
		}
		return keySigner{"SharedKeyLite", c.account, key, liteText}, keySigner{"SharedKey", c.account, key, fullText}, nil
	}
	return nil, nil, nil
}

// withSAS adds the connection's shared access signature to a URL. If the connection has no signature, or signs with a key,
// withSAS returns the URL unchanged.
func (c Connection) withSAS(url string) string {
	if c.sas == "" || c.key != "" {
		return url
	}
	return url + pick(strings.Contains(url, "?"), "&", "?") + c.sas
}

// credential returns a sign-in with Entra ID. In Azure, the managed identity signs in. On a laptop, either the developer
// or an application with a secret signs in.
func credential(id *identity, transport policy.Transporter) (azcore.TokenCredential, error) {
	o := azcore.ClientOptions{Transport: transport}
	if id.TenantID != "" {
		return azidentity.NewClientSecretCredential(id.TenantID, id.ClientID, id.ClientSecret, &azidentity.ClientSecretCredentialOptions{ClientOptions: o})
	}
	if id.Managed || id.ClientID != "" || id.ResourceID != "" {
		mo := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: o}
		switch {
		case id.ClientID != "":
			mo.ID = azidentity.ClientID(id.ClientID)
		case id.ResourceID != "":
			mo.ID = azidentity.ResourceID(id.ResourceID)
		}
		return azidentity.NewManagedIdentityCredential(mo)
	}
	found, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o})
	return anySignIn{found}, err
}

// anySignIn uses the first sign-in that works on this machine: a developer's sign-in or an Azure identity.
type anySignIn struct{ azcore.TokenCredential }

// GetToken implements [azcore.TokenCredential].
func (s anySignIn) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := s.TokenCredential.GetToken(ctx, o)
	if err != nil && ctx.Err() == nil {
		err = &notSignedIn{err}
	}
	return token, err
}

// notSignedIn is the error if no sign-in works. Its text is one line with the result of each sign-in that azidentity has
// tried.
type notSignedIn struct{ cause error }

func (n *notSignedIn) Error() string {
	text := "no sign-in to Azure was found: run az login, or, in Azure, give the app a managed identity"
	for line := range strings.Lines(n.cause.Error()) {
		if reason, ok := strings.CutPrefix(strings.TrimSpace(line), "AzureCLICredential: "); ok {
			text += "; Azure CLI says: " + reason
		}
	}
	return text
}

func (n *notSignedIn) Unwrap() error { return n.cause }

// keySigner signs with the account's key. (Microsoft Learn, "Authorize with Shared Key")
type keySigner struct {
	scheme  string
	account string
	key     []byte
	text    func(r *http.Request, resource string) string // returns the text to sign; `resource` is the account and the path
}

func (s keySigner) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	r.Header["X-Ms-Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(s.text(r, "/"+s.account+cmp.Or(r.URL.EscapedPath(), "/"))))
	r.Header["Authorization"] = []string{s.scheme + " " + s.account + ":" + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	return req.Next()
}

// liteText returns the text that Shared Key Lite signs for a request to the Table service.
func liteText(r *http.Request, resource string) string {
	return r.Header["X-Ms-Date"][0] + "\n" + resource
}

// fullText returns the text that Shared Key signs for a request to the Queue or the Blob service.
func fullText(r *http.Request, resource string) string {
	h := r.Header
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	text := []string{r.Method, "", "", length, "", h.Get("Content-Type"), "", "", h.Get("If-Match"), h.Get("If-None-Match"), "", ""}
	var own, parameters []string
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+values[0])
		}
	}
	for name, values := range r.URL.Query() {
		parameters = append(parameters, strings.ToLower(name)+":"+values[0])
	}
	slices.Sort(own) // the service requires the headers in the order of their names; no name begins with another name, so sorting the lines gives this order
	slices.Sort(parameters)
	return strings.Join(slices.Concat(text, own, []string{resource}, parameters), "\n")
}
