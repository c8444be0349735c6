package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes is more than a record can have.
const maxLineBytes = 4 << 20

// inputLine is a line of an input, without white space around it.
type inputLine struct {
	number int
	text   []byte
}

// readLines sends the lines that are not blank, until ctx ends.
func readLines(ctx context.Context, in io.Reader, to chan<- inputLine) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLineBytes)
	number := 0
	for s.Scan() {
		number++
		if text := bytes.TrimSpace(s.Bytes()); len(text) > 0 {
			select {
			case to <- inputLine{number, bytes.Clone(text)}:
			case <-ctx.Done():
				return nil
			}
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLineBytes)
	}
	return s.Err()
}
