package queue

import (
	"maps"
	"regexp"
	"slices"
	"sync"

	"tablesweep/internal/emulator/refusal"
)

// Store holds an account's queues. The zero value is not usable; see [NewStore].
// Its methods may be called concurrently.
type Store struct {
	mu     sync.RWMutex // guards queues
	queues map[string]*Queue
}

// NewStore returns a store without queues.
func NewStore() *Store { return &Store{queues: make(map[string]*Queue)} }

// Create makes an empty queue; created is false if it exists with the same
// metadata. The error is a *refusal.Error.
func (s *Store) Create(name string, metadata map[string]string) (created bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		if !maps.Equal(q.Metadata(), metadata) {
			return false, refusal.New("QueueAlreadyExists", "The specified queue already exists.")
		}
		return false, nil
	}
	s.queues[name] = newQueue(metadata)
	return true, nil
}

// Delete removes a queue and its messages. The error is a *refusal.Error.
func (s *Store) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[name] == nil {
		return notFound()
	}
	delete(s.queues, name)
	return nil
}

// Get returns the queue with the given name. The error is a *refusal.Error.
func (s *Store) Get(name string) (*Queue, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if q := s.queues[name]; q != nil {
		return q, nil
	}
	return nil, notFound()
}

// Names returns the names of all queues, sorted.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.queues))
}

func notFound() error {
	return refusal.New("QueueNotFound", "The specified queue does not exist.")
}

// CheckName holds a name to the service's rules: 3 to 63 lower-case letters, digits
// and single dashes between them.
// https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata
func CheckName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return refusal.New("OutOfRangeInput", "The specified resource name length is not within the permissible limits.")
	}
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(name) {
		return refusal.New("InvalidResourceName", "The specified resource name contains invalid characters.")
	}
	return nil
}
