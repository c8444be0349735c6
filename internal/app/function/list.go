package function

import (
	"bufio"
	"bytes"
	"iter"
	"math"
	"net/http"

	"github.com/rs/zerolog"

	"tablesweep/internal/record"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task/memory"
)

// list contains the items of an answer as JSON. The items use the call's part of the memory.
type list struct {
	part  *memory.Part
	items [][]byte
	bytes int
	full  bool // the field `part` could not get enough memory for the items
}

func newList(r *http.Request) *list { return &list{part: memory.PartIn(r.Context())} }

// offer adds an item, unless the answer would become longer than [logtail.MaxAnswer] bytes. It always adds the first item.
func (l *list) offer(item any) (taken bool) { return l.take(item, logtail.MaxAnswer) }

func (l *list) add(item any) { l.take(item, math.MaxInt) }

func (l *list) take(item any, most int) (taken bool) {
	text := bytes.TrimSuffix(encode(item), []byte("\n"))
	if len(l.items) > 0 && l.bytes+len(text) > most || l.full {
		return false
	}
	l.full = !l.part.Use(int64(len(text)))
	l.items, l.bytes = append(l.items, text), l.bytes+len(text)
	return true
}

// check returns the error of reading the items, or [memory.ErrFull] if the part was too small.
func (l *list) check(err error) error {
	if l.full {
		return memory.ErrFull
	}
	return err
}

// texts removes the items from l, and returns the JSON of each.
func (l *list) texts() iter.Seq[[]byte] {
	l.part.SetUsed(int64(l.bytes)) // the rows from which the items were made are no longer needed
	return func(yield func([]byte) bool) {
		for len(l.items) > 0 && yield(l.items[0]) {
			l.items = l.items[1:]
		}
	}
}

// textsOf returns the JSON of records. Each text overwrites the previous one.
func textsOf(records iter.Seq[record.Record]) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var text []byte
		for r := range records {
			if text = r.AppendJSON(text[:0]); !yield(text) {
				return
			}
		}
	}
}

// writeCursored answers with a list, and a cursor for the next page.
func writeCursored(w http.ResponseWriter, r *http.Request, name string, l *list, cursor string) {
	linkNext(w, r, cursor)
	writeList(w, r, name, l.texts(), struct {
		Cursor string `json:"cursor,omitempty"`
	}{cursor})
}

// writeList answers with an object. Its first member has the given name and contains the items, which are not copied.
// The other members are those of `rest`.
func writeList(w http.ResponseWriter, r *http.Request, name string, items iter.Seq[[]byte], rest any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriter(w) // if a write fails, the call of Flush below returns the error
	out.WriteString(`{"` + name + `":[`)
	first := true
	for text := range items {
		if !first {
			out.WriteByte(',')
		}
		first = false
		if _, err := out.Write(text); err != nil {
			break
		}
	}
	out.WriteByte(']')
	members := encode(rest)[len("{"):]
	if members[0] != '}' {
		out.WriteByte(',')
	}
	out.Write(members)
	if err := out.Flush(); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("the client did not read the answer")
	}
}
