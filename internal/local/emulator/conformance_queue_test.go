package emulator_test

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
)

func queueProperties() []property {
	return []property{
		{"queues can be created, created again, and deleted", queueLifecycle},
		{"queue names follow the rules", queueNames},
		{"queues are listed in pages", queueList},
		{"names of headers and parameters are signed in sorted order", queueSignatures},
		{"metadata has limits", queueMetadataLimits},
		{"every text that XML can represent is stored", messageTexts},
		{"answers escape only the characters that XML requires", messageEscapes},
		{"an update changes the text and the receipt", messageUpdate},
		{"peeking changes nothing", messagePeek},
		{"a request returns at most 32 messages", messageBatches},
		{"parameters have limits", messageBounds},
		{"a message has at most 64 KiB", messageSize},
		{"clearing removes all messages", messageClear},
		{"queue requests are authenticated", queueAuthentication},
	}
}

// newQueue creates a queue.
func (b backend) newQueue(t testing.TB) string {
	t.Helper()
	name := b.newName()
	check(t, "create queue", b.queue(t, request{method: "PUT", path: "/" + name}), 201, "")
	return name
}

type message struct {
	MessageID    string `xml:"MessageId"`
	PopReceipt   string
	DequeueCount int
	MessageText  string
}

// messages parses a list of messages.
func (a answer) messages(t testing.TB) []message {
	t.Helper()
	var list struct {
		Messages []message `xml:"QueueMessage"`
	}
	if err := xml.Unmarshal(a.body, &list); err != nil || a.status >= 300 {
		t.Fatalf("%v: %v", a, err)
	}
	return list.Messages
}

func (b backend) put(t testing.TB, queue, text, query string) answer {
	t.Helper()
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text))
	return b.queue(t, request{method: "POST", path: "/" + queue + "/messages", query: query,
		body: "<QueueMessage><MessageText>" + escaped.String() + "</MessageText></QueueMessage>"})
}

func (b backend) receive(t testing.TB, queue, query string) answer {
	t.Helper()
	return b.queue(t, request{method: "GET", path: "/" + queue + "/messages", query: query})
}

func (b backend) receiveOne(t testing.TB, queue string) message {
	t.Helper()
	list := b.receive(t, queue, "").messages(t)
	if len(list) != 1 {
		t.Fatalf("got %d messages, want 1", len(list))
	}
	return list[0]
}

func (b backend) deleteMessage(t testing.TB, queue string, m message) answer {
	t.Helper()
	return b.queue(t, request{method: "DELETE", path: "/" + queue + "/messages/" + m.MessageID, query: "popreceipt=" + urlQuery(m.PopReceipt)})
}

func queueLifecycle(t *testing.T, b backend) {
	name := b.newQueue(t)
	check(t, "create again", b.queue(t, request{method: "PUT", path: "/" + name}), 204, "")
	check(t, "create with other metadata", b.queue(t, request{method: "PUT", path: "/" + name, header: map[string]string{"x-ms-meta-a": "1"}}), 409, "QueueAlreadyExists")
	check(t, "delete", b.queue(t, request{method: "DELETE", path: "/" + name}), 204, "")
	check(t, "delete again", b.queue(t, request{method: "DELETE", path: "/" + name}), 404, "QueueNotFound")
	check(t, "put", b.put(t, name, "x", ""), 404, "QueueNotFound")
	check(t, "get", b.receive(t, name, ""), 404, "QueueNotFound")
}

func queueNames(t *testing.T, b backend) {
	for _, name := range []string{"Bad", "a_b", "a--b", "-ab", "ab-"} {
		check(t, name, b.queue(t, request{method: "PUT", path: "/" + name}), 400, "InvalidResourceName")
	}
	for _, name := range []string{"q1", strings.Repeat("a", 64)} {
		check(t, name, b.queue(t, request{method: "PUT", path: "/" + name}), 400, "OutOfRangeInput")
	}
}

func queueList(t *testing.T, b backend) {
	prefix := b.newName() + "-"
	for _, suffix := range []string{"a", "b", "c"} {
		check(t, "create", b.queue(t, request{method: "PUT", path: "/" + prefix + suffix}), 201, "")
	}
	var got []string
	marker := ""
	for range 10 {
		var list struct {
			Queues     []struct{ Name string } `xml:"Queues>Queue"`
			NextMarker string
		}
		r := b.queue(t, request{method: "GET", path: "/", query: "comp=list&maxresults=2&prefix=" + prefix + marker})
		if err := xml.Unmarshal(r.body, &list); err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		for _, q := range list.Queues {
			got = append(got, q.Name)
		}
		if list.NextMarker == "" {
			break
		}
		marker = "&marker=" + urlQuery(list.NextMarker)
	}
	same(t, "names", got, []string{prefix + "a", prefix + "b", prefix + "c"})
}

