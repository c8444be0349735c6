package queue

import (
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"tablesweep/internal/local/emulator/refusal"
)

// Store contains an account's queues. Create it with [NewStore]. Its methods may be called concurrently.
type Store struct {
	mu       sync.RWMutex // guards the fields below
	queues   map[string]*Queue
	deleting map[string]time.Time // when the name of a deleted queue becomes free again
}

// NewStore returns a store without queues.
func NewStore() *Store {
	return &Store{queues: make(map[string]*Queue), deleting: make(map[string]time.Time)}
}

// Create creates an empty queue. If the queue exists with the same metadata, `created` is false. The error is a *refusal.Error.
func (s *Store) Create(name string, metadata map[string]string, now time.Time) (created bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.deleting[name]) {
		return false, beingDeleted()
	}
	delete(s.deleting, name)
	if q := s.queues[name]; q != nil {
		if !maps.Equal(q.Metadata(), metadata) {
			return false, refusal.New("QueueAlreadyExists", "The specified queue already exists.")
		}
		return false, nil
	}
	s.queues[name] = newQueue(metadata)
	return true, nil
}

// Delete removes a queue and its messages. Afterwards, requests with the queue's name fail with
// QueueBeingDeleted for the given duration. The error is a *refusal.Error.
func (s *Store) Delete(name string, now time.Time, blocked time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.get(name, now); err != nil {
		return err
	}
	delete(s.queues, name)
	if blocked > 0 {
		s.deleting[name] = now.Add(blocked)
	}
	return nil
}

// Get returns the queue with the given name. The error is a *refusal.Error.
func (s *Store) Get(name string, now time.Time) (*Queue, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(name, now)
}

// get is like Get, for callers that hold s.mu.
func (s *Store) get(name string, now time.Time) (*Queue, error) {
	if q := s.queues[name]; q != nil {
		return q, nil
	}
	if now.Before(s.deleting[name]) {
		return nil, beingDeleted()
	}
	return nil, refusal.New("QueueNotFound", "The specified queue does not exist.")
}

// Names returns the names of all queues, sorted.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.queues))
}

func beingDeleted() error {
	return refusal.New("QueueBeingDeleted", "The specified queue is being deleted.")
}

// CheckName applies the service's rules to a name: 3 to 63 lower-case letters, digits and single dashes between them.
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
