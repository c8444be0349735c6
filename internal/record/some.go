package record

import "github.com/go-json-experiment/json/jsontext"

// Some is several records, of which few are decoded at a time: a record of small fields takes ten times the memory of its text.
type Some interface {
	Len() int
	// At returns the record with an index. It may be called several times.
	At(i int) Record
}

// Decoded is records that are decoded all the same.
type Decoded []Record

// Len implements [Some].
func (d Decoded) Len() int { return len(d) }

// At implements [Some].
func (d Decoded) At(i int) Record { return d[i] }

// Texts is records in the form of texts that [Parse] has read before.
type Texts []jsontext.Value

// Len implements [Some].
func (t Texts) Len() int { return len(t) }

// At implements [Some].
func (t Texts) At(i int) Record {
	r, err := Parse(t[i])
	if err != nil {
		panic("record: internal error: a text that was read before: " + err.Error())
	}
	return r
}
