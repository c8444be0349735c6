package emulator

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const batchType = `multipart/mixed; boundary="batch_1"`

// encodeBatch encodes parts as a client does.
func encodeBatch(parts []batchPart) []byte {
	var b bytes.Buffer
	b.WriteString("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "--changeset_2\r\nContent-Type: application/http\r\n\r\n%s http://host%s HTTP/1.1\r\n", p.method, p.path)
		if p.ifMatch != "" {
			fmt.Fprintf(&b, "if-match: %s\r\n", p.ifMatch)
		}
		if p.prefer != "" {
			fmt.Fprintf(&b, "Prefer:%s\r\n", p.prefer)
		}
		fmt.Fprintf(&b, "\r\n%s\r\n", p.body)
	}
	b.WriteString("--changeset_2--\r\n--batch_1--\r\n")
	return b.Bytes()
}

func TestParseBatchBody(t *testing.T) {
	t.Parallel()
	want := []batchPart{
		{method: "POST", path: "/a/t", prefer: "return-no-content", body: []byte(`{"A":"--changeset_2 is not a delimiter here"}`)},
		{method: "PUT", path: "/a/t(PartitionKey='p q',RowKey='%')", ifMatch: "*", body: []byte("{\r\n}")},
		{method: "DELETE", path: "/a/t", ifMatch: `W/"x"`, body: []byte{}},
	}
	sent := encodeBatch(want)
	sent = bytes.Replace(sent, []byte("p q"), []byte("p%20q"), 1)
	sent = bytes.Replace(sent, []byte("'%'"), []byte("'%25'"), 1)
	for name, body := range map[string][]byte{
		"as sent":           sent,
		"preamble":          append([]byte("ignored\r\n"), sent...),
		"epilogue":          append(bytes.Clone(sent), "ignored"...),
		"padded delimiters": bytes.ReplaceAll(sent, []byte("--changeset_2\r\n"), []byte("--changeset_2 \t\r\n")),
	} {
		got, _, err := parseBatchBody(batchType, body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(batchPart{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	// A body that is truncated anywhere before its end is refused.
	end := bytes.LastIndex(sent, []byte("--batch_1--")) + len("--batch_1--")
	for i := range end {
		if got, _, err := parseBatchBody(batchType, sent[:i]); err == nil {
			t.Fatalf("truncated after %d bytes: got %d parts, want an error", i, len(got))
		}
	}
}

func TestParseBatchBodyErrors(t *testing.T) {
	t.Parallel()
	good := string(encodeBatch([]batchPart{{method: "PUT", path: "/x"}}))
	for _, c := range []struct{ name, contentType, body string }{
		{"no multipart", "application/json", good},
		{"no boundary", "multipart/mixed", good},
		{"other boundary", "multipart/mixed; boundary=x", good},
		{"another type of part", batchType, strings.Replace(good, "multipart/mixed; boundary=changeset_2", "text/plain", 1)},
		{"two change sets", batchType, strings.Replace(good, "--batch_1--", "--batch_1\r\n\r\n--batch_1--", 1)},
		{"a write without a change set", batchType, strings.Replace(good, "multipart/mixed; boundary=changeset_2", "application/http", 1)},
		{"no request line", batchType, strings.Replace(good, " HTTP/1.1", "", 1)},
		{"bad URL", batchType, strings.Replace(good, "/x", "/%zz", 1)},
	} {
		if got, _, err := parseBatchBody(c.contentType, []byte(c.body)); err == nil {
			t.Errorf("%s: accepted as %+v, want an error", c.name, got)
		}
	}
}

// The time to parse a malicious body grows only linearly with its size.
func TestParseBatchBodyIsLinear(t *testing.T) {
	t.Parallel()
	for _, filler := range []string{"--batch_1", "--batch_1 ", "--batch_1\r", "\n--batch_1-", "--batch_1\n"} {
		body := []byte(strings.Repeat(filler, 4<<20/len(filler)))
		if _, _, err := parseBatchBody(batchType, body); err == nil {
			t.Errorf("the repeated text %q is accepted", filler)
		}
	}
}

// FuzzParseBatchBody checks that no body makes the parser panic, and that the parser finds the same parts in a change set as mime/multipart.
func FuzzParseBatchBody(f *testing.F) {
	f.Add([]byte("PUT http://host/x HTTP/1.1\r\nIf-Match: *\r\n\r\n{}\r\n"), []byte("--changeset_2\r\n\r\nDELETE /y HTTP/1.1\r\n\r\n\r\n"))
	f.Add([]byte("a\n\n"), []byte("--changeset_2--\r\n"))
	f.Add([]byte("\n \n--changeset_2\r\n \n\n \n@"), []byte("\n \n--changeset_2\r\n \n"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		_, _, _ = parseBatchBody(batchType, append(bytes.Clone(first), second...))

		body := "--changeset_2\r\nA: b\r\n\r\n" + string(first) + "\r\n--changeset_2\r\nA: b\r\n\r\n" + string(second) + "\r\n--changeset_2--\r\n"
		if strings.Contains(strings.ReplaceAll(body, "\r\n--", ""), "\n--") {
			return // a delimiter after a bare newline, which mime/multipart accepts only if all delimiters have one
		}
		got, err := cutParts("multipart/mixed; boundary=changeset_2", []byte(body))
		want, wantErr := stdlibParts(body)
		if wantErr != nil {
			return // mime/multipart is stricter about the parts' headers
		}
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		var contents []string
		for _, part := range got {
			contents = append(contents, string(eachField(part, func(_, _ []byte) {})))
		}
		if diff := cmp.Diff(want, contents); diff != "" {
			t.Errorf("the parts of %q (-mime/multipart +ours):\n%s", body, diff)
		}
	})
}

func stdlibParts(body string) (parts []string, err error) {
	r := multipart.NewReader(strings.NewReader(body), "changeset_2")
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, string(content))
	}
}
