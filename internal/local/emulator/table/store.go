package table

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/local/emulator/refusal"
)

// Store contains an account's tables. Create it with [NewStore]. Its methods may be called concurrently.
type Store struct {
	mu       sync.RWMutex // guards the fields below; both are keyed by the lower-case name
	tables   map[string]*Table
	deleting map[string]time.Time // when the name of a deleted table becomes free again
}

// NewStore returns a store without tables.
func NewStore() *Store {
	return &Store{tables: make(map[string]*Table), deleting: make(map[string]time.Time)}
}

// Add creates a table with the given rows, which must not be nil. The error is a *refusal.Error.
func (s *Store) Add(name string, rows Rows) error {
	t, err := s.Create(name, time.Time{})
	if err == nil {
		t.own = rows
	}
	return err
}

// Create creates an empty table. The error is a *refusal.Error.
func (s *Store) Create(name string, now time.Time) (*Table, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	id := strings.ToLower(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.deleting[id]) {
		return nil, beingDeleted()
	}
	delete(s.deleting, id)
	if s.tables[id] != nil {
		return nil, refusal.New("TableAlreadyExists", "The table specified already exists.")
	}
	t := newTable(name)
	s.tables[id] = t
	return t, nil
}

// Delete removes a table and its rows. Afterwards, requests with the table's name fail with
// TableBeingDeleted for the given duration. The error is a *refusal.Error.
func (s *Store) Delete(name string, now time.Time, blocked time.Duration) error {
	id := strings.ToLower(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.deleting[id]) {
		return beingDeleted()
	}
	if s.tables[id] == nil {
		return NotFound()
	}
	delete(s.tables, id)
	if blocked > 0 {
		s.deleting[id] = now.Add(blocked)
	}
	return nil
}

// Get returns the table with the given name, ignoring case. The error is a *refusal.Error.
func (s *Store) Get(name string, now time.Time) (*Table, error) {
	id := strings.ToLower(name)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.tables[id]; t != nil {
		return t, nil
	}
	if now.Before(s.deleting[id]) {
		return nil, beingDeleted()
	}
	return nil, refusal.New("TableNotFound", "The table specified does not exist.")
}

// Names returns the names of all tables, sorted without regard to case.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.tables))
	for _, t := range s.tables {
		names = append(names, t.name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	return names
}

func beingDeleted() *refusal.Error {
	return refusal.New("TableBeingDeleted", "The specified table is being deleted. Try operation later.")
}

// checkName applies the service's rules to a name: 3 to 63 letters and digits, beginning with a letter, and not "tables".
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
func checkName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return refusal.New("OutOfRangeInput", "The specified resource name length is not within the permissible limits.")
	}
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`).MatchString(name) || strings.EqualFold(name, "tables") {
		return refusal.New("InvalidResourceName", "The specified resource name contains invalid characters.")
	}
	return nil
}
