package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"tablesweep/internal/proof"
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
		{"in quotes, as Docker keeps them", `"AccountName=acct;AccountKey=` + key64 + `"`, "acct", "https://acct.table.core.windows.net"},
		{"in single quotes, with blanks", ` ' UseDevelopmentStorage=true;' `, "devstoreaccount1", "http://127.0.0.1:10002/devstoreaccount1"},
		{"URL in quotes", `"https://acct.table.core.windows.net"`, "acct", "https://acct.table.core.windows.net"},
		{"URL in upper case", "HTTPS://acct.table.core.windows.net", "acct", "https://acct.table.core.windows.net"},
		{"every name", "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" + key64 + ";SharedAccessSignature=;EndpointSuffix=core.windows.net;BlobEndpoint=https://b;QueueEndpoint=https://q;TableEndpoint=https://t;" +
			"FileEndpoint=https://f;BlobSecondaryEndpoint=https://b2;QueueSecondaryEndpoint=https://q2;TableSecondaryEndpoint=https://t2;FileSecondaryEndpoint=https://f2", "acct", "https://t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := storage.ParseConnection(tt.in)
			proof.Must(t, err)
			if got := fmt.Sprint(c); got != tt.want {
				t.Errorf("the connection is printed as %q, want %q", got, tt.want)
			}
			twin, err := storage.ParseConnection("AccountName=x;AccountKey=" + key64 + ";TableEndpoint=" + tt.tables)
			proof.Must(t, err)
			if !c.Same(twin) {
				t.Errorf("the connection does not lead to the tables of %s", tt.tables)
			}
			if _, err := storage.Open(c, storage.Options{}); err != nil {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

func TestParseConnectionRefusesInvalidText(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "neither AccountName nor TableEndpoint"},
		{"no pairs", "secret", "no '='"},
		{"no key", "AccountName=secret", "neither AccountKey nor SharedAccessSignature"},
		{"bad key", "AccountName=a;AccountKey=secret!", "not base64"},
		{"key without account", "TableEndpoint=https://h;AccountKey=" + key64, "no AccountName"},
		{"bad endpoint", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=secret", "must be URLs"},
		{"another protocol", "DefaultEndpointsProtocol=ftp;AccountName=a;AccountKey=" + key64, "must be URLs"},
		{"Entra ID over http", "http://acct.table.core.windows.net", "Entra ID needs https"},
		{"URL without host", "https://", "not a valid URL"},
		{"SAS in the table endpoint", "TableEndpoint=https://h/?sv=1&sig=secret;SharedAccessSignature=sv=1&sig=secret", "in SharedAccessSignature"},
		{"SAS in the queue endpoint", "AccountName=a;AccountKey=" + key64 + ";QueueEndpoint=https://h/a?sig=secret", "in SharedAccessSignature"},
		{"SAS in the suffix", "AccountName=a;AccountKey=" + key64 + ";EndpointSuffix=core.windows.net/?sig=secret", "in SharedAccessSignature"},
		{"SAS after a hash", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://h/a#?sig=secret", "in SharedAccessSignature"},
		{"password in the endpoint", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://u:secret@h/a", "in SharedAccessSignature"},
		{"SAS in the account's name", "AccountName=https://a.table.core.windows.net/?sig=secret;SharedAccessSignature=sig=x", "AccountName must be"},
		{"SAS with a line break", "AccountName=a;SharedAccessSignature=sv=1&sig=sec\nsecret", "SharedAccessSignature must be one line"},
		{"SAS URL with a line break", "https://a.table.core.windows.net/?sv=1&sig=sec\nsecret", "not a valid URL"},
		{"SAS in a URL's path", "https://tables.example.org/%3Fsv=1&sig=secret", "not a valid URL"},
		{"SAS in an endpoint's path", "AccountName=a;AccountKey=" + key64 + ";TableEndpoint=https://h/%3Fsig=secret", "in SharedAccessSignature"},
		{"a value in quotes", `AccountName=a;AccountKey="` + key64 + `"`, "quotes"},
		{"the first and the last value in quotes", `"AccountName"="a";AccountKey="` + key64 + `"`, "quotes"},
		{"an open quote", `"AccountName=a;AccountKey=` + key64, "quotes"},
		{"typographic quotes", "“AccountName=a;AccountKey=" + key64 + "”", "quotes"},
		{"a quote in a URL", "https://a.table.core.windows.net/?sig=secret'", "quotes"},
		{"a name twice", "AccountName=a;AccountKey=" + key64 + ";accountkey=secret", "has AccountKey twice"},
		{"an unknown name", "AccountName=a;AcountKey=" + key64, "the most similar known name is AccountKey"},
		{"an unknown endpoint", "TableEndpoints=https://secret;SharedAccessSignature=sig=secret", "the most similar known name is TableEndpoint"},
		{"a secondary endpoint, otherwise", "TableEndpointSecondary=https://secret", "known name is Table"},
		{"a key without its name", "AccountName=a;c2VjcmV0secret==", "the connection string has an unknown name before a '='; the most similar"},
		{"no name before =", "AccountName=a;=secret", "an unknown name"},
		{"an escaped SAS", "AccountName=a;SharedAccessSignature=sv=1&amp;sig=secret", "replace it by &"},
		{"an escaped SAS in a URL", "https://a.table.core.windows.net/?sv=1&AMP;sig=secret", "replace it by &"},
		{"a reference to a vault", "@Microsoft.KeyVault(SecretUri=https://secret.vault.azure.net/secrets/secret/)", "Azure has not replaced the reference"},
		{"a reference to a vault, by names", "@microsoft.keyvault(VaultName=secret;SecretName=secret)", "Azure has not replaced the reference"},
		{"a reference as a value", "AccountName=a;AccountKey=@Microsoft.KeyVault(SecretUri=https://secret)", "the setting must contain only the reference"},
		{"a reference to a configuration", "@Microsoft.AppConfiguration(Endpoint=https://secret; Key=secret)", "Azure has not replaced the reference"},
		{"an emulator behind a proxy", "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://secret", "which is not supported; give the emulator's addresses as TableEndpoint"},
		{"an emulator and an account", "UseDevelopmentStorage=true;AccountName=secret;AccountKey=" + key64, "UseDevelopmentStorage=true is already a complete connection string"},
		{"no emulator", "UseDevelopmentStorage=false;AccountName=secret", "UseDevelopmentStorage must be true"},
		{"an empty emulator", "UseDevelopmentStorage=", "UseDevelopmentStorage must be true"},
		{"password in a URL", "https://u:secret@a.table.core.windows.net/", "not a valid URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := storage.ParseConnection(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want %q in it", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), key64) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func TestSettingConnection(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string // the printed connection, or a part of the error
	}{
		{"connection string", map[string]string{"S": "UseDevelopmentStorage=true"}, "devstoreaccount1"},
		{"account name", map[string]string{"S__accountName": "acct"}, "acct"},
		{"managed identity", map[string]string{"S__accountName": "acct", "S__credential": "managedidentity", "S__clientId": "c"}, "acct"},
		{"endpoints", map[string]string{"S__tableServiceUri": "https://t", "S__queueServiceUri": "https://q"}, "https://t"},
		{"missing", nil, "setting S is missing"},
		{"queues alone, own domain", map[string]string{"S__queueServiceUri": "https://q"}, "setting S__tableServiceUri is missing"},
		{"blobs alone, own domain", map[string]string{"S__blobServiceUri": "https://b"}, "setting S__tableServiceUri is missing"},
		{"queues alone", map[string]string{"S__queueServiceUri": "https://acct.queue.core.windows.net"}, "acct"},
		{"blobs alone", map[string]string{"S__blobServiceUri": "https://acct.blob.core.chinacloudapi.cn/"}, "acct"},
		{"one service", map[string]string{"S__serviceUri": "https://acct.queue.core.windows.net"}, "acct"},
		{"one service, own domain", map[string]string{"S__serviceUri": "https://t"}, "https://t"},
		{"two accounts", map[string]string{"S__tableServiceUri": "https://a.table.core.windows.net", "S__queueServiceUri": "https://b.queue.core.windows.net"}, "S__queueServiceUri does not name the same account"},
		{"another account's name", map[string]string{"S__tableServiceUri": "https://a.table.core.windows.net", "S__accountName": "b"}, "S__tableServiceUri does not name the same account"},
		{"another service's address", map[string]string{"S__tableServiceUri": "https://a.queue.core.windows.net"}, "S__tableServiceUri must be the address of the account's tables, not of its queues"},
		{"names in other cases", map[string]string{"s__ACCOUNTNAME": "acct", "S__Credential": "managedIdentity"}, "acct"},
		{"a name in two cases", map[string]string{"S__accountName": "acct", "S__AccountName": "other"}, "settings S__AccountName and S__accountName differ only in upper and lower case"},
		{"the setting in two cases", map[string]string{"S": "UseDevelopmentStorage=true", "s": "AccountName=a"}, "settings S and s differ only in upper and lower case"},
		{"identity in two ways", map[string]string{"S__accountName": "acct", "S__clientId": "c", "S__managedIdentityResourceId": "r"}, "setting S__clientId and managedIdentityResourceId"},
		{"application", map[string]string{"S__accountName": "acct", "S__tenantId": "t", "S__clientId": "c", "S__clientSecret": "secret"}, "acct"},
		{"application without its id", map[string]string{"S__accountName": "acct", "S__tenantId": "t", "S__clientSecret": "secret"}, "setting S__tenantId, clientId and clientSecret are needed together"},
		{"application and managed identity", map[string]string{"S__accountName": "acct", "S__credential": "managedidentity", "S__clientId": "c", "S__tenantId": "t"}, "setting S__credential is managedidentity"},
		{"identity by resource", map[string]string{"S__accountName": "acct", "S__managedIdentityResourceId": "/subscriptions/x"}, "acct"},
		{"bad credential", map[string]string{"S__accountName": "acct", "S__credential": "password"}, "S__credential must be"},
		{"bad endpoint", map[string]string{"S__tableServiceUri": "ftp://t"}, "S__tableServiceUri must be an https URL"},
		{"SAS in an endpoint", map[string]string{"S__tableServiceUri": "https://t/?sig=secret"}, "S__tableServiceUri must be an https URL"},
		{"SAS in the account's name", map[string]string{"S__accountName": "t?sig=secret"}, "S__accountName must be"},
		{"bad string", map[string]string{"S": "AccountName=acct"}, "setting S: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := storage.SettingConnection("S", tt.env)
			if strings.Contains(fmt.Sprint(c, err), "secret") {
				t.Errorf("got connection %v and error %v, which contain the secret", c, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %v, want %q in it", err, tt.want)
				}
				return
			}
			if got := c.String(); got != tt.want {
				t.Errorf("got connection %q, want %q", got, tt.want)
			}
		})
	}
}

// The address of one service determines the addresses of the others.
func TestBlobURL(t *testing.T) {
	known, err := storage.ParseConnection("AccountName=acct;AccountKey=" + key64)
	proof.Must(t, err)
	own, err := storage.SettingConnection("S", storage.Settings{"S__blobServiceUri": "https://acct.blob.example.org"})
	proof.Must(t, err)
	local, err := storage.ParseConnection("UseDevelopmentStorage=true")
	proof.Must(t, err)
	for _, tt := range []struct {
		url, path, name, signs string // signs is "" if an error is expected
		known                  storage.Connection
	}{
		{"https://acct.blob.core.windows.net/c/p/q", "c/p/q", "acct", "its key", known},
		{"https://ACCT.blob.core.windows.net:443/c/p%20q", "c/p q", "acct", "its key", known},
		{"https://acct.blob.core.windows.net/c?sv=1&sig=x%2F", "c", "acct", "a shared access signature", known},
		{"https://other.blob.core.windows.net/c/", "c/", "other", "this environment's identity: the app's in Azure, the developer's elsewhere", known},
		{"https://acct.blob.core.usgovcloudapi.net/c", "c", "acct", "this environment's identity: the app's in Azure, the developer's elsewhere", known},
		{"https://acct.blob.example.org/c", "", "", "", known},
		{"https://acct.blob.core.windows.net.example.org/c", "", "", "", known},
		{"https://acct.blob.example.org/c?sig=x", "c", "acct", "a shared access signature", known},
		{"https://acct.blob.example.org/c", "c", "acct", "this environment's identity: the app's in Azure, the developer's elsewhere", own},
		{"https://acct.blob.core.windows.net/c", "c", "acct", "this environment's identity: the app's in Azure, the developer's elsewhere", storage.Connection{}},
		{"http://127.0.0.1:10000/devstoreaccount1/c/p", "c/p", "devstoreaccount1", "its key", local},
		{"http://localhost:10000/devstoreaccount1/c/p?sig=x", "c/p", "devstoreaccount1", "a shared access signature", local},
		{"http://127.0.0.1:10000/another/c/p", "", "", "", local},
		{"http://127.0.0.1:10000/", "", "", "", local},
		{"https://acct.table.core.windows.net/c/p", "", "", "", known},
		{"https://secret@acct.blob.core.windows.net/c/p", "", "", "", known},
		{"https://example.org/secret/p", "", "", "", known},
		{"https://acct.blob.core.windows.net/c/p?sv=1&amp;sig=secret", "", "", "", known},
		{"http://%zz/secret", "", "", "", known},
	} {
		c, path, err := storage.BlobURL(tt.url, tt.known)
		if tt.signs == "" {
			if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "another/") {
				t.Errorf("URL %s: got error %v, want one without secrets", tt.url, err)
			}
			continue
		}
		if err != nil || path != tt.path || c.String() != tt.name || c.SignsIn() != tt.signs {
			t.Errorf("URL %s: got path %s of %v, signed in by %s; error %v", tt.url, path, c, c.SignsIn(), err)
		}
		if _, err := storage.Open(c, storage.Options{}); err != nil {
			t.Error(err)
		}
	}
}

func TestEndpointsFollowFromOne(t *testing.T) {
	for _, part := range []string{"blobServiceUri", "queueServiceUri", "tableServiceUri", "serviceUri"} {
		service := strings.TrimSuffix(strings.Replace(part, "serviceUri", "table", 1), "ServiceUri")
		c, err := storage.SettingConnection("S", storage.Settings{"S__" + part: "https://acct." + service + ".core.chinacloudapi.cn/"})
		proof.Must(t, err)
		a, err := storage.Open(c, storage.Options{})
		proof.Must(t, err)
		q, err := a.Queue("work")
		proof.Must(t, err)
		if table, want := a.Table("rows").Address(), "https://acct.table.core.chinacloudapi.cn/rows"; table != want || q.Address() != "https://acct.queue.core.chinacloudapi.cn/work" {
			t.Errorf("%s has the endpoints %s and %s", part, table, q.Address())
		}
	}
}

func TestConnectionPrintsNoSecret(t *testing.T) {
	for _, in := range []string{
		"AccountName=acct;AccountKey=" + key64,
		"TableEndpoint=https://h/acct;SharedAccessSignature=sv=1&sig=" + key64,
		"https://h/acct?sv=1&sig=" + key64,
	} {
		c, err := storage.ParseConnection(in)
		proof.Must(t, err)
		a, err := storage.Open(c, storage.Options{})
		proof.Must(t, err)
		table := a.Table("rows")
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			for _, got := range []string{fmt.Sprintf(format, c), fmt.Sprintf(format, &c), fmt.Sprintf(format, []any{c}), fmt.Sprintf(format, table), table.Address()} {
				if strings.Contains(got, key64) {
					t.Errorf("%s: the printed connection contains the secret: %s", format, got)
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
			t.Errorf("name %q: error %v, want legal %t", name, err, legal)
		}
	}
}
