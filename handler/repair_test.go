package main

import (
	"bytes"
	"fmt"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// TestRepairsKeepLittle collects 400 rows that are parts of a page each, as the only
// differences of a large table are.
func TestRepairsKeepLittle(t *testing.T) {
	t.Parallel()
	const rows, size = 400, 60 << 10
	written, largest, last := 0, 0, 0
	r := repairs{write: func(batch []storage.Entity) error {
		n := 0
		for _, e := range batch {
			if e.Key.Row != fmt.Sprint(written) || e.Properties[0].Value[1] != 'x' {
				t.Errorf("row %d is %v, %.9s", written, e.Key, e.Properties[0].Value)
			}
			n += len(e.Properties[0].Value)
			written++
		}
		largest, last = max(largest, n), n
		return nil
	}}
	page := make([]byte, 4*size)
	for i := range rows {
		value := page[size : 2*size]
		copy(value, `"`+string(bytes.Repeat([]byte("x"), size-2))+`"`)
		e := storage.Entity{Key: key.Key{Row: fmt.Sprint(i)}, Properties: []storage.Property{{Name: "P", Value: value}}}
		if err := r.add(e); err != nil {
			t.Fatal(err)
		}
		clear(page) // what is kept must not be the page
	}
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	if written != rows || largest > repairBytes+size || last == 0 {
		t.Errorf("%d of %d rows were written, %d bytes at once, want at most %d", written, rows, largest, repairBytes)
	}
	for i := range 2500 { // small ones
		if err := r.add(storage.Entity{Key: key.Key{Row: fmt.Sprint(rows + i)}, Properties: []storage.Property{{Value: []byte(`"x"`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.flush(); err != nil || written != rows+2500 || largest > repairBytes+size || last != 3*500 {
		t.Errorf("%d rows were written, the last %d bytes at once, %v", written, last, err)
	}
}
