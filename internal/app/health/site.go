package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"tablesweep/internal/input/loopback"
)

// errAddress is the error for an address that does not belong to an app, or that contains a key.
var errAddress = errors.New("must be of the form https://APP.azurewebsites.net, without a key")

// Site is a running app, with its address and a key.
type Site struct {
	URL string // such as https://APP.azurewebsites.net
	Key string // a function key; may be ""
	Web *http.Client
}

// Host returns the host name in the site's address. If the address is not valid, Host returns an error.
func (s Site) Host() (string, error) {
	u, err := s.address()
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

func (s Site) address() (*url.URL, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !loopback.Is(u.Host) {
		return nil, errAddress
	}
	return u, nil
}

// Send sends a request with the key, and with a JSON body if body is not empty. It does not follow redirects, which could
// send the key to another server. It returns the answer's status, and at most 1 MiB of its body. No error contains the
// key.
func (s Site) Send(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	u, err := s.address()
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, u.Scheme+"://"+u.Host+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.Key != "" {
		r.Header.Set("x-functions-key", s.Key)
	}
	client := *s.Web
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		if text := s.Hide(err.Error()); text != err.Error() { // the error quotes an answer that is not HTTP and contains the key
			err = errors.New(text)
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // if the answer is incomplete, the caller does not recognize it as the app's answer
	return resp.StatusCode, answer, nil
}

// Unknown returns the error for an answer that did not come from this app.
func (s Site) Unknown(status int) error {
	host, err := s.Host()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s answers with status %d, but the answer is not from this app; check that the app is published and started", host, status)
}

// Hide returns the text without the key.
func (s Site) Hide(text string) string {
	if s.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Key, "…")
}
