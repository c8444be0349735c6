package function_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/logtail"
)

// largeRecords returns n records of the given size, in the order of a list.
func largeRecords(t *testing.T, n, bytes int) (all []record.Record, texts []string) {
	t.Helper()
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, `{"eid":"%04d","lastname":"L","npi":"7"`, i)
		for field := 0; b.Len() < bytes; field++ {
			fmt.Fprintf(&b, `,"text%03d":"%s"`, field, strings.Repeat("<é>\\u0001", min(5000, bytes/10)))
		}
		r, err := record.Parse([]byte(b.String() + "}"))
		proof.Must(t, err)
		all, texts = append(all, r), append(texts, string(r.AppendJSON(nil)))
	}
	return all, texts
}

// allItems makes calls until a list is complete, and returns its items. Each answer has at most 8 MiB, or a single item.
func (a *app) allItems(t *testing.T, path, query, name, of string) (items []string) {
	t.Helper()
	for n := 1; ; n++ {
		var answer map[string]json.RawMessage
		var some []json.RawMessage
		w := a.fetch(t, "GET", path+query, "", &answer)
		if w.Code != 200 {
			t.Fatalf("%s: want status 200, got %s", path+query, w.Body)
		}
		proof.Must(t, json.Unmarshal(answer[name], &some))
		if len(some) > 1 && w.Body.Len() > logtail.MaxAnswer+100<<10 {
			t.Errorf("%s: an answer with %d items has %d bytes, want at most 8 MiB", path+query, len(some), w.Body.Len())
		}
		if link := w.Header().Get("Link"); (link != "") != (answer["cursor"] != nil) {
			t.Errorf("%s: the header Link is %q, want the cursor %s", path+query, link, answer["cursor"])
		}
		for _, one := range some {
			var members map[string]json.RawMessage
			if of != "" {
				proof.Must(t, json.Unmarshal(one, &members))
				one = members[of]
			}
			items = append(items, string(one))
		}
		if query = nextQuery(answer); query == "" {
			if n < 2 {
				t.Errorf("%s: the list came in one answer, so the test proves nothing", path)
			}
			return items
		}
	}
}

// nextQuery returns the query for the next page after the given answer, or "" after the last page.
func nextQuery(answer map[string]json.RawMessage) string {
	var text string
	switch {
	case json.Unmarshal(answer["cursor"], &text) == nil:
		return "&cursor=" + url.QueryEscape(text)
	case string(answer["more"]) == "true" && json.Unmarshal(answer["next"], &text) == nil:
		return "&after=" + url.QueryEscape(text)
	}
	return ""
}

// TestLargeListsAreComplete: a list that is followed to its end contains each item once and in order, however large the items are.
func TestLargeListsAreComplete(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	sizes := []struct{ n, bytes int }{{testsize.Of(300, 1000), 30_000}, {40, 800_000}}
	for _, tt := range sizes[:testsize.Of(1, 2)] {
		t.Run(fmt.Sprintf("%d items of %d bytes", tt.n, tt.bytes), func(t *testing.T) {
			t.Parallel()
			a := newApp(t)
			records, want := largeRecords(t, tt.n, tt.bytes)
			begin := func(path string) (next string) {
				var answer struct{ Next string }
				a.fetch(t, "GET", path+"?after=now", "", &answer)
				return url.QueryEscape(answer.Next)
			}
			changes, events := begin("/api/catalog/changes"), begin("/api/log/orders")
			people := a.parts.Catalogs[""]
			for _, done := range people.InsertAll(t.Context(), record.Decoded(records), nil) {
				proof.Must(t, done.Err)
			}
			_, err := a.parts.Log.Append(t.Context(), "orders", record.Decoded(records))
			proof.Must(t, err)
			people.Close() // writes the records' changes
			backward := slices.Clone(want)
			slices.Reverse(backward)
			for _, list := range []struct {
				path, query, name, of string
				want                  []string
			}{
				{"/api/catalog/records?top=1000", "", "records", "", want},
				{"/api/catalog/records?top=1000&npi=7", "", "records", "", nil}, // in the order of hashes; changes are in the order of writes
				{"/api/catalog/changes?top=1000", "", "changes", "record", nil},
				{"/api/catalog/changes?top=1000", "&after=" + changes, "changes", "record", nil},
				{"/api/log/orders?top=1000", "", "events", "event", backward},
				{"/api/log/orders?top=1000", "&after=" + events, "events", "event", nil}, // in the order of writes
			} {
				got := a.allItems(t, list.path, list.query, list.name, list.of)
				if list.want == nil {
					slices.Sort(got)
					list.want = want
				}
				if !slices.Equal(got, list.want) {
					t.Errorf("%s: %d items, want %d: %.500s", list.path, len(got), len(list.want), cmp.Diff(beginnings(list.want), beginnings(got)))
				}
			}
		})
	}
}

// beginnings returns the beginnings of the texts.
func beginnings(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, text[:min(30, len(text))])
	}
	return all
}
