package host

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// foreign returns why a request to an app without keys is refused, "" if it is not. Any web
// page can send requests to this machine: simple ones as they are (a POST of text/plain),
// and all kinds of them under its own name once that name resolves to this address (DNS
// rebinding). Keys would stop both. Programs that are no browsers send neither Origin nor
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

// named reports whether a request's Host is a name of this server, whatever the port, which
// a tunnel may change. A web page can't choose an address as its name; so where the server
// can be reached from outside, every address will do.
func (h *Host) named(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.Trim(name, "[]")
	given, _, _ := net.SplitHostPort(h.options.Addr)
	if strings.EqualFold(name, "localhost") || name != "" && strings.EqualFold(name, given) {
		return true
	}
	address, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	listening, _ := h.listener.Addr().(*net.TCPAddr)
	return address.Unmap().IsLoopback() || listening != nil && !listening.IP.IsLoopback()
}
