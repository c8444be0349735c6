package storage_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// entra represents Azure's token endpoints for managed identities and applications, and services that accept the
// tokens.
type entra struct {
	*testing.T
	clientID string
	seen     []string // hosts that got a request with a token
	claims   string   // claims that the service still requires in a token
	bodies   []string // bodies of the requests
}

func (e *entra) Do(r *http.Request) (*http.Response, error) {
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if r.URL.Host == "169.254.169.254" { // the instance metadata service
		if got := r.URL.Query().Get("client_id"); got != e.clientID {
			e.Errorf("a token was requested for client %q, want %q", got, e.clientID)
		}
		if got := r.URL.Query().Get("resource"); got != "https://storage.azure.com" && got != "https://storage.azure.com/" {
			e.Errorf("a token was requested for %q", got)
		}
		return answer(200, `{"access_token":"token-1","expires_in":"3600","resource":"https://storage.azure.com","token_type":"Bearer"}`)
	}
	if r.URL.Host == "login.microsoftonline.com" { // Entra ID
		if strings.HasSuffix(r.URL.Path, "/token") {
			_ = r.ParseForm()
			if got := r.PostForm.Get("client_id") + " " + r.PostForm.Get("client_secret"); got != e.clientID+" s3cret" {
				e.Errorf("a token was requested for %q", got)
			}
			if e.claims != "" && strings.Contains(r.PostForm.Get("claims"), `"nbf":`) {
				e.claims = ""
			}
			return answer(200, `{"access_token":"token-1","expires_in":3600,"token_type":"Bearer"}`)
		}
		return answer(200, `{"authorization_endpoint":"https://login.microsoftonline.com/tenant-1/authorize","token_endpoint":"https://login.microsoftonline.com/tenant-1/token","issuer":"https://login.microsoftonline.com/tenant-1/v2.0"}`)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer token-1" {
		e.Errorf("a request to %s had Authorization %q", r.URL.Host, got)
	}
	if got := r.Header.Get("User-Agent"); !strings.HasPrefix(got, "tablesweep ") {
		e.Errorf("a request to %s came from %q", r.URL.Host, got)
	}
	e.seen = append(e.seen, r.URL.Host)
	if r.Method == http.MethodPut && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			e.Error(err)
		}
		e.bodies = append(e.bodies, string(body))
	}
	if e.claims != "" {
		challenge := fmt.Sprintf(`Bearer authorization_uri="https://login.microsoftonline.com/tenant-1", error="insufficient_claims", claims="%s"`, base64.StdEncoding.EncodeToString([]byte(e.claims)))
		return answered(r, 401, http.Header{"Www-Authenticate": {challenge}}, `{"odata.error":{"code":"InvalidAuthenticationInfo"}}`), nil
	}
	if r.Method == http.MethodPut && strings.Contains(r.URL.Host, ".table.") {
		return answered(r, 204, http.Header{"Etag": {"W/1"}}, ""), nil
	}
	if strings.Contains(r.URL.Host, ".queue.") || strings.Contains(r.URL.Host, ".blob.") {
		return answered(r, 201, http.Header{}, ""), nil
	}
	return answered(r, 200, http.Header{}, `{"value":[{"PartitionKey":"p","RowKey":"r"}]}`), nil
}

func TestManagedIdentitySignsIn(t *testing.T) {
	signsIn(t, storage.Settings{
		"AzureWebJobsStorage__accountName": "acct",
		"AzureWebJobsStorage__credential":  "managedIdentity",
		"AzureWebJobsStorage__clientId":    "client-1",
	})
}

var application = storage.Settings{
	"AzureWebJobsStorage__accountName":  "acct",
	"AzureWebJobsStorage__tenantId":     "tenant-1",
	"AzureWebJobsStorage__clientId":     "client-1",
	"AzureWebJobsStorage__clientSecret": "s3cret",
}

func TestApplicationSignsIn(t *testing.T) { signsIn(t, application) }

// TestTokenIsChallenged: if a service requires other claims, the whole request is sent again with a token that has
// them.
func TestTokenIsChallenged(t *testing.T) {
	connection, err := storage.SettingConnection("AzureWebJobsStorage", application)
	proof.Must(t, err)
	service := &entra{T: t, clientID: "client-1", claims: `{"access_token":{"nbf":{"value":"1"}}}`}
	a, err := storage.Open(connection, storage.Options{Transport: service})
	proof.Must(t, err)
	row := storage.Entity{Key: key.Key{Partition: "p", Row: "r"}}
	if err := a.Table("Orders").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: row.Row()}); err != nil {
		t.Error(err)
	}
	const body = `{"PartitionKey":"p","RowKey":"r"}`
	if !slices.Equal(service.bodies, []string{body, body}) || service.claims != "" {
		t.Errorf("the requests had the bodies %q, and no token had the claims %q", service.bodies, service.claims)
	}
}

func signsIn(t *testing.T, settings storage.Settings) {
	t.Helper()
	connection, err := storage.SettingConnection("AzureWebJobsStorage", settings)
	proof.Must(t, err)
	service := &entra{T: t, clientID: "client-1"}
	a, err := storage.Open(connection, storage.Options{Transport: service})
	proof.Must(t, err)
	p, err := a.Table("Orders").Query(t.Context(), storage.Query{})
	if err != nil || len(p.Rows) != 1 {
		t.Fatalf("got %d rows, error %v", len(p.Rows), err)
	}
	q, err := a.Queue("work")
	proof.Must(t, err)
	proof.Must(t, q.Create(t.Context()))
	c, err := a.Container("files")
	proof.Must(t, err)
	proof.Must(t, c.Create(t.Context()))
	if got := strings.Join(service.seen, " "); got != "acct.table.core.windows.net acct.queue.core.windows.net acct.blob.core.windows.net" {
		t.Errorf("requests went to %s", got)
	}
}
