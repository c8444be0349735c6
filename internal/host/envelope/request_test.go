package envelope_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/host/envelope"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

var inv = envelope.Invocation{
	Function: "CopyRows", Binding: "item",
	Time: at("2026-01-02T03:04:06.1234500Z"), RandGUID: "24ad4c06-24ad-4e5b-8294-3da9714877e9",
}

const sys = `"sys":{"MethodName":"CopyRows","UtcNow":"2026-01-02T03:04:06.12345Z","RandGuid":"24ad4c06-24ad-4e5b-8294-3da9714877e9"}`

func message(text string) envelope.Message {
	return envelope.Message{
		Text: text, ID: "800ae4b3-bdd2", PopReceipt: "AgAAAA==", DequeueCount: 1,
		Inserted: at("2026-01-02T03:04:05.9Z"), Expires: at("2026-01-09T03:04:05Z"), NextVisible: at("2026-01-02T05:14:05+02:00"),
	}
}

// TestQueue holds the exact bytes: a string is encoded twice, which
// GetHttpScriptInvocationContextValueTest_String of azure-functions-host shows for
// the first time and HTTP's JSON formatter adds for the second.
func TestQueue(t *testing.T) {
	t.Parallel()
	const metadata = `"DequeueCount":"1","ExpirationTime":"2026-01-09T03:04:05+00:00","Id":"\"800ae4b3-bdd2\"",` +
		`"InsertionTime":"2026-01-02T03:04:05+00:00","NextVisibleTime":"2026-01-02T03:14:05+00:00","PopReceipt":"\"AgAAAA==\"",` + sys
	tests := []struct{ name, text, data, metadata string }{
		{"text", `hello`, `"\"hello\""`, metadata},
		{"JSON", `{"a":[1]}`, `"\"{\\\"a\\\":[1]}\""`, metadata},
		{"HTML and the like stays", `<a>&'é😀` + "\u007f", `"\"<a>&'é😀` + "\u007f" + `\""`, metadata},
		{"control characters", "\x01\t\n\u2028", `"\"\\u0001\\t\\n\\u2028\""`, metadata},
		{"list", `[1]`, `"\"[1]\""`, metadata},
		{"broken JSON", `{"Id":"x"`, `"\"{\\\"Id\\\":\\\"x\\\"\""`, metadata},
		{
			// Utility.ApplyBindingData of azure-functions-host
			"fields overwrite metadata", `{"id":"x","dequeueCount":9,"b":true,"n":null,"l":[],"o":{"k": 1},"queueTrigger":"y"}`,
			`"\"{\\\"id\\\":\\\"x\\\",\\\"dequeueCount\\\":9,\\\"b\\\":true,\\\"n\\\":null,\\\"l\\\":[],\\\"o\\\":{\\\"k\\\": 1},\\\"queueTrigger\\\":\\\"y\\\"}\""`,
			strings.NewReplacer(`"\"800ae4b3-bdd2\""`, `"\"x\""`, `"DequeueCount":"1"`, `"DequeueCount":"\"9\""`).Replace(metadata) +
				`,"b":"\"True\"","o":{"k":1}`,
		},
		{
			"numbers and dates as .NET prints them", `{"f":1.50,"w":3.0,"e":1e20,"s":0.000001,"big":12345678901234567890,"d":"2026-01-02T03:04:05.123+01:00"}`,
			`"\"{\\\"f\\\":1.50,\\\"w\\\":3.0,\\\"e\\\":1e20,\\\"s\\\":0.000001,\\\"big\\\":12345678901234567890,\\\"d\\\":\\\"2026-01-02T03:04:05.123+01:00\\\"}\""`,
			metadata + `,"f":"\"1.5\"","w":"\"3\"","e":"\"1E+20\"","s":"\"1E-06\"","big":"\"12345678901234567890\"","d":"\"01/02/2026 02:04:05\""`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := `{"Data":{"item":` + test.data + `},"Metadata":{` + test.metadata + `}}`
			if diff := cmp.Diff(want, string(envelope.Queue(inv, message(test.text)))); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimer(t *testing.T) {
	t.Parallel()
	status := &envelope.Status{Last: at("2026-01-02T03:03:00.0001Z"), Next: at("2026-01-02T03:04:00Z"), Updated: at("2026-01-02T03:03:00.0001Z")}
	tests := []struct {
		name     string
		interval bool
		status   *envelope.Status
		pastDue  bool
		data     string
	}{
		{"monitored", false, status, true, `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:03:00.0001+00:00",` +
			`"LastUpdated":"2026-01-02T03:03:00.0001+00:00","Next":"2026-01-02T03:04:00+00:00"},"IsPastDue":true}`},
		{"first", false, &envelope.Status{Next: at("2026-01-02T03:04:00Z")}, false, `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{` +
			`"Last":"0001-01-01T00:00:00+00:00","LastUpdated":"0001-01-01T00:00:00+00:00","Next":"2026-01-02T03:04:00+00:00"},"IsPastDue":false}`},
		{"not monitored", true, nil, false, `{"Schedule":{"AdjustForDST":false},"ScheduleStatus":null,"IsPastDue":false}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := `{"Data":{"item":` + test.data + `},"Metadata":{` + sys + `}}`
			if diff := cmp.Diff(want, string(envelope.Timer(inv, test.interval, test.status, test.pastDue))); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzQueue: whatever the message, the document is JSON, and undoing both encodings
// gives the message.
func FuzzQueue(f *testing.F) {
	for _, s := range []string{"", "hello", `{"a":1,"A":2}`, `{"sys":"x"} `, "{\"é\":\"\\ud83d\"}", "\x00\u0085\u2029\\\"", `{"a":1}{`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		document := envelope.Queue(inv, message(text))
		var doc struct {
			Data     map[string]string
			Metadata map[string]json.RawMessage
		}
		if err := json.Unmarshal(document, &doc); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		var got string
		if err := json.Unmarshal([]byte(doc.Data["item"]), &got); err != nil || got != text {
			t.Errorf("%q came back as %q, %v", text, got, err)
		}
		if len(doc.Metadata) < 7 {
			t.Errorf("metadata is missing in %s", document)
		}
	})
}
