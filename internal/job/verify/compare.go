package verify

import (
	"bytes"
	"fmt"
	"strings"

	"tablesweep/internal/storage"
)

// The maximum number of bytes that a difference shows.
const (
	longestValue  = 60
	longestDetail = 1000 // of all properties together
)

// compare describes how the destination's row b differs from the source's row a. For equal rows, it returns "".
func compare(a, b storage.Row, depth Depth) string {
	if depth == Keys || bytes.Equal(a.JSON(), b.JSON()) {
		return ""
	}
	source, destination := a.Entity(), b.Entity()
	if storage.Equal(source, destination) {
		return ""
	}
	var details []string
	for _, p := range source.Properties {
		q, ok := property(destination, p.Name)
		switch {
		case !ok:
			details = append(details, p.Name+" is missing")
		case !equal(p, q):
			details = append(details, fmt.Sprintf("%s is %s, but the source has %s", p.Name, show(q), show(p)))
		}
	}
	for _, q := range destination.Properties {
		if _, ok := property(source, q.Name); !ok && depth == Exact {
			details = append(details, q.Name+" is extra")
		}
	}
	return shorten(strings.Join(details, "; "), longestDetail)
}

func property(e storage.Entity, name string) (storage.Property, bool) {
	for _, p := range e.Properties {
		if p.Name == name {
			return p, true
		}
	}
	return storage.Property{}, false
}

func equal(p, q storage.Property) bool {
	return storage.Equal(storage.Entity{Properties: []storage.Property{p}}, storage.Entity{Properties: []storage.Property{q}})
}

func show(p storage.Property) string {
	return fmt.Sprintf("%s %s", p.Type, shorten(string(p.Value), longestValue))
}

// shorten cuts a longer text to the given number of bytes, and adds an ellipsis.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
