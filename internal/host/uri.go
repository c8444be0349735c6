package host

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// This file does to a path what the host's web server and then its proxy do. (ASP.NET Core, Kestrel's UrlDecoder and PathString;
// YARP's RequestUtilities)

// inPath are the characters that a path may have as they are.
const inPath = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@!$&'()*+,;="

// decodedPath decodes a path once. It keeps %2F, and escapes that are not UTF-8.
func decodedPath(raw string) (string, error) {
	decoded := unescaped(raw)
	if strings.Contains(decoded, "\x00") {
		return "", errors.New("the path has a %00")
	}
	return withoutDots(decoded), nil
}

// unescaped decodes a path once. It keeps %2F, and escapes that are not UTF-8.
func unescaped(raw string) string {
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
		case r == '/' || r == utf8.RuneError && size == 1:
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
func proxiedPath(decoded string) string {
	var b strings.Builder
	for i := range len(decoded) {
		if c := decoded[i]; strings.IndexByte(inPath, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// setPath sets a URL's path to an escaped one.
func setPath(u *url.URL, escaped string) {
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped) // escaped by us
}
