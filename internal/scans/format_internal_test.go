package scans

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
)

// TestFormat1: the program still reads the stored values and messages of format 1 as when the format was fixed. If this test fails,
// messages in the queues could not be read after an upgrade, so give the format a new version. The test does not read the state
// that a strategy keeps in a step; see TestStepFormat.
func TestFormat1(t *testing.T) {
	t.Parallel()
	reads := map[string]func(text []byte) (again []byte, err error){
		"message": func(text []byte) ([]byte, error) {
			if scan := StartOf(text); scan != "" {
				return JSON(start{1, scan}), nil
			}
			m, err := ParseMessage(text)
			if err == nil {
				err = m.Prepare()
			}
			return m.Body, err
		},
		"request": func(text []byte) ([]byte, error) {
			r, err := ParseStored(text)
			return JSON(r), err
		},
		"hints": func(text []byte) ([]byte, error) {
			h, err := unpackHints(Pack(text))
			if err != nil {
				return nil, err
			}
			packed, _ := packHints(h)
			return Unpack(packed)
		},
		"note": func(text []byte) ([]byte, error) {
			ends := ParseNote(text) // the note of a step
			return Unpack(JoinNotes([][]byte{JSON(ends[:1]), Pack(JSON(ends[1:]))}))
		},
		"file": func(text []byte) ([]byte, error) {
			var f ExportFile
			err := json.Unmarshal(text, &f)
			return JSON(f), err
		},
		"refused": func(text []byte) ([]byte, error) {
			r, err := ParseFailed(Pack(text))
			return JSON(r), err
		},
	}
	read := map[string]int{}
	f, err := os.Open("testdata/format1.jsonl")
	proof.Must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line map[string]json.RawMessage
		proof.Must(t, json.Unmarshal(lines.Bytes(), &line))
		for kind, text := range line {
			read[kind]++
			if again, err := reads[kind](text); err != nil || string(again) != string(text) {
				t.Errorf("%s %s\nwas read and written again as %s, %v", kind, text, again, err)
			}
		}
	}
	if len(read) != len(reads) {
		t.Errorf("the fixture has only the kinds %v", read)
	}
}

// The pages that a step leaves to its deletion fit into a message, however long their keys are. The step reads on while its pages
// take a third of a message.
func TestDeletionFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"a", "漢", "\u2028"} {
		long := strings.Repeat(letter, 512) // a key of maximum length, in UTF-16 code units
		token := "1!2048!" + strings.Repeat("A", 2048)
		page := ReadPage{
			Range: key.Range{Partition: &long, Low: &key.Bound{Key: long, Open: true}, High: &key.Bound{Key: long, Open: true}},
			Token: &key.Token{Partition: token, Row: token, After: &key.Key{Partition: long, Row: long}}, Last: key.Key{Partition: long, Row: long}, Rows: 1000,
		}
		var pages []ReadPage
		for bytes := 0; bytes <= MaxMessageBytes/3; bytes += len(JSON(page)) {
			pages = append(pages, page)
		}
		m := Message{Scan: "2516068397287191785-bowofo"}
		proof.Must(t, m.Prepare())
		left := m.DeletionOf()
		left.Delete.Pages = pages
		if err := left.Prepare(); err != nil {
			t.Errorf("a deletion of %d pages with keys of %q: got error %v", len(pages), letter, err)
		}
		if again, err := ParseMessage(left.Body); err != nil || again.ID != left.ID || again.ID != m.DeletionOf().ID || len(again.Delete.Pages) != len(pages) {
			t.Errorf("the deletion was read as %+v, %v", again, err)
		}
	}
}
