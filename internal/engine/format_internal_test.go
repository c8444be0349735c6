package engine

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// TestFormat1: what this program stores and sends reads back as it was when format 1 was fixed. If this fails, messages
// that are under way can't be read: give the format a new version. What a strategy has in a step's state is
// opaque here: see TestFormatOfSteps.
func TestFormat1(t *testing.T) {
	t.Parallel()
	reads := map[string]func(text []byte) (again []byte, err error){
		"message": func(text []byte) ([]byte, error) {
			m, err := parseMessage(text)
			if err == nil {
				err = m.seal()
			}
			return m.body, err
		},
		"request": func(text []byte) ([]byte, error) {
			r, err := parseStored(text)
			return jsonOf(r), err
		},
		"hints": func(text []byte) ([]byte, error) {
			h, err := unpackHints(pack(text))
			if err != nil {
				return nil, err
			}
			packed, _ := packHints(h)
			return unpack(packed)
		},
		"note": func(text []byte) ([]byte, error) {
			ends := parseNote(text) // of a step
			return unpack(joinNotes([][]byte{jsonOf(ends[:1]), pack(jsonOf(ends[1:]))}))
		},
		"file": func(text []byte) ([]byte, error) {
			var f exportFile
			err := json.Unmarshal(text, &f)
			return jsonOf(f), err
		},
		"refused": func(text []byte) ([]byte, error) {
			r, err := parseFailed(pack(text))
			return jsonOf(r), err
		},
	}
	read := map[string]int{}
	f, err := os.Open("testdata/format1.jsonl")
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line map[string]json.RawMessage
		must(t, json.Unmarshal(lines.Bytes(), &line))
		for kind, text := range line {
			read[kind]++
			if again, err := reads[kind](text); err != nil || string(again) != string(text) {
				t.Errorf("%s %s\nwas read as %s, %v", kind, text, again, err)
			}
		}
	}
	if len(read) != len(reads) {
		t.Errorf("the fixture has just %v", read)
	}
}
