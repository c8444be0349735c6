//go:build lint

package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// everyday are words that no name of this project may contain, each with words that say what is meant. A reader
// takes them for terms, and DESIGN.md has none of them.
var everyday = map[string]string{
	"ask": "request, a start request, mayProceed", "asks": "request", "asked": "requested",
	"beat": "heartbeat", "beats": "heartbeats", "believe": "assume, validate", "hand": "hold, held",
	"hear": "observe", "hears": "observe", "heard": "observed", "hurry": "patience", "look": "read, check, state",
	"looks": "read, check", "reach": "range", "say": "print, describe", "says": "describe", "said": "printed", "sheet": "page",
	"tell": "report, describe", "tells": "report", "told": "reported", "tend": "advance", "thinks": "expects", "thought": "expected",
	"wants": "matches, needs",
}

// unclear are phrases that no comment, message, document or help text may contain, each with plain ones. Most were terms once.
var unclear = map[string]string{
	`in hand`: "held", `(a|the|its|each|every|of) beats?`: "heartbeat", `(tells?|told) (that|whether|of)`: "reports whether, is set if, describes",
	`(a|the|each|first|second|two|every) looks?`: "reads, checks", `is told|are told`: "gets, is reported", `(the|a|its) reach of`: "range",
	`what is left`: "the rest, the remaining …", `who(ever)? is refused`: "the refused …", `goes? on behind`: "continues after",
	`at once`:           "immediately, concurrently",
	`comes? to nothing`: "has no effect", `what it says`: "its text", `an ask|the ask`: "request", `(a|the|its) say`: "message",
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

// TestNames checks the names of types, functions, fields, variables and constants, those of tests included.
func TestNames(t *testing.T) {
	for _, p := range typed(t) {
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

// TestProse checks comments and texts of all code, documents, help texts and the console.
func TestProse(t *testing.T) {
	phrases := map[*regexp.Regexp]string{}
	for phrase, instead := range unclear {
		phrases[regexp.MustCompile(`(?i)\b(`+phrase+`)\b`)] = instead
	}
	check := func(at, text string) {
		for phrase, instead := range phrases {
			if found := phrase.FindString(text); found != "" {
				t.Errorf("%s: %q is unclear; write for example %s", at, found, instead)
			}
		}
	}
	for _, p := range typed(t) {
		for _, f := range p.Syntax {
			for _, group := range f.Comments {
				check(p.Fset.Position(group.Pos()).String(), group.Text())
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					check(p.Fset.Position(n.Pos()).String(), text.Value)
				}
				return true
			})
		}
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/openapi.json", "handler/help/*.txt", "internal/app/console/page/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			check(name, string(text))
		}
	}
}
