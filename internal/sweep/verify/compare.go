package verify

import (
	"fmt"
	"strings"

	"tablesweep/internal/storage"
)

// longest is how much of a value a difference shows, in bytes.
const longest = 60

// compare returns how the destination's row differs from the source's, "" if it
// does not.
func compare(source, destination storage.Entity, depth Depth) string {
	if depth == Keys || storage.Equal(source, destination) {
		return ""
	}
	var details []string
	for _, p := range source.Properties {
		q, ok := property(destination, p.Name)
		switch {
		case !ok:
			details = append(details, p.Name+" is missing")
		case !equal(p, q):
			details = append(details, fmt.Sprintf("%s is %s, want %s", p.Name, show(q), show(p)))
		}
	}
	for _, q := range destination.Properties {
		if _, ok := property(source, q.Name); !ok && depth == Exact {
			details = append(details, q.Name+" is extra")
		}
	}
	return strings.Join(details, "; ")
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
	v := string(p.Value)
	if len(v) > longest {
		v = strings.ToValidUTF8(v[:longest], "") + "…"
	}
	return fmt.Sprintf("%s %s", p.Type, v)
}
