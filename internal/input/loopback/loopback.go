// Package loopback recognizes the names of this machine, and requests that come from web pages of other sites. By DNS
// rebinding, a web page can make its own host name resolve to this machine. But this name is never localhost or a
// loopback address.
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

// Foreign returns the reason why a server without keys must refuse a request, or "". Any web page can send simple
// requests, such as a POST of text/plain, to this machine. Once the page's host name resolves to this machine, the page
// can send all kinds of requests under that name. A server with keys refuses all these requests. Foreign returns a
// reason for every host name that is not a name of this machine. It recognizes other requests from pages of other sites
// by the headers Origin and Sec-Fetch-Site, which only browsers send.
func Foreign(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case !Is(r.Host): // the port is ignored, because a tunnel may change the port
		return fmt.Sprintf("Host %q is not this machine", r.Host)
	case !ownOrigin(r):
		return fmt.Sprintf("Origin %q belongs to another web page", r.Header.Get("Origin"))
	case site != "" && site != "none" && site != "same-origin":
		return fmt.Sprintf("Sec-Fetch-Site %q means that another web page has sent this request; to open this address, type it into the browser", site)
	}
	return ""
}

// ownOrigin reports whether a request has no Origin, or whether its Origin is the address that received the request.
func ownOrigin(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) == 0 {
		return true
	}
	u, err := url.Parse(given[0])
	return len(given) == 1 && err == nil && u.Scheme == "http" && strings.EqualFold(u.Host, r.Host)
}
