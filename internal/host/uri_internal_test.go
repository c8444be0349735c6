package host

import (
	"net/url"
	"testing"
)

// TestPaths: what was seen on the real host.
func TestPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sent, proxied string }{
		{"/api/log/a%23b", "/api/log/a%23b"},
		{"/api/log/a%3Fb", "/api/log/a%3Fb"},
		{"/api/log/a%5Cb", "/api/log/a%5Cb"},
		{"/api/log/a%252Fb", "/api/log/a%252Fb"},
		{"/api/log/a%2Fb", "/api/log/a%252Fb"},
		{"/api/log/a%20b", "/api/log/a%20b"},
		{"/api/log/a%20", "/api/log/a%20"},
		{"/api/log/50%25", "/api/log/50%25"},
		{"/api/log/a%2541", "/api/log/a%2541"},
		{"/api/log/%C3%A9", "/api/log/%C3%A9"},
		{"/api/log/%E2%82", "/api/log/%25E2%2582"},
		{"/api/log//a//b", "/api/log//a//b"},
		{"/api/log/a%2Bb", "/api/log/a+b"},
		{"/api/log/a+b", "/api/log/a+b"},
		{"/api/log/../scans", "/api/scans"},
		{"/api/log/%2E%2e/scans/.", "/api/scans/"},
		{"/../../api", "/api"},
		{"/api/log/%zz%", "/api/log/%25zz%25"},
		{"/api/%F0%9F%98%80%41", "/api/%F0%9F%98%80A"},
	} {
		decoded, err := decodedPath(tt.sent)
		if err != nil {
			t.Fatal(err)
		}
		if got := proxiedPath(decoded); got != tt.proxied {
			t.Errorf("%s is proxied as %s, want %s", tt.sent, got, tt.proxied)
		}
		u := url.URL{Scheme: "http", Host: "h"}
		if setPath(&u, tt.proxied); u.EscapedPath() != tt.proxied {
			t.Errorf("%s becomes %s in a URL", tt.proxied, u.EscapedPath())
		}
	}
	if _, err := decodedPath("/a%00b"); err == nil {
		t.Error("%00 is refused")
	}
}
