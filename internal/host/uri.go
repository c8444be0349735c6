package host

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// This file does to a path what the host's web server does, and then what the two ways of passing on a
// request do. (ASP.NET Core, Kestrel's UrlDecoder and PathString; System.Uri;
// YARP's RequestUtilities; HttpRequestExtensions of azure-functions-host)

const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	inPath     = unreserved + "/:@!$&'()*+,;="
)

// decodedPath decodes a path once. It keeps %2F, and escapes that are not UTF-8.
func decodedPath(raw string) (string, error) {
	decoded := unescaped(raw, "/")
	if strings.Contains(decoded, "\x00") {
		return "", errors.New("the path has a %00")
	}
	return withoutDots(decoded), nil
}

// unescaped decodes a text once. It keeps escapes of the characters to keep, and those that are not UTF-8.
func unescaped(raw, keep string) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		var found [utf8.UTFMax]byte
		n := 0
		for n < len(found) && i+3*n < len(raw) {
			c, ok := escapedByte(raw[i+3*n:])
			if !ok {
				break
			}
			found[n] = c
			n++
		}
		r, size := utf8.DecodeRune(found[:n])
		switch {
		case n == 0:
			b.WriteByte(raw[i])
			i++
		case strings.ContainsRune(keep, r) || r == utf8.RuneError && size == 1:
			b.WriteString(raw[i : i+3])
			i += 3
		default:
			b.WriteRune(r)
			i += 3 * size
		}
	}
	return b.String()
}

// escapedByte decodes the escape that s begins with.
func escapedByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	c, err := hex.DecodeString(s[1:3])
	if err != nil {
		return 0, false
	}
	return c[0], true
}

// withoutDots resolves the segments . and .. only.
func withoutDots(p string) string {
	if !strings.Contains(p, "/.") {
		return p
	}
	var kept []string
	segments := strings.Split(p, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == ".." && len(kept) > 1:
			kept = kept[:len(kept)-1]
		case s != "." && s != "..":
			kept = append(kept, s)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return strings.Join(kept, "/")
}

// proxiedPath returns the path of a proxied request, given the decoded one.
func proxiedPath(decoded string) string { return escape(decoded, inPath) }

// forwardedPath returns the path of a forwarded request. The host parses a URL that has the decoded path.
// hasQuery reports whether a query follows the path there.
func forwardedPath(decoded string, hasQuery bool) string {
	p := decoded
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	} else if !hasQuery {
		p = strings.TrimRight(p, " \t\r\n")
	}
	p = strings.ReplaceAll(p, `\`, "/")
	var b strings.Builder
	for i := 0; i < len(p); {
		c, ok := escapedByte(p[i:])
		switch {
		case ok && strings.IndexByte(unreserved, c) >= 0:
			b.WriteByte(c)
			i += 3
		case ok:
			b.WriteString(p[i : i+3])
			i += 3
		default:
			b.WriteString(escape(p[i:i+1], inPath+"[]"))
			i++
		}
	}
	return withoutDots(b.String())
}

// escape escapes every byte that is not allowed.
func escape(s, allowed string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; strings.IndexByte(allowed, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// forwardedQuery returns the query of a forwarded request. Names that differ only in case become one, in the last of
// these forms, with all values joined by commas but the empty ones.
func forwardedQuery(raw string) string {
	var order []string // of folded names
	names, values := map[string]string{}, map[string]string{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = queryText(name), queryText(value)
		folded := strings.ToLower(name)
		before, again := values[folded]
		switch {
		case !again:
			order = append(order, folded)
		case before != "" && value != "":
			value = before + "," + value
		default:
			value = before + value
		}
		names[folded], values[folded] = name, value
	}
	pairs := make([]string, len(order))
	for i, folded := range order {
		pairs[i] = escape(names[folded], unreserved) + "=" + escape(values[folded], unreserved)
	}
	return strings.Join(pairs, "&")
}

// queryText decodes a name or value of a query. Invalid escapes stay.
func queryText(s string) string { return unescaped(strings.ReplaceAll(s, "+", " "), "") }

// setPath sets a URL's path to an escaped one.
func setPath(u *url.URL, escaped string) {
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped) // escaped by us
}
