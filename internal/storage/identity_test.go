package storage_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/storage"
)

// entra stands for Azure's token endpoint for managed identities and for the
// services, which it lets in by their tokens.
type entra struct {
	*testing.T
	clientID string
	seen     []string // hosts that were asked with a token
}

func (e *entra) Do(r *http.Request) (*http.Response, error) {
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if r.URL.Host == "169.254.169.254" { // the instance metadata service
		if got := r.URL.Query().Get("client_id"); got != e.clientID {
			e.Errorf("a token was asked for client %q, want %q", got, e.clientID)
		}
		if got := r.URL.Query().Get("resource"); got != "https://storage.azure.com" && got != "https://storage.azure.com/" {
			e.Errorf("a token was asked for %q", got)
		}
		return answer(200, `{"access_token":"token-1","expires_in":"3600","resource":"https://storage.azure.com","token_type":"Bearer"}`)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer token-1" {
		e.Errorf("%s was asked with Authorization %q", r.URL.Host, got)
	}
	e.seen = append(e.seen, r.URL.Host)
	if strings.Contains(r.URL.Host, ".queue.") {
		return answer(201, "")
	}
	return answer(200, `{"value":[{"PartitionKey":"p","RowKey":"r"}]}`)
}

func TestManagedIdentitySignsIn(t *testing.T) {
	settings := map[string]string{
		"AzureWebJobsStorage__accountName": "acct",
		"AzureWebJobsStorage__credential":  "managedidentity",
		"AzureWebJobsStorage__clientId":    "client-1",
	}
	c, err := storage.SettingConnection("AzureWebJobsStorage", func(name string) string { return settings[name] })
	if err != nil {
		t.Fatal(err)
	}
	service := &entra{T: t, clientID: "client-1"}
	a, err := storage.Open(c, storage.Options{Transport: service})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Table("Orders").Query(t.Context(), storage.Query{})
	if err != nil || len(p.Entities) != 1 {
		t.Fatalf("%d rows, %v", len(p.Entities), err)
	}
	q, err := a.Queue("work")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(service.seen, " "); got != "acct.table.core.windows.net acct.queue.core.windows.net" {
		t.Errorf("asked %s", got)
	}
}
