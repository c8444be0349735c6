package envelope_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/app/envelope"
)

func message(text string) envelope.Message {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return envelope.Message{Text: text, ID: "800ae4b3-bdd2", PopReceipt: "AgAAAA==", DequeueCount: 2, Inserted: at, Expires: at.Add(time.Hour), NextVisible: at}
}

// TestQueue: a string is encoded twice, as by the real host. <, > and & are not escaped.
func TestQueue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`hello`:     `"\"hello\""`,
		`{"a":[1]}`: `"\"{\\\"a\\\":[1]}\""`,
		`<a>&é😀`:    `"\"<a>&é😀\""`,
	} {
		got := string(envelope.Queue("CopyRows", message(text)))
		for _, part := range []string{`{"Data":{"item":` + want + `},"Metadata":{"DequeueCount":"2",`, `"Id":"\"800ae4b3-bdd2\""`, `"PopReceipt":"\"AgAAAA==\""`, `"MethodName":"CopyRows"`} {
			if !strings.Contains(got, part) {
				t.Errorf("the document %s lacks %s", got, part)
			}
		}
	}
}

func TestTimer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	got := string(envelope.Timer("Maintain", envelope.Status{Next: at}, true))
	const want = `{"Data":{"timer":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"0001-01-01T00:00:00Z","Next":"2026-01-02T03:04:00Z",` +
		`"LastUpdated":"0001-01-01T00:00:00Z"},"IsPastDue":true}},"Metadata":{"sys":{"MethodName":"Maintain",`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got document %s, want %s…", got, want)
	}
}

// FuzzQueue: for any message, the document is JSON, and decoding it twice gives the message.
func FuzzQueue(f *testing.F) {
	for _, s := range []string{"", "hello", `{"a":1,"A":2}`, "{\"é\":\"\\ud83d\"}", "\x00\u0085\u2029\\\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		document := envelope.Queue("CopyRows", message(text))
		var doc struct{ Data map[string]string }
		if err := json.Unmarshal(document, &doc); err != nil {
			t.Fatalf("error %v in the document %s", err, document)
		}
		var got string
		if err := json.Unmarshal([]byte(doc.Data["item"]), &got); err != nil || got != text {
			t.Errorf("the message %q was decoded to %q, error %v", text, got, err)
		}
	})
}
