package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"tablesweep/internal/sweep"
)

// maxLineBytes is more than the longest record.
const maxLineBytes = 4 << 20

// inputLine is a line of an input, without white space around it.
type inputLine struct {
	number int
	text   []byte
}

// byteOrderMark begins the files of some programs, mostly on Windows.
const byteOrderMark = "\ufeff"

// eachLine calls fn with every line that is not blank. When ctx ends it returns
// [sweep.ErrInterrupted], even while it waits for the input.
func eachLine(ctx context.Context, in io.Reader, fn func(inputLine)) error {
	lines := make(chan inputLine)
	var unread error // set before lines is closed
	go func() {      // ends with the input, or the process
		defer close(lines)
		unread = readLines(in, func(l inputLine) error { return sendLine(ctx, lines, l) })
	}()
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return unread
			}
			fn(l)
		case <-ctx.Done():
			return sweep.ErrInterrupted
		}
	}
}

// sendLine returns [sweep.ErrInterrupted] if ctx ends before the line is sent.
func sendLine(ctx context.Context, to chan<- inputLine, l inputLine) error {
	select {
	case to <- l:
		return nil
	case <-ctx.Done():
		return sweep.ErrInterrupted
	}
}

// readLines calls fn with every line that is not blank, until fn fails.
func readLines(in io.Reader, fn func(inputLine) error) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLineBytes)
	number := 0
	for s.Scan() {
		line := s.Bytes()
		if number++; number == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := fn(inputLine{number, bytes.Clone(line)}); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLineBytes)
	}
	return s.Err()
}
