package storage_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// breaking is a body that breaks off in the middle.
type breaking struct {
	io.ReadCloser
	left int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestMemory: an answer uses memory for its text and its rows once, however often it breaks off, and whether or not its length is announced. If
// there is not enough memory, the query ends immediately and uses none.
func TestMemory(t *testing.T) {
	for _, announced := range []bool{true, false} {
		em := emulatortest.New(t, emulator.Options{})
		tries, broken := 0, 0
		a := emulatortest.Open(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, _ string) (*http.Response, error) {
			if r.Method != http.MethodGet {
				return nil, nil
			}
			resp, err := em.Transport().Do(r)
			if err != nil {
				return nil, err
			}
			if !announced {
				resp.ContentLength = -1
			}
			if tries++; broken > 0 {
				broken--
				resp.Body = &breaking{resp.Body, 1 << 20}
			}
			return resp, nil
		}})
		table := newTable(t, a)
		for i := range 40 {
			e := row("p", fmt.Sprint(100+i))
			e.Properties = append(e.Properties, storage.StringProperty("Large", strings.Repeat("x", 30_000)))
			proof.Must(t, table.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: e.Row()}))
		}
		b := memory.NewBudget(64 << 20)
		p, err := b.Take(t.Context(), 1<<20)
		proof.Must(t, err)
		defer p.Release()
		tries, broken = 0, 2
		of := table.With(storage.RequestOptions{Memory: p})
		page, err := of.Query(t.Context(), storage.Query{})
		if want := storage.MemoryOf(page.Bytes, len(page.Rows)); err != nil || tries != 3 || len(page.Rows) != 40 || p.Used() != want {
			t.Errorf("length announced %v: got %d rows in %d tries, %d bytes in use, want %d; error %v", announced, len(page.Rows), tries, p.Used(), want, err)
		}
		before := p.Used()
		others, err := b.Take(t.Context(), 55<<20)
		proof.Must(t, err)
		tries = 0
		if _, err := of.Query(t.Context(), storage.Query{}); !errors.Is(err, memory.ErrFull) || storage.Passing(err) || storage.Permanent(err) || tries != 1 || p.Used() != before {
			t.Errorf("length announced %v: got error %v after %d tries, %d bytes in use", announced, err, tries, p.Used())
		}
		if p.Wanted() <= before {
			t.Errorf("length announced %v: the wanted amount of memory is unknown", announced)
		}
		others.Release()
		if _, err := of.Query(t.Context(), storage.Query{Top: 1}); err != nil {
			t.Error(err)
		}
	}
}

// TestTopIgnoresPagesFromMemory: a page from memory, for which no bytes were read, does not change the number of rows.
func TestTopIgnoresPagesFromMemory(t *testing.T) {
	t.Parallel()
	var top storage.Top
	top.Learn(1000, 40, 16<<20, 1)
	before := top.Limit(1000)
	if top.Learn(before, before, 0, 2); before > 20 || top.Limit(1000) != before {
		t.Errorf("got %d rows, and %d after a page of no bytes", before, top.Limit(1000))
	}
}
