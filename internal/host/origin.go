package host

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tablesweep/internal/loopback"
)

// foreign returns why a request to an app without keys is refused, "" if it is not. Any web
// page can send simple requests to this machine (a POST of text/plain). It can send all kinds of requests
// under its own name once that name resolves to this address (DNS
// rebinding). Keys would stop both. Only browsers send Origin or
// Sec-Fetch-Site.
func (h *Host) foreign(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case !h.named(r.Host):
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

// named reports whether a request's Host is a name of this server. The port does not matter: a tunnel
// may change it. A web page can't choose an address as its name. So a server
// that can be reached from outside accepts every address.
func (h *Host) named(host string) bool {
	if loopback.Is(host) {
		return true
	}
	name := (&url.URL{Host: host}).Hostname()
	given, _, _ := net.SplitHostPort(h.options.Addr)
	if name != "" && strings.EqualFold(name, given) {
		return true
	}
	_, err := netip.ParseAddr(name)
	listening, _ := h.listener.Addr().(*net.TCPAddr)
	return err == nil && listening != nil && !listening.IP.IsLoopback()
}
