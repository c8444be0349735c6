package record

import "github.com/go-json-experiment/json/jsontext"

// Some is a list of records. Users of the list decode only a few records at a time, because a decoded record with small fields
// takes ten times the memory of its text.
type Some interface {
	Len() int
	// At returns the record with the given index. It may be called several times for one index.
	At(i int) Record
}

// Decoded is a list of records that are all decoded.
type Decoded []Record

// Len implements [Some].
func (d Decoded) Len() int { return len(d) }

// At implements [Some].
func (d Decoded) At(i int) Record { return d[i] }

// Texts is a list of records. Each record is a text that [Parse] has accepted.
type Texts []jsontext.Value

// Len implements [Some].
func (t Texts) Len() int { return len(t) }

// At implements [Some].
func (t Texts) At(i int) Record {
	r, err := Parse(t[i])
	if err != nil {
		panic("record: internal error: a text that was accepted before is invalid:  " + err.Error())
	}
	return r
}
