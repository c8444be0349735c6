package sweep

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

const (
	keysMemory = 8 << 20              // bytes of keys that are sorted at a time
	keyWeight  = 32                   // bytes that a key takes beside its text
	groupRows  = storage.MaxBatchRows // keys of a partition that one query looks for, at most

	// Rows that such a query may meet: so many, and so many for each key.
	groupMeets, keyMeets = 100, 10
)

// Keys are the keys of rows to sweep: any number, in any order. Memory holds a part of
// them; if there are more, they stand in a temporary file. The zero value is ready for use.
type Keys struct {
	memory int // bytes; 0 means keysMemory
	keys   []key.Key
	bytes  int
	file   *os.File // nil while memory suffices
	size   int64
	stored []section // of the file, each sorted
}

// section is a part of a file.
type section struct{ at, bytes int64 }

// Add adds a key. One that is there already changes nothing.
func (k *Keys) Add(one key.Key) error {
	k.keys = append(k.keys, one)
	k.bytes += len(one.Partition) + len(one.Row) + keyWeight
	if k.bytes <= cmp.Or(k.memory, keysMemory) {
		return nil
	}
	if err := k.store(); err != nil {
		return fmt.Errorf("sort keys in a temporary file: %w", err)
	}
	return nil
}

// sort sorts what is in memory.
func (k *Keys) sort() {
	slices.SortFunc(k.keys, key.Key.Compare)
	k.keys = slices.Compact(k.keys)
}

