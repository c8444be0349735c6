// Package secret tells what looks like a secret: an account's key, a connection string, a shared access signature, a function's key or
// a token. People paste them where a name belongs. Code that prints what a caller gave hides them by this package. Code that stores
// it refuses them.
//
// The package goes by looks alone. Rows and records are data, and never go through it.
package secret

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// hidden stands in the place of a secret.
const hidden = "…"

var (
	// labelled is a secret behind its name, as connection strings and URLs have it, the URL's escapes included. A template's
	// placeholder is none.
	labelled = regexp.MustCompile(`(?i)((?:\b|%[0-9a-f]{2})(?:AccountKey|SharedAccessKey|SharedAccessSignature|Client_?Secret|Password|Pwd|sig)(?:\s*=\s*|%3D))[^\s;&"'<>\\{}]+|((?:\b|%[0-9a-f]{2})code(?:=|%3D))[a-z0-9+/_%=-]{16,}`)
	// padded is a key of 32 bytes or more in base64, of either alphabet, with its padding; and a token of Entra ID.
	padded = regexp.MustCompile(`(?i)[a-z0-9+/_-]{42,}(?:={1,2}|%3D(?:%3D)?)|\beyJ[a-z0-9_-]{10,}\.[a-z0-9_-]{10,}\.[a-z0-9_-]*`)
	// base64 is as long as a key of 32 bytes. In free text it may be anything. Names hardly have it.
	base64 = regexp.MustCompile(`[A-Za-z0-9+/]{44,}`)
)

// Labelled reports whether a text has a secret behind its name. Values that are data may look like a bare key: many are hashes.
func Labelled(text string) bool { return labelled.MatchString(text) }

// In reports whether a text has what looks like a secret.
func In(text string) bool { return labelled.MatchString(text) || padded.MatchString(text) }

// InName is [In] for a name, in which 44 characters of base64 count as a secret, too.
func InName(name string) bool { return In(name) || base64.MatchString(name) }

// Name returns a name in quotes for a message, or says what it looks like in its place.
func Name(name string) string {
	if InName(name) {
		return fmt.Sprintf("%q (which looks like a secret)", hidden)
	}
	return fmt.Sprintf("%q", name)
}

// Hide returns a text with … in the place of all that looks like a secret.
func Hide(text string) string {
	text = labelled.ReplaceAllString(text, "$1$2"+hidden)
	return padded.ReplaceAllString(text, hidden)
}

// piece is how many characters of a secret in a row [Cut] looks for. A signature has 44.
const piece = 12

// Cut returns a text with … in the place of the secrets and of pieces of them, in whatever case and however URLs, JSON, HTML and forms escape
// them. It passes over secrets of less than 8 characters.
func Cut(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 8 {
			text = cut(text, s, min(len(s), piece))
		}
	}
	return text
}

func cut(text, secret string, least int) string {
	var out strings.Builder
	for at := 0; at < len(text); {
		longest := 0
		for from := 0; from+least <= len(secret); from++ {
			if !mayBegin(text[at], secret[from]) { // nearly always, and a signature is looked for at each byte
				continue
			}
			if of, n := begins(text[at:], secret[from:]); of >= least {
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

// mayBegin reports whether a byte of a text may begin a secret's character, as [spelt] has it.
func mayBegin(b, c byte) bool {
	switch b {
	case c, c ^ 0x20, '%', '\\', '&', '~', '-', ' ', '_': // another case, an escape, a character of the other alphabet of base64
		return true
	}
	return false
}

// begins returns with how many of a secret's characters a text begins, and how long they are there.
func begins(text, secret string) (of, n int) {
	for of < len(secret) {
		m := spelt(text[n:], secret[of])
		if m == 0 {
			break
		}
		of, n = of+1, n+m
	}
	return of, n
}

// escaped is a character as URLs, JSON and HTML escape it, perhaps more than once.
var escaped = regexp.MustCompile(`^(?i:%(?:25)*([0-9a-f]{2})|\\*u00([0-9a-f]{2})|&#x0*([0-9a-f]{2});|&#0*([0-9]{2,3});)`)

// spelt returns the length of a character at the beginning of a text, 0 if another one stands there.
func spelt(text string, c byte) int {
	letter := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	switch {
	case text == "":
		return 0
	case text[0] == c, letter && text[0]|0x20 == c|0x20 && text[0] >= '0', c == '+' && (text[0] == '-' || text[0] == ' '), c == '/' && text[0] == '_':
		return 1
	case letter:
		return 0
	case c == '/' && (strings.HasPrefix(text, "~1") || strings.HasPrefix(text, `\/`)): // a JSON pointer's, and JSON's own
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

// HideJSON is [Hide] for the texts of a JSON value, names included. What is not JSON is hidden as text.
func HideJSON(value []byte) []byte { return InJSON(value, Hide) }

// InJSON changes the texts of a JSON value, names included. What is not JSON is changed as one text.
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
