package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/proof"
)

// TestUnsolicitedAnswersAreNotLogged: a server answers twice. net/http logs the beginning of the second answer, but the program does not print it.
func TestUnsolicitedAnswersAreNotLogged(t *testing.T) {
	var all, shown bytes.Buffer
	log.SetOutput(io.MultiWriter(&all, withoutAnswers{&shown}))
	defer log.SetOutput(os.Stderr)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	proof.Must(t, err)
	defer l.Close()
	closed := make(chan error, 1)
	go func() { // ends with the connection
		c, err := l.Accept()
		if err == nil {
			in := bufio.NewReader(c)
			_, _ = http.ReadRequest(in)
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"
			_, _ = io.WriteString(c, answer)
			time.Sleep(50 * time.Millisecond) // afterwards the connection is idle
			_, _ = io.WriteString(c, answer)
			_, err = io.Copy(io.Discard, in) // net/http logs before it closes the connection
			c.Close()
		}
		closed <- err
	}()
	transport := &http.Transport{}
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + l.Addr().String())
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if err := errors.Join(err, <-closed); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	log.Print("something else")
	if got := all.String(); !strings.Contains(got, "HTTP/1.1 200 OK") || strings.Count(shown.String(), "\n") != 1 || !strings.Contains(shown.String(), "something else") {
		t.Errorf("of the log %q, the program printed %q", got, shown.String())
	}
}
