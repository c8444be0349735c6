// Package loopback distinguishes this machine's own names from others, and its own pages and programs from other web pages. A web
// page can make a name of its own resolve to this machine (DNS rebinding), but that name is never localhost or a loopback
// address.
package loopback

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Is reports whether a host is localhost or a loopback address. The host is a request's Host or an address to listen on, with or
// without a port.
func Is(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback()
}

// Foreign returns the reason why a server without keys must refuse a request, or "". Any web page can send simple requests to
// this machine (a POST of text/plain). It can send all kinds of requests under its own name once that name resolves to this
// address. Keys would prevent both. Only browsers send Origin or Sec-Fetch-Site.
func Foreign(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case !Is(r.Host): // ignore the port, because a tunnel may change it
		return fmt.Sprintf("Host %q is not this machine", r.Host)
	case !ownOrigin(r):
		return fmt.Sprintf("Origin %q is another web page's", r.Header.Get("Origin"))
	case site != "" && site != "none" && site != "same-origin":
		return fmt.Sprintf("Sec-Fetch-Site %q means that another web page has sent this; to open this address, type it", site)
	}
	return ""
}

// ownOrigin reports whether a request has no Origin, or its Origin is the address that received the request.
func ownOrigin(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) == 0 {
		return true
	}
	u, err := url.Parse(given[0])
	return len(given) == 1 && err == nil && u.Scheme == "http" && strings.EqualFold(u.Host, r.Host)
}