func queueSignatures(t *testing.T, b backend) {
	// Python's client sends its whole map in addition to the names, and signs both.
	signed := *b.account
	signed.lite = false
	both := map[string]string{"x-ms-meta": "{'val': 'x'}", "x-ms-meta-val": "x"}
	check(t, "create like Python's client", signed.queue(t, request{method: "PUT", path: "/" + b.newName(), header: both}), 201, "")
	if !b.azurite { // Azurite refuses unknown names
		order := signed.queue(t, request{method: "GET", path: "/", query: "comp=list&include=metadata&include-a=1"})
		check(t, "a name that is a prefix of another", order, 200, "")
	}
}

func queueMetadataLimits(t *testing.T, b backend) {
	queue := b.newQueue(t)
	const lax = "Azurite does not check this"
	for _, c := range []struct{ name, value, code string }{
		{"a_1", "", ""}, {"_a", strings.Repeat("x", 8<<10-2), ""},
		{"a-b", "1", "InvalidMetadata"}, {"1a", "1", "InvalidMetadata"}, {"a.b", "1", "InvalidMetadata"},
		{"", "1", "EmptyMetadataKey"}, {"a", strings.Repeat("x", 8<<10), "MetadataTooLarge"},
	} {
		what := fmt.Sprintf("the metadata name %q with %d bytes", c.name, len(c.value))
		header := map[string]string{"x-ms-meta-" + c.name: c.value}
		set := b.queue(t, request{method: "PUT", path: "/" + queue, query: "comp=metadata", header: header})
		created := b.queue(t, request{method: "PUT", path: "/" + b.newName(), header: header})
		if c.code == "" {
			check(t, what, set, 204, "")
			check(t, what, created, 201, "")
			continue
		}
		check(t, what, set, either(t, b, 400, 204, lax), either(t, b, c.code, "", lax))
		check(t, what, created, either(t, b, 400, 201, lax), either(t, b, c.code, "", lax))
	}
}

func messageTexts(t *testing.T, b backend) {
	queue := b.newQueue(t)
	for _, text := range []string{"", " x ", "<a>&amp;</a>", "line\nline\ttab", "ü日本😀", `{"a":"b"}`} {
		same(t, "put", b.put(t, queue, text, "").status, 201)
		got := b.receiveOne(t, queue)
		same(t, "text", got.MessageText, text)
		check(t, "delete", b.deleteMessage(t, queue, got), 204, "")
	}
	control := b.queue(t, request{method: "POST", path: "/" + queue + "/messages", body: "<QueueMessage><MessageText>\u0001</MessageText></QueueMessage>"})
	same(t, "control character", control.status, either(t, b, 400, 201, "Azurite accepts characters that XML does not allow"))
}

