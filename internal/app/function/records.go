package function

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// maxRecords is the maximum number of records or events in one request.
const maxRecords = 1000

// split returns the texts of a body's records. If inLines is true, each line is a record. Otherwise the body is one record, or
// an array of records. In errors, `noun` is the word for a record. Package record checks the texts afterwards.
func split(body []byte, inLines bool, noun string) (texts record.Texts, several bool, err error) {
	if inLines {
		texts, err = splitLines(body, noun)
		return texts, true, err
	}
	return splitRecords(body, noun)
}

// splitRecords returns the JSON texts of a body's records: the body itself, or the elements of an array.
func splitRecords(body []byte, noun string) (texts []jsontext.Value, several bool, err error) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' {
		return []jsontext.Value{body}, false, nil
	}
	if texts, err = elements(body, maxRecords+1); err != nil {
		return nil, true, problem.Invalidf("", "the body is not a JSON array of %ss", noun).Because(input.Located(body, err))
	}
	return texts, true, checkNumber(len(texts), noun)
}

func splitLines(body []byte, noun string) (texts []jsontext.Value, err error) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			texts = append(texts, line)
		}
		if len(texts) > maxRecords {
			break
		}
	}
	return texts, checkNumber(len(texts), noun)
}

func checkNumber(n int, noun string) error {
	switch {
	case n == 0:
		return problem.Invalidf("", "there is no %s; send at least one", noun)
	case n > maxRecords:
		return problem.TooLargef("", "there are more than %d %ss; send them in several requests", maxRecords, noun)
	}
	return nil
}

// elements returns the texts of an array's first values, at most `most` of them.
func elements(body []byte, most int) (texts []jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil { // the opening bracket
		return nil, err
	}
	for dec.PeekKind() != ']' && len(texts) < most {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := dec.InputOffset() // the text is cut from `body`, because `value` is valid only until the decoder is used again
		texts = append(texts, body[end-int64(len(value)):end])
	}
	if len(texts) == most {
		return texts, nil
	}
	if _, err := dec.ReadToken(); err != nil { // the closing bracket
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the array")
	}
	return texts, nil
}
