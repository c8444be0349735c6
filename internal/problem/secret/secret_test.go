package secret_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/proof"
)

func TestSecrets(t *testing.T) {
	const (
		key       = "ZmFrZS1hY2NvdW50LWtleS9mb3IrdGVzdHMtb25seS0wMTIzNDU2Nzg5YWJjZGVmZ2hpamtsbW5vcHFyc3R1dg=="
		signature = "c2lnbmF0dXJlLW9mLTMyLWJ5dGVzLWZvci10ZXN0cyE"
		function  = "ZnVuY3Rpb24ta2V5LW9mLTQwLWJ5dGVzLWZvci10ZXN0cy1vbmx5IQ=="
	)
	for _, tt := range []struct {
		name, text string
		in, inName bool
		hide       string // "" if the text stays the same
	}{
		{"connection string", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + key + ";EndpointSuffix=core.windows.net", true, true,
			"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=…;EndpointSuffix=core.windows.net"},
		{"in any case, with blanks", "accountkey = c2VjcmV0", true, true, "accountkey = …"},
		{"of a URL's path", "/api/scans/AccountName%3Da%3BAccountKey%3DabcDEF%3D%3D", true, true, "/api/scans/AccountName%3Da%3BAccountKey%3D…"},
		{"SAS URL", "https://a.table.core.windows.net/?sv=2024&sig=" + signature + "%3D&se=2026", true, true, "https://a.table.core.windows.net/?sv=2024&sig=…&se=2026"},
		{"SAS in a connection string", "BlobEndpoint=https://a;SharedAccessSignature=sv=1&sig=abc", true, true, "BlobEndpoint=https://a;SharedAccessSignature=…&sig=…"},
		{"function's URL", "https://f/api/scans?code=" + function, true, true, "https://f/api/scans?code=…"},
		{"bare key in a sentence", "there is no " + key + " here", true, true, "there is no … here"},
		{"bare function's key", function, true, true, "…"},
		{"44 characters", strings.Repeat("aB3/", 11), false, true, ""},
		{"43 characters", strings.Repeat("aB3/", 10) + "aB3", false, false, ""},
		{"token", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSIsImlhdCI6MX0.c2ln", true, true, "Bearer …"},
		{"JSON", `{"error":"AccountKey=abc\"","more":1}`, true, true, `{"error":"AccountKey=…\"","more":1}`},
		{"placeholder", "https://f/?code={{.Code}}&sig={{.Sig}}", false, false, ""},
		{"exit code", "exit code=1", false, false, ""},
		{"filter", "code eq 'x' and Signature ge 3", false, false, ""},
		{"name of a scan", "nightly-copy-of-orders-to-the-backup-account-2026-11-23", false, false, ""},
		{"path", "/home/somebody/Projects/tablesweep/backups/Orders20261123/data", false, true, ""},
		{"hash", "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", false, true, ""},
		{"nothing", "", false, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.hide
			if want == "" {
				want = tt.text
			}
			if got := secret.Hide(tt.text); got != want || secret.Hide(got) != got {
				t.Errorf("Hide returned %q, want %q", got, want)
			}
			if in, inName := secret.In(tt.text), secret.InName(tt.text); in != tt.in || inName != tt.inName {
				t.Errorf("got In %v and InName %v, want %v and %v", in, inName, tt.in, tt.inName)
			}
			if named := secret.Name(tt.text); tt.inName == strings.Contains(named, tt.text) && tt.text != "" {
				t.Errorf("named %s", named)
			}
		})
	}
}

// TestCut checks that known secrets and parts of them are replaced in every escaped form.
func TestCut(t *testing.T) {
	const signature = "c2lnbmF0dXJl+LW9mLTMy/LWJ5dGVzLWZvci10ZXN="
	for _, tt := range []struct{ name, text, want string }{
		{"as it is", "a " + signature + " z", "a … z"},
		{"twice", signature + "," + signature, "…,…"},
		{"in capitals", strings.ToUpper(signature), "…"},
		{"of a URL", "sig=" + url.QueryEscape(signature) + "&se=1", "sig=…&se=1"},
		{"of a URL in a URL", url.QueryEscape(url.QueryEscape(signature)), "…"},
		{"of a form", strings.ReplaceAll(signature, "+", " "), "…"},
		{"of a URL's alphabet", strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(signature), "…"},
		{"of JSON", strings.NewReplacer("+", `\u002B`, "/", `\/`, "=", `\u003d`).Replace(signature), "…"},
		{"of JSON in JSON", strings.NewReplacer("+", `\\u002b`).Replace(signature), "…"},
		{"of a JSON pointer", strings.NewReplacer("/", "~1").Replace(signature), "…"},
		{"of HTML", strings.NewReplacer("+", "&#43;", "/", "&#x2F;", "=", "&#061;").Replace(signature), "…"},
		{"its begin", signature[:20] + "…", "……"},
		{"its end", "…" + signature[20:], "……"},
		{"its middle", "x" + signature[9:30] + "x", "x…x"},
		{"a few characters", signature[:11], signature[:11]},
		{"nothing of it", "the table does not exist", "the table does not exist"},
		{"nothing", "", ""},
	} {
		if got := secret.Cut(tt.text, signature, ""); got != tt.want {
			t.Errorf("%s: %q becomes %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
	if got := secret.Cut("a TOPSECRET b", "TOPSECRET", "a", "short"); got != "a … b" {
		t.Errorf("got %q", got)
	}
}

// FuzzHide checks that hiding twice gives the same as hiding once, and that JSON stays JSON.
func FuzzHide(f *testing.F) {
	f.Add("AccountName=a;AccountKey=abc==;sig=%2B\"\\&code=0123456789abcdef")
	f.Add("/api/%3BAccountKey%3Dabc eyJhbGciOi.eyJzdWIiOi.c2ln")
	f.Fuzz(func(t *testing.T, text string) {
		hidden := secret.Hide(text)
		if again := secret.Hide(hidden); again != hidden {
			t.Errorf("%q became %q, and then %q", text, hidden, again)
		}
		if secret.In(hidden) && !secret.In(text) {
			t.Errorf("%q contains no secret, but %q does", text, hidden)
		}
		quoted, err := json.Marshal(map[string]string{"detail": text, "more": "x"})
		proof.Must(t, err)
		var value map[string]string
		if err := json.Unmarshal(secret.HideJSON(quoted), &value); err != nil || value["detail"] != secret.Hide(text) && utf8.ValidString(text) || value["more"] != "x" {
			t.Errorf("%s became %s, error %v", quoted, value, err)
		}
	})
}
