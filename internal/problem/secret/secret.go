// Package secret recognizes secrets by their form: an account's key, a connection string, a shared access signature, a function's key or a token.
// People paste secrets into fields for names. Code that prints a caller's input hides such secrets, and code that stores a caller's input refuses
// them.
//
// The content of rows and records is not searched for secrets.
package secret

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// hidden replaces a secret.
const hidden = "…"

var (
	// labelled matches a secret after the secret's name, as in connection strings and URLs. It also matches escaped forms in URLs, but not the
	// placeholder of a template.
	labelled = regexp.MustCompile(`(?i)((?:\b|%[0-9a-f]{2})(?:AccountKey|SharedAccessKey|SharedAccessSignature|Client_?Secret|Password|Pwd|sig)(?:\s*=\s*|%3D))[^\s;&"'<>\\{}]+|((?:\b|%[0-9a-f]{2})code(?:=|%3D))[a-z0-9+/_%=-]{16,}`)
	// padded matches two kinds of secrets: a padded key of at least 32 bytes in either alphabet of base64, and a token of Entra ID.
	padded = regexp.MustCompile(`(?i)[a-z0-9+/_-]{42,}(?:={1,2}|%3D(?:%3D)?)|\beyJ[a-z0-9_-]{10,}\.[a-z0-9_-]{10,}\.[a-z0-9_-]*`)
	// base64 matches base64 text that is at least as long as a key of 32 bytes in base64. Free text may contain such base64 for other reasons, but
	// names hardly ever do.
	base64 = regexp.MustCompile(`[A-Za-z0-9+/]{44,}`)
)

// Labelled reports whether a text contains the name of a secret, such as "sig=", followed by a value. Use
// Labelled, not [In], for texts with values of rows, such as filters: many of these values are hashes, which
// [In] takes for keys.
func Labelled(text string) bool { return labelled.MatchString(text) }

// In reports whether a text contains something that looks like a secret.
func In(text string) bool { return labelled.MatchString(text) || padded.MatchString(text) }

// InName is like [In], but for a name. In a name, 44 characters of base64 also count as a secret.
func InName(name string) bool { return In(name) || base64.MatchString(name) }

// Name returns a name in quotes for a message. If the name looks like a secret, Name returns an ellipsis and a remark
// instead.
func Name(name string) string {
	if InName(name) {
		return fmt.Sprintf("%q (which looks like a secret)", hidden)
	}
	return fmt.Sprintf("%q", name)
}

// Hide returns the text with an ellipsis (…) in place of everything that looks like a secret.
func Hide(text string) string {
	text = labelled.ReplaceAllString(text, "$1$2"+hidden)
	return padded.ReplaceAllString(text, hidden)
}

// minPart is the minimum length, in characters, of a part of a secret that [Cut] replaces. For comparison, a signature has 44
// characters.
const minPart = 12

// Cut replaces the given secrets, and parts of these secrets, by an ellipsis (…) wherever they occur in a text. It finds them in upper and lower
// case, and in all escaped forms of URLs, JSON, HTML and form data. It ignores secrets of fewer than 8 characters.
func Cut(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 8 {
			text = cut(text, s, min(len(s), minPart))
		}
	}
	return text
}

func cut(text, secret string, least int) string {
	var out strings.Builder
	for at := 0; at < len(text); {
		longest := 0
		for from := 0; from+least <= len(secret); from++ {
			if !mayBegin(text[at], secret[from]) { // excludes nearly all bytes, which saves time
				continue
			}
			if of, n := leadingMatch(text[at:], secret[from:]); of >= least {
				longest = max(longest, n)
			}
		}
		if longest == 0 {
			out.WriteByte(text[at])
			at++
			continue
		}
		out.WriteString(hidden)
		at += longest
	}
	return out.String()
}

// mayBegin reports whether the byte b may begin the character c, or an escaped form of c that [escapedLength] accepts.
func mayBegin(b, c byte) bool {
	switch b {
	case c, c ^ 0x20, '%', '\\', '&', '~', '-', ' ', '_': // c itself, c in the other case, the first byte of an escape, or a byte that may replace '+' or '/'
		return true
	}
	return false
}

// leadingMatch compares the beginning of the text, in which characters may be escaped, with the beginning of the
// secret. It returns how many of the secret's characters match, and how many bytes of the text they take.
func leadingMatch(text, secret string) (of, n int) {
	for of < len(secret) {
		m := escapedLength(text[n:], secret[of])
		if m == 0 {
			break
		}
		of, n = of+1, n+m
	}
	return of, n
}

// escaped matches a character that URLs, JSON or HTML have escaped, perhaps more than once.
var escaped = regexp.MustCompile(`^(?i:%(?:25)*([0-9a-f]{2})|\\*u00([0-9a-f]{2})|&#x0*([0-9a-f]{2});|&#0*([0-9]{2,3});)`)

// escapedLength returns the length of the character c, possibly escaped, at the start of a text, or 0 if the text starts
// with another character. Letters in upper and lower case count as equal. An escaped letter or digit does not count. In
// the text, "-" and a blank also count as "+", and "_" counts as "/".
func escapedLength(text string, c byte) int {
	letter := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	switch {
	case text == "":
		return 0
	case text[0] == c, letter && text[0]|0x20 == c|0x20 && text[0] >= '0', c == '+' && (text[0] == '-' || text[0] == ' '), c == '/' && text[0] == '_':
		return 1
	case letter:
		return 0
	case c == '/' && (strings.HasPrefix(text, "~1") || strings.HasPrefix(text, `\/`)): // the escapes in a JSON pointer and in JSON
		return 2
	}
	found := escaped.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	base, digits := 16, found[1]+found[2]+found[3]
	if digits == "" {
		base, digits = 10, found[4]
	}
	if code, err := strconv.ParseUint(digits, base, 8); err != nil || byte(code) != c {
		return 0
	}
	return len(found[0])
}

// HideJSON is [InJSON] with [Hide].
func HideJSON(value []byte) []byte { return InJSON(value, Hide) }

// InJSON replaces each text of a JSON value, including names, by the result of the function `change`. If value is not JSON,
// InJSON calls `change` once, with the whole value.
func InJSON(value []byte, change func(string) string) []byte {
	tolerant := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var out bytes.Buffer
	from, to := jsontext.NewDecoder(bytes.NewReader(value), tolerant...), jsontext.NewEncoder(&out, tolerant...)
	for {
		t, err := from.ReadToken()
		if err == nil && t.Kind() == '"' {
			t = jsontext.String(change(t.String()))
		}
		if err == nil {
			err = to.WriteToken(t)
		}
		if err != nil {
			return []byte(change(string(value)))
		}
		if from.StackDepth() == 0 {
			return out.Bytes()
		}
	}
}
