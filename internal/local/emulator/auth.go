package emulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/local/emulator/refusal"
)

// maxSkew is the maximum difference between a request's date and the server's clock.
const maxSkew = 15 * time.Minute

func authenticationFailed(why string) error {
	return refusal.New("AuthenticationFailed", "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly including the signature. ("+why+")")
}

// authenticate checks the request's signature, as described in
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
func (e *Emulator) authenticate(r *http.Request, s service) error {
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme != "SharedKey" && scheme != "SharedKeyLite" {
		return authenticationFailed("only SharedKey and SharedKeyLite are known here")
	}
	account, signature, _ := strings.Cut(rest, ":")
	if account != e.account {
		return authenticationFailed("there is no account " + account)
	}
	date, err := http.ParseTime(requestDate(r))
	if err != nil {
		return authenticationFailed("the date is missing or malformed")
	}
	if skew := time.Since(date); skew > maxSkew || skew < -maxSkew {
		return authenticationFailed("the date is too far from the server's clock")
	}
	text, err := s.stringToSign(r, scheme)
	if err != nil {
		return authenticationFailed(err.Error())
	}
	mac := hmac.New(sha256.New, *e.key.Load())
	mac.Write([]byte(text))
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(signature), []byte(want)) {
		return authenticationFailed("the signature does not match")
	}
	return nil
}

// requestDate returns the signed date: x-ms-date if present, otherwise Date.
func requestDate(r *http.Request) string {
	if date := r.Header.Get("x-ms-date"); date != "" {
		return date
	}
	return r.Header.Get("Date")
}

// resource returns the canonicalized resource without parameters. Its path is not decoded.
func (e *Emulator) resource(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return "/" + e.account + path
}

func (s tableService) stringToSign(r *http.Request, scheme string) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	resource := s.resource(r)
	if comp := query.Get("comp"); comp != "" {
		resource += "?comp=" + comp
	}
	if scheme == "SharedKeyLite" {
		return requestDate(r) + "\n" + resource, nil
	}
	return strings.Join([]string{
		r.Method,
		r.Header.Get("Content-MD5"),
		r.Header.Get("Content-Type"),
		requestDate(r),
		resource,
	}, "\n"), nil
}

// stringToSign returns the text that is signed for the Queue or Blob service.
func (e *Emulator) stringToSign(r *http.Request, scheme string) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	date := r.Header.Get("Date")
	if r.Header.Get("x-ms-date") != "" {
		date = ""
	}
	if scheme == "SharedKeyLite" {
		resource := e.resource(r)
		if comp := query.Get("comp"); comp != "" {
			resource += "?comp=" + comp
		}
		return strings.Join([]string{
			r.Method,
			r.Header.Get("Content-MD5"),
			r.Header.Get("Content-Type"),
			date,
			canonicalHeaders(r.Header) + resource,
		}, "\n"), nil
	}
	length := ""
	version := r.Header.Get("x-ms-version")
	signsZero := version != "" && version <= "2014-02-14" && r.Header.Get("Content-Length") == "0"
	if r.ContentLength > 0 || signsZero {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	return strings.Join([]string{
		r.Method,
		r.Header.Get("Content-Encoding"),
		r.Header.Get("Content-Language"),
		length,
		r.Header.Get("Content-MD5"),
		r.Header.Get("Content-Type"),
		date,
		r.Header.Get("If-Modified-Since"),
		r.Header.Get("If-Match"),
		r.Header.Get("If-None-Match"),
		r.Header.Get("If-Unmodified-Since"),
		r.Header.Get("Range"),
		canonicalHeaders(r.Header) + e.resource(r) + canonicalQuery(query),
	}, "\n"), nil
}

func canonicalHeaders(h http.Header) string {
	lines := make(map[string]string)
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			lines[name] += name + ":" + strings.Join(values, ",") + "\n"
		}
	}
	return sorted(lines)
}

func canonicalQuery(query url.Values) string {
	lines := make(map[string]string)
	for name, values := range query {
		values = slices.Sorted(slices.Values(values))
		name = strings.ToLower(name)
		lines[name] += "\n" + name + ":" + strings.Join(values, ",")
	}
	return sorted(lines)
}

// sorted sorts the lines by name. If whole lines were sorted, "x-ms-meta-a:" would come before "x-ms-meta:".
func sorted(lines map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[name])
	}
	return b.String()
}
