//go:build lint

package lint

import (
	"strings"
	"testing"
	"unicode"
)

// everyday are words that no name of this project may contain, each with words that say what is meant. A reader
// takes them for terms, and DESIGN.md has none of them.
var everyday = map[string]string{
	"ask": "request, confirm", "asks": "request", "asked": "requested",
	"beat": "heartbeat", "beats": "heartbeats", "believe": "assume, validate", "hand": "hold, held",
	"hear": "observe", "hears": "observe", "heard": "observed", "hurry": "patience", "look": "read, check, state",
	"looks": "read, check", "reach": "range", "say": "print, describe", "says": "describe", "said": "printed", "sheet": "page",
	"tell": "report, describe", "tells": "report", "told": "reported", "tend": "advance", "thinks": "expects", "thought": "expected",
	"wants": "matches, needs",
}

// wordsOf returns the words of a name, in lower case.
func wordsOf(name string) []string {
	var words []string
	start := 0
	for i, r := range name {
		if i > 0 && (unicode.IsUpper(r) || r == '_') {
			words, start = append(words, strings.ToLower(name[start:i])), i
		}
	}
	return append(words, strings.ToLower(name[start:]))
}

// TestNames checks the names of types, functions, fields, variables and constants in all code outside tests.
func TestNames(t *testing.T) {
	for _, p := range shipped(t) {
		for id, o := range p.TypesInfo.Defs {
			if o == nil {
				continue
			}
			for _, word := range wordsOf(id.Name) {
				if instead, bad := everyday[word]; bad {
					t.Errorf("%s: %s has the everyday word %q; write for example %s", p.Fset.Position(id.Pos()), id.Name, word, instead)
				}
			}
		}
	}
}
