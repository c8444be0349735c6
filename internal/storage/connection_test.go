package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"tablesweep/internal/storage"
)

const key64 = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

func TestParseConnection(t *testing.T) {
	for _, tt := range []struct{ name, in, want, tables string }{
		{"development", "UseDevelopmentStorage=true", "devstoreaccount1", "http://127.0.0.1:10002/devstoreaccount1"},
		{"portal's form", "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" + key64 + ";EndpointSuffix=core.windows.net", "acct", "https://acct.table.core.windows.net"},
		{"another cloud", "AccountName=acct;AccountKey=" + key64 + ";EndpointSuffix=core.chinacloudapi.cn;", "acct", "https://acct.table.core.chinacloudapi.cn"},
		{"explicit endpoint", "accountname=acct;accountkey=" + key64 + ";TableEndpoint=http://h:1/acct;QueueEndpoint=http://h:2/acct", "acct", "http://h:1/acct"},
		{"SAS with endpoint", "TableEndpoint=https://h/acct;SharedAccessSignature=sv=1&sig=" + key64, "https://h/acct", "https://h/acct"},
		{"SAS with account", "AccountName=acct;SharedAccessSignature=?sv=1&sig=x", "acct", "https://acct.table.core.windows.net"},
		{"Entra ID", "https://acct.table.core.windows.net", "acct", "https://acct.table.core.windows.net"},
		{"Entra ID, queue endpoint", "https://acct.queue.core.usgovcloudapi.net/", "acct", "https://acct.table.core.usgovcloudapi.net"},
		{"Entra ID, own domain", "https://tables.example.org", "https://tables.example.org", "https://tables.example.org"},
		{"SAS URL", "https://acct.table.core.windows.net/?sv=1&sig=x", "acct", "https://acct.table.core.windows.net"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := storage.ParseConnection(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c); got != tt.want {
				t.Errorf("prints as %q, want %q", got, tt.want)
			}
			twin, err := storage.ParseConnection("AccountName=x;AccountKey=" + key64 + ";TableEndpoint=" + tt.tables)
			if err != nil {
				t.Fatal(err)
			}
			if !c.Same(twin) {
				t.Errorf("does not lead to the tables of %s", tt.tables)
			}
			if _, err := storage.Open(c, storage.Options{}); err != nil {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

func TestParseConnectionRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "neither AccountName nor TableEndpoint"},
		{"no pairs", "secret", "no '='"},
		{"no key", "AccountName=secret", "neither AccountKey nor SharedAccessSignature"},
		{"bad key", "AccountName=a;AccountKey=secret!", "not base64"},
		{"key without account", "TableEndpoint=https://h;AccountKey=" + key64, "no AccountName"},
		{"bad endpoint", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=secret", "must be URLs"},
		{"Entra ID over http", "http://acct.table.core.windows.net", "https only"},
		{"URL without host", "https://", "not a valid URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := storage.ParseConnection(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), key64) {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

func TestSettingConnection(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string // printed connection, or part of the error
	}{
		{"connection string", map[string]string{"S": "UseDevelopmentStorage=true"}, "devstoreaccount1"},
		{"account name", map[string]string{"S__accountName": "acct"}, "acct"},
		{"managed identity", map[string]string{"S__accountName": "acct", "S__credential": "managedidentity", "S__clientId": "c"}, "acct"},
		{"endpoints", map[string]string{"S__tableServiceUri": "https://t", "S__queueServiceUri": "https://q"}, "https://t"},
		{"missing", nil, "setting S is missing"},
		{"queues alone", map[string]string{"S__queueServiceUri": "https://q"}, "setting S__tableServiceUri is missing"},
		{"identity by resource", map[string]string{"S__accountName": "acct", "S__managedIdentityResourceId": "/subscriptions/x"}, "acct"},
		{"bad credential", map[string]string{"S__accountName": "acct", "S__credential": "password"}, "S__credential must be"},
		{"bad endpoint", map[string]string{"S__tableServiceUri": "ftp://t"}, "S__tableServiceUri must be an https URL"},
		{"bad string", map[string]string{"S": "AccountName=acct"}, "setting S: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := storage.SettingConnection("S", func(name string) string { return tt.env[name] })
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want an error with %q", err, tt.want)
				}
				return
			}
			if got := c.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConnectionPrintsNoSecret(t *testing.T) {
	c, err := storage.ParseConnection("AccountName=acct;AccountKey=" + key64)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, key64) {
			t.Errorf("%s prints the key: %s", format, got)
		}
	}
}