// store moves what is in memory to the file.
func (k *Keys) store() (err error) {
	if k.file == nil {
		if k.file, err = CreateTemp(); err != nil {
			return err
		}
	}
	k.sort()
	to := io.NewOffsetWriter(k.file, k.size)
	w := bufio.NewWriter(to)
	var text []byte
	for _, one := range k.keys {
		text = binary.AppendUvarint(text[:0], uint64(len(one.Partition)))
		text = binary.AppendUvarint(append(text, one.Partition...), uint64(len(one.Row)))
		_, _ = w.Write(append(text, one.Row...)) // Flush tells
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n, err := to.Seek(0, io.SeekCurrent)
	k.stored = append(k.stored, section{k.size, n})
	k.size += n
	k.keys, k.bytes = k.keys[:0], 0
	return err
}

// Len returns how many keys there are. It reads those that are not in memory.
func (k *Keys) Len() (n int64, err error) {
	r, err := k.read(nil)
	for ; err == nil && r.peek() != nil; n++ {
		_, err = r.next()
	}
	return n, err
}

// Close removes the file. It may be called on nil.
func (k *Keys) Close() error {
	if k == nil || k.file == nil {
		return nil
	}
	return RemoveTemp(k.file)
}

// reader merges what was sorted in parts.
type reader struct{ parts []*sorted } // that have a key left, by their next one

// put goes on to a part's next key, and puts the part where that belongs, unless there is none.
func (r *reader) put(s *sorted) error {
	more, err := s.advance()
	if !more {
		return err
	}
	i, _ := slices.BinarySearchFunc(r.parts, s.first, func(p *sorted, k key.Key) int { return p.first.Compare(k) })
	r.parts = slices.Insert(r.parts, i, s)
	return nil
}

// read returns a reader of all keys in table order, each once, behind one of them, if that
// is not nil.
func (k *Keys) read(after *key.Key) (*reader, error) {
	k.sort()
	all := []*sorted{{memory: k.keys}}
	for _, one := range k.stored {
		all = append(all, &sorted{file: bufio.NewReaderSize(io.NewSectionReader(k.file, one.at, one.bytes), 16<<10)})
	}
	r := &reader{}
	for _, one := range all {
		if err := r.put(one); err != nil {
			return nil, err
		}
	}
	for after != nil && len(r.parts) > 0 && r.parts[0].first.Compare(*after) <= 0 {
		if _, err := r.next(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// peek returns the next key, nil if there is none.
func (r *reader) peek() *key.Key {
	if len(r.parts) == 0 {
		return nil
	}
	return &r.parts[0].first
}

// next takes the next key. There must be one.
func (r *reader) next() (key.Key, error) {
	one := r.parts[0].first
	for len(r.parts) > 0 && r.parts[0].first == one { // other parts may have it, too
		part := r.parts[0]
		r.parts = slices.Delete(r.parts, 0, 1)
		if err := r.put(part); err != nil {
			return one, fmt.Errorf("read keys back from the temporary file: %w", err)
		}
	}
	return one, nil
}

// group takes the next keys of one partition, as many as a query looks for. It returns
// none at the end.
func (r *reader) group() (partition string, rows []string, err error) {
	for one := r.peek(); one != nil && len(rows) < groupRows && (rows == nil || one.Partition == partition); one = r.peek() {
		taken, err := r.next()
		if err != nil {
			return "", nil, err
		}
		partition, rows = taken.Partition, append(rows, taken.Row)
	}
	return partition, rows, nil
}

// sorted is a sorted part of the keys, in the file or in memory.
type sorted struct {
	first  key.Key
	memory []key.Key
	file   *bufio.Reader // nil for those in memory
}

// advance sets first, and reports whether there was one more.
func (s *sorted) advance() (bool, error) {
	if s.file == nil {
		if len(s.memory) == 0 {
			return false, nil
		}
		s.first, s.memory = s.memory[0], s.memory[1:]
		return true, nil
	}
	partition, err := readText(s.file)
	if err == io.EOF {
		return false, nil
	}
	row, rowErr := readText(s.file)
	if err == nil {
		err = rowErr
	}
	s.first = key.Key{Partition: partition, Row: row}
	return err == nil, err
}

func readText(r *bufio.Reader) (string, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

// wantedStep returns the query for rows of a partition, which are sorted.
func wantedStep(partition string, rows []string) scan.Step {
	return scan.Step{Range: key.Range{Partition: &partition, Low: &key.Bound{Key: rows[0]}, High: &key.Bound{Key: rows[len(rows)-1]}}}
}

// among returns those of the rows, which are sorted, that a range has.
func among(rows []string, in key.Range) []string {
	var all []string
	for _, row := range rows {
		if in.Contains(key.Key{Partition: *in.Partition, Row: row}) {
			all = append(all, row)
		}
	}
	return all
}

// settle returns what is left to look for after a page, and how many of the step's keys it
// has settled. Where the page ended early, many other rows stand between: what is left goes on in
// two halves, so that queries are at most as many as keys.
func (s *step) settle(p scan.Page) (children []scan.Step, settled int) {
	if p.Next == nil {
		return nil, len(s.Wanted)
	}
	if len(p.Keys) == 0 {
		return []scan.Step{s.Continue(*p.Next)}, 0
	}
	settled, found := slices.BinarySearchFunc(s.Wanted, p.Last().Row, key.Compare)
	if found {
		settled++
	}
	left := s.Wanted[settled:]
	for _, half := range [][]string{left[:(len(left)+1)/2], left[(len(left)+1)/2:]} {
		if len(half) > 0 {
			children = append(children, wantedStep(*s.Range.Partition, half))
		}
	}
	return children, settled
}

// listed returns those of a page's rows that the step looks for, and those of its keys that
// the page shows to be missing, if it is read for the first time.
func (s *step) listed(rows []storage.Entity, p scan.Page) (chosen []storage.Entity, missing []action.Failure) {
	settled := 0
	if s.Through == nil {
		_, settled = s.settle(p)
	}
	for i, row := range s.Wanted {
		for len(rows) > 0 && key.Compare(rows[0].Key.Row, row) < 0 {
			rows = rows[1:]
		}
		switch {
		case len(rows) > 0 && rows[0].Key.Row == row:
			chosen = append(chosen, rows[0])
		case i < settled:
			missing = append(missing, action.Failure{Key: key.Key{Partition: *s.Range.Partition, Row: row}, Reason: "the table has no row with this key"})
		}
	}
	return chosen, missing
}
