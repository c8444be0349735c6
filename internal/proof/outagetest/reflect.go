package outagetest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Reflections are malicious answers to a request, in the form of raw HTTP. Each answer repeats the request's URL and its signature or key, in another place
// and spelling.
var Reflections = map[string]func(r *http.Request) string{
	"code in a header":         func(r *http.Request) string { return answer(r, 400, "X-Ms-Error-Code: "+signed(r), "{}") },
	"code of a denial":         func(r *http.Request) string { return answer(r, 403, "X-Ms-Error-Code: "+signed(r), "{}") },
	"code of a missing thing":  func(r *http.Request) string { return answer(r, 404, "X-Ms-Error-Code: "+signed(r), "{}") },
	"code of a failure":        func(r *http.Request) string { return answer(r, 500, "X-Ms-Error-Code: "+signed(r), "{}") },
	"code of a busy service":   func(r *http.Request) string { return answer(r, 503, "X-Ms-Error-Code: "+signed(r), "{}") },
	"code in JSON":             func(r *http.Request) string { return answer(r, 400, json, odata(signed(r), "m")) },
	"code in JSON, escaped":    func(r *http.Request) string { return answer(r, 400, json, odata(inJSON(signed(r)), "m")) },
	"code escaped as of a URL": func(r *http.Request) string { return answer(r, 400, json, odata(url.QueryEscape(signed(r)), "m")) },
	"code escaped twice": func(r *http.Request) string {
		return answer(r, 400, json, odata(url.QueryEscape(url.QueryEscape(signed(r))), "m"))
	},
	"code in capitals":    func(r *http.Request) string { return answer(r, 400, json, odata(strings.ToUpper(signed(r)), "m")) },
	"detail of a problem": func(r *http.Request) string { return answer(r, 400, json, fmt.Sprintf(`{"detail":%q}`, signed(r))) },
	"message in JSON":     func(r *http.Request) string { return answer(r, 400, json, odata("InvalidInput", signed(r))) },
	"code in XML": func(r *http.Request) string {
		return answer(r, 400, xml, "<Error><Code>"+inXML(signed(r))+"</Code></Error>")
	},
	"message in XML": func(r *http.Request) string {
		return answer(r, 403, xml, "<Error><Code>AuthenticationFailed</Code><Message>"+inXML(signed(r))+"</Message></Error>")
	},
	"type of a page":    func(r *http.Request) string { return answer(r, 200, "Content-Type: "+signed(r), "<html>") },
	"type of a refusal": func(r *http.Request) string { return answer(r, 403, "Content-Type: "+signed(r), "<html>") },
	"type of a transaction": func(r *http.Request) string {
		return answer(r, 202, "Content-Type: multipart/mixed; boundary="+signed(r), "--x")
	},
	"address of another page": func(r *http.Request) string { return answer(r, 302, "Location: "+signed(r), signed(r)) },
	"range of a blob":         func(r *http.Request) string { return answer(r, 206, "Content-Range: bytes 1-"+signed(r), "x") },
	"encoding":                func(r *http.Request) string { return answer(r, 200, "Content-Encoding: "+signed(r), "x") },
	"a type of a row": func(r *http.Request) string {
		return answer(r, 200, json, fmt.Sprintf(`{"value":[{"PartitionKey":"p","RowKey":"r","A@odata.type":%q,"A":"x"}]}`, signed(r)))
	},
	"a page that breaks off": func(r *http.Request) string { return answer(r, 200, json, fmt.Sprintf(`{%q`, signed(r))) },
	"a broken header":        func(r *http.Request) string { return "HTTP/1.1 200 OK\r\n" + signed(r) + "\r\n\r\n" },
	"a broken header's name": func(r *http.Request) string { return "HTTP/1.1 200 OK\r\n" + signed(r) + " : x\r\n\r\n" },
	"a broken protocol":      func(r *http.Request) string { return signed(r) + " 200 OK\r\n\r\n" },
	"a broken status":        func(r *http.Request) string { return "HTTP/1.1 " + signed(r) + "\r\n\r\n" },
	"a broken length":        func(r *http.Request) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + signed(r) + "\r\n\r\n" },
	"a broken transfer":      func(r *http.Request) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + signed(r) + "\r\n\r\n" },
	"a broken chunk": func(r *http.Request) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + signed(r) + "\r\n"
	},
	"a broken part of a change": func(r *http.Request) string {
		return answer(r, 202, "Content-Type: multipart/mixed; boundary=b", "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 400 Bad\r\n"+signed(r)+"\r\n\r\n{}\r\n--c--\r\n--b--\r\n")
	},
	"a refused part of a change": func(r *http.Request) string {
		return answer(r, 202, "Content-Type: multipart/mixed; boundary=b", "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 400 Bad\r\nX-Ms-Error-Code: "+signed(r)+"\r\n\r\n"+odata("InvalidInput", "0:"+signed(r))+"\r\n--c--\r\n--b--\r\n")
	},
}

const (
	json = "Content-Type: application/json"
	xml  = "Content-Type: application/xml"
)

// signed returns a request's signature or key, and its URL.
func signed(r *http.Request) string {
	return r.Header.Get("Authorization") + r.Header.Get("x-functions-key") + " http://" + r.Host + r.URL.RequestURI()
}

// answer returns a raw HTTP answer that has the headers of the storage services.
func answer(r *http.Request, status int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nX-Ms-Version: 2019-02-02\r\nX-Ms-Client-Request-Id: %s\r\n%s\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), r.Header.Get("X-Ms-Client-Request-Id"), header, len(body), body)
}

func odata(code, message string) string {
	return fmt.Sprintf(`{"odata.error":{"code":"%s","message":{"value":"%s"}}}`, code, message)
}

// inJSON replaces characters of a JSON string by optional escapes.
func inJSON(text string) string {
	return strings.NewReplacer("+", `\u002B`, "/", `\/`, "=", `\u003d`, "&", `\u0026`, "%", `\u0025`).Replace(text)
}

func inXML(text string) string {
	return strings.NewReplacer("&", "&amp;", "+", "&#43;", "/", "&#x2F;", "=", "&#61;").Replace(text)
}

// Signatures returns the secrets of a request, which no output may contain. Each secret is reduced to its letters and digits in lower case, for [Repeats].
func Signatures(r *http.Request) (secrets []string) {
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), ":")
	for _, text := range []string{key, r.URL.Query().Get("sig"), r.Header.Get("x-functions-key")} {
		if text = letters(text); len(text) >= 16 {
			secrets = append(secrets, text)
		}
	}
	return secrets
}

// Repeats reports whether a text contains one of the signatures, in any escaped form.
func Repeats(text string, signatures []string) bool {
	for range 3 {
		if plain, err := url.QueryUnescape(text); err == nil {
			text += plain
		}
	}
	text = letters(strings.NewReplacer("%2b", "", "%2f", "", "%3d", "", "u002b", "", "u003d", "", "&#43;", "", "&#x2f;", "", "&#61;", "").Replace(strings.ToLower(text)))
	for _, s := range signatures {
		if strings.Contains(text, s[:16]) || strings.Contains(text, s[len(s)-16:]) {
			return true
		}
	}
	return false
}

// letters returns the letters and digits of a text, in lower case.
func letters(text string) string {
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' {
			return c
		}
		return -1
	}, strings.ToLower(text))
}
