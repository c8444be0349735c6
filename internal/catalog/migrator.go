package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// migrator is a migration under way.
type migrator struct {
	*Catalog
	dryRun bool
	found  func(Finding)

	mu  sync.Mutex // guards the fields below
	sum Migrated
	// contents has the content of each identity's rows that another program wrote. After
	// survey, only whether a record is taken changes.
	contents map[identityHash]content
}

type identityHash [32]byte // see index.Identity.Hash

// content is a hash, and whether there are others.
type content struct {
	hash      string
	ambiguous bool
	taken     bool // its record was counted
}

func (m *migrator) count(change func(*Migrated)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.sum)
}

// leave reports something that stays as it is.
func (m *migrator) leave(at key.Key, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Left++
	m.found(Finding{at.Partition, at.Row, fmt.Sprintf(format, args...), false})
}

// attempt does something that may turn out to be impossible for one record; that is
// reported. It reports whether it was done.
func (m *migrator) attempt(at key.Key, do func() error) (done bool, err error) {
	if m.dryRun {
		return true, nil
	}
	switch err := do(); {
	case err == nil:
		return true, nil
	case errors.Is(err, errRaced): // another migration does it
		return false, nil
	case problem.Status(err) < 500:
		m.leave(at, "it can't be moved: %v", err)
		return false, nil
	default:
		return false, err
	}
}

// survey notes the contents of all rows that another program wrote, by their identities.
func (m *migrator) survey(ctx context.Context) error {
	return m.Index.All(ctx, storage.Query{}, func(p storage.Page) error {
		for _, row := range p.Entities {
			if !foreign(row) {
				continue
			}
			r := contentOf(row)
			if id, err := m.identify(r); err == nil {
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

// contentOf returns what survey noted.
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
