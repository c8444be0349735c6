package main

import (
	"context"
	"io"
	"net/http"
)

// consoleOf returns the address of the console of an app that is served at url, "" if the
// app has none.
func consoleOf(ctx context.Context, url string) string {
	address := url + "/api/console/"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is done with
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return address
}
