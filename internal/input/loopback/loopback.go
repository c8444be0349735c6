// Package loopback tells this machine's own names from others, and its own pages and programs from other web pages. A web page can make a
// name of its own resolve to this machine (DNS rebinding), but it is never called localhost, nor by a loopback address.
package loopback

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Is reports whether a request's Host, or an address to listen at, with or without a port, is localhost or a loopback address.
func Is(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback()
}

// Foreign returns why a server without keys must refuse a request, "" if it need not. Any web page can send simple requests to this
// machine (a POST of text/plain). It can send all kinds of requests under its own name once that name resolves to this address. Keys would
// stop both. Only browsers send Origin or Sec-Fetch-Site.
func Foreign(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case !Is(r.Host): // the port does not matter: a tunnel may change it
		return fmt.Sprintf("Host %q is not this machine", r.Host)
	case !ownOrigin(r):
		return fmt.Sprintf("Origin %q is another web page's", r.Header.Get("Origin"))
	case site != "" && site != "none" && site != "same-origin":
		return fmt.Sprintf("Sec-Fetch-Site %q means that another web page has sent this; to open this address, type it", site)
	}
	return ""
}

// ownOrigin reports whether a request's Origin is absent or the address that it is sent to.
func ownOrigin(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) == 0 {
		return true
	}
	u, err := url.Parse(given[0])
	return len(given) == 1 && err == nil && u.Scheme == "http" && strings.EqualFold(u.Host, r.Host)
}
