// Package loopback tells this machine's own names from others. A web page can make a name of its own resolve to
// this machine (DNS rebinding), but it is never called localhost, nor by a loopback address.
package loopback

import (
	"net/netip"
	"net/url"
	"strings"
)

// Is reports whether a request's Host, with or without a port, is localhost or a loopback address.
func Is(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback()
}
