package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// migrator is a migration under way.
type migrator struct {
	*catalog.Catalog
	dryRun bool
	found  func(catalog.Finding)

	mu  sync.Mutex // guards the fields below
	sum Result
	// contents has the content of each identity of which another program wrote rows. After
	// survey, only taken changes.
	contents map[identityHash]content
}

type identityHash [32]byte // see index.Identity.Hash

// content is the content of an identity's rows.
type content struct {
	hash      string
	ambiguous bool
	taken     bool // the record is counted in Result.Taken
}

func (m *migrator) count(change func(*Result)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.sum)
}

// leave reports something that stays as it was.
func (m *migrator) leave(at key.Key, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Left++
	m.found(catalog.Finding{Partition: at.Partition, Row: at.Row, Problem: fmt.Sprintf(format, args...)})
}

// attempt moves one record by do. If that is impossible, it reports the record as left. done
// is true if do has moved it.
func (m *migrator) attempt(at key.Key, do func() error) (done bool, err error) {
	if m.dryRun {
		return true, nil
	}
	switch err := do(); {
	case err == nil:
		return true, nil
	case errors.Is(err, catalog.ErrRaced): // another migration is doing it
		return false, nil
	case problem.Status(err) < 500:
		m.leave(at, "it can't be moved: %v", err)
		return false, nil
	default:
		return false, err
	}
}

// survey notes the content of all rows that another program wrote, by identity.
func (m *migrator) survey(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		for _, row := range p.Entities {
			if !store.Foreign(row) {
				continue
			}
			r := store.ContentOf(row)
			if id, err := m.Identify(r); err == nil {
				m.note(id, r)
			}
		}
		return nil
	})
}

func (m *migrator) note(id index.Identity, r record.Record) {
	of := content{hash: r.Hash()}
	if before, known := m.contents[hashOf(id)]; known {
		before.ambiguous = before.ambiguous || before.hash != of.hash
		of = before
	}
	m.contents[hashOf(id)] = of
}

// contentOf returns what survey has noted.
func (m *migrator) contentOf(id index.Identity) content {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contents[hashOf(id)]
}

func hashOf(id index.Identity) identityHash {
	var h identityHash
	copy(h[:], id.Hash())
	return h
}