// Microsoft's JavaScript SDK returns numeric references to its user without decoding them.
func messageEscapes(t *testing.T, b backend) {
	queue := b.newQueue(t)
	const text = "<a href=\"it's\">&amp;</a>\ttab\nline\r\nü日本😀 &#39;"
	same(t, "put", b.put(t, queue, text, "").status, 201)
	const want = "<MessageText>&lt;a href=\"it's\"&gt;&amp;amp;&lt;/a&gt;\ttab\nline&#xD;\nü日本😀 &amp;#39;</MessageText>"
	for _, query := range []string{"peekonly=true", "visibilitytimeout=1"} {
		if got := string(b.receive(t, queue, query).body); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	list := b.queue(t, request{method: "GET", path: "/", query: "comp=list&prefix=" + urlQuery(`it's "<&>"`)})
	if got := string(list.body); !strings.Contains(got, `<Prefix>it's "&lt;&amp;&gt;"</Prefix>`) {
		t.Errorf("list: got %s", got)
	}
}

// update changes a message's visibility, and its text unless text is "".
func (b backend) update(t testing.TB, queue string, m message, visibility, text string) answer {
	t.Helper()
	r := request{method: "PUT", path: "/" + queue + "/messages/" + m.MessageID, query: "popreceipt=" + urlQuery(m.PopReceipt) + visibility}
	if text != "" {
		r.body = "<QueueMessage><MessageText>" + text + "</MessageText></QueueMessage>"
	}
	return b.queue(t, r)
}

func messageUpdate(t *testing.T, b backend) {
	queue := b.newQueue(t)
	b.put(t, queue, "old", "")
	m := b.receiveOne(t, queue)
	check(t, "no visibility", b.update(t, queue, m, "", "new"), 400, either(t, b, "MissingRequiredQueryParameter", "", "Azurite sends no code"))
	updated := b.update(t, queue, m, "&visibilitytimeout=0", "new")
	check(t, "update", updated, 204, "")
	if receipt := updated.header.Get("x-ms-popreceipt"); receipt == "" || receipt == m.PopReceipt {
		t.Errorf("the new receipt is %q", receipt)
	}
	check(t, "old receipt", b.deleteMessage(t, queue, m), 400, "PopReceiptMismatch")
	same(t, "text", b.receiveOne(t, queue).MessageText, "new")
}

func messagePeek(t *testing.T, b backend) {
	queue := b.newQueue(t)
	b.put(t, queue, "x", "")
	for _, query := range []string{"peekonly=true", either(t, b, "peekonly=True", "peekonly=true", "Azurite treats True as false")} {
		got := b.receive(t, queue, query).messages(t)
		same(t, "peeked", got, []message{{MessageID: got[0].MessageID, MessageText: "x"}})
	}
	same(t, "dequeue count", b.receiveOne(t, queue).DequeueCount, 1)
}

func messageBatches(t *testing.T, b backend) {
	queue := b.newQueue(t)
	for range 33 {
		b.put(t, queue, "x", "")
	}
	count := b.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata"})
	same(t, "count", count.header.Get("x-ms-approximate-messages-count"), "33")
	same(t, "32", len(b.receive(t, queue, "numofmessages=32").messages(t)), 32)
	same(t, "the last", len(b.receive(t, queue, "numofmessages=32").messages(t)), 1)
	count = b.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata"})
	same(t, "count with hidden messages", count.header.Get("x-ms-approximate-messages-count"), "33")
}

func messageBounds(t *testing.T, b backend) {
	queue := b.newQueue(t)
	const code, invalid, none = "OutOfRangeQueryParameterValue", "InvalidQueryParameterValue", ""
	for query, azurite := range map[string]string{
		"numofmessages=0": none, "numofmessages=33": code, "visibilitytimeout=-1": code, "visibilitytimeout=604801": code,
	} {
		check(t, "get "+query, b.receive(t, queue, query), 400, either(t, b, code, azurite, "Azurite's codes vary"))
	}
	for query, azurite := range map[string]string{
		"visibilitytimeout=-1": code, "visibilitytimeout=604801": code, "messagettl=-2": none,
	} {
		check(t, "put "+query, b.put(t, queue, "x", query), 400, either(t, b, code, azurite, "Azurite's codes vary"))
	}
	for _, query := range []string{"messagettl=0", "messagettl=5&visibilitytimeout=5", "messagettl=5&visibilitytimeout=6"} {
		check(t, "put "+query, b.put(t, queue, "x", query), 400, invalid)
	}
	for _, query := range []string{"messagettl=-1", "messagettl=8000000", "messagettl=6&visibilitytimeout=5", "messagettl=4294967296", "messagettl=9223372036854775807"} {
		same(t, "put "+query, b.put(t, queue, "x", query).status, 201)
	}
	const sentence, details = "is outside the permissible range.\nRequestId:", "</Message><QueryParameterName>numofmessages</QueryParameterName>" +
		"<QueryParameterValue>33</QueryParameterValue><MinimumAllowed>1</MinimumAllowed><MaximumAllowed>32</MaximumAllowed></Error>"
	got := string(b.receive(t, queue, "numofmessages=33").body)
	same(t, "sentence", strings.Contains(got, sentence), true)
	same(t, "details", strings.HasSuffix(got, details), either(t, b, true, false, "Azurite writes them in another form"))
	check(t, "not a number", b.receive(t, queue, "numofmessages=many"), 400, either(t, b, invalid, none, "Azurite's codes vary"))
}

func messageSize(t *testing.T, b backend) {
	queue := b.newQueue(t)
	same(t, "64 KiB", b.put(t, queue, strings.Repeat("x", 64<<10), "").status, 201)
	check(t, "more", b.put(t, queue, strings.Repeat("x", 64<<10+1), ""), 413, "RequestBodyTooLarge")
	same(t, "a text that escapes make larger", b.put(t, queue, strings.Repeat("<", 32<<10-64), "").status, 201)
	same(t, "a body of 131,584 bytes", b.putBody(t, queue, 131_584).status, 201)
	check(t, "a body of 131,585 bytes", b.putBody(t, queue, 131_585), either(t, b, 413, 201, "Azurite checks only the text"),
		either(t, b, "RequestBodyTooLarge", "", "as above"))
	m := b.receiveOne(t, queue)
	check(t, "an update", b.update(t, queue, m, "&visibilitytimeout=0", strings.Repeat("x", 64<<10+1)), 413, "RequestBodyTooLarge")
}

// putBody puts a short message, in a body of the given size.
func (b backend) putBody(t testing.TB, queue string, size int) answer {
	t.Helper()
	const body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>"
	return b.queue(t, request{method: "POST", path: "/" + queue + "/messages", body: body + strings.Repeat(" ", size-len(body))})
}

func messageClear(t *testing.T, b backend) {
	queue := b.newQueue(t)
	b.put(t, queue, "1", "")
	b.put(t, queue, "2", "")
	b.receiveOne(t, queue)
	check(t, "clear", b.queue(t, request{method: "DELETE", path: "/" + queue + "/messages"}), 204, "")
	count := b.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata"})
	same(t, "count", count.header.Get("x-ms-approximate-messages-count"), "0")
}

func queueAuthentication(t *testing.T, b backend) {
	queue := b.newQueue(t)
	for _, lite := range []bool{false, true} {
		a := *b.account
		a.lite = lite
		got := a.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata"})
		check(t, "signed", got, 200, "")
		a.key = []byte("a wrong key")
		check(t, "wrong key", a.queue(t, request{method: "PUT", path: "/" + queue + "2"}), 403, "AuthenticationFailed")
	}
}
