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
		{"SAS in the table endpoint", "TableEndpoint=https://h/?sv=1&sig=secret;SharedAccessSignature=sv=1&sig=secret", "in SharedAccessSignature"},
		{"SAS in the queue endpoint", "AccountName=a;AccountKey=" + key64 + ";QueueEndpoint=https://h/a?sig=secret", "in SharedAccessSignature"},
		{"SAS in the suffix", "AccountName=a;AccountKey=" + key64 + ";EndpointSuffix=core.windows.net/?sig=secret", "in SharedAccessSignature"},
		{"SAS behind a hash", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://h/a#?sig=secret", "in SharedAccessSignature"},
		{"password in the endpoint", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://u:secret@h/a", "in SharedAccessSignature"},
		{"SAS in the account's name", "AccountName=https://a.table.core.windows.net/?sig=secret;SharedAccessSignature=sig=x", "AccountName must be"},
		{"SAS with a line break", "AccountName=a;SharedAccessSignature=sv=1&sig=sec\nsecret", "SharedAccessSignature must be one line"},
		{"SAS URL with a line break", "https://a.table.core.windows.net/?sv=1&sig=sec\nsecret", "not a valid URL"},
		{"SAS in a URL's path", "https://tables.example.org/%3Fsv=1&sig=secret", "not a valid URL"},
		{"SAS in an endpoint's path", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://h/%3Fsig=secret", "in SharedAccessSignature"},
		{"password in a URL", "https://u:secret@a.table.core.windows.net/", "not a valid URL"},
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
		{"SAS in an endpoint", map[string]string{"S__tableServiceUri": "https://t/?sig=secret"}, "S__tableServiceUri must be an https URL"},
		{"SAS in the account's name", map[string]string{"S__accountName": "t?sig=secret"}, "S__accountName must be"},
		{"bad string", map[string]string{"S": "AccountName=acct"}, "setting S: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := storage.SettingConnection("S", func(name string) string { return tt.env[name] })
			if strings.Contains(fmt.Sprint(c, err), "secret") {
				t.Errorf("got %v, %v, with the secret", c, err)
			}
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
	for _, in := range []string{
		"AccountName=acct;AccountKey=" + key64,
		"TableEndpoint=https://h/acct;SharedAccessSignature=sv=1&sig=" + key64,
		"https://h/acct?sv=1&sig=" + key64,
	} {
		c, err := storage.ParseConnection(in)
		if err != nil {
			t.Fatal(err)
		}
		a, err := storage.Open(c, storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		table := a.Table("rows")
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			for _, got := range []string{fmt.Sprintf(format, c), fmt.Sprintf(format, &c), fmt.Sprintf(format, []any{c}), fmt.Sprintf(format, table), table.Address()} {
				if strings.Contains(got, key64) {
					t.Errorf("%s prints the secret: %s", format, got)
				}
			}
		}
	}
}

func TestCheckQueueName(t *testing.T) {
	for name, legal := range map[string]bool{
		"abc": true, "a-b": true, "0a1": true, strings.Repeat("a", 63): true, strings.Repeat("a-", 31) + "a": true,
		"": false, "ab": false, "a--b": false, "-ab": false, "ab-": false, "Abc": false, "a_b": false, "abc\n": false,
		strings.Repeat("a", 64): false, strings.Repeat("a-", 32) + "a": false, strings.Repeat("a-", 62) + "a": false,
	} {
		if err := storage.CheckQueueName(name); (err == nil) != legal {
			t.Errorf("%q: %v, want legal %t", name, err, legal)
		}
	}
}
