package emulator

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/emulator/refusal"
)

// blobStore holds an account's containers of blobs. Its methods may be called concurrently; their errors
// are *refusal.Error.
type blobStore struct {
	mu         sync.RWMutex               // guards the fields below
	containers map[string]map[string]blob // by their names, blobs by theirs
	written    uint64                     // blobs, ever
}

// blob is what a name stands for. It is never changed.
type blob struct {
	content  []byte
	etag     string
	modified time.Time
}

func newBlobStore() *blobStore { return &blobStore{containers: make(map[string]map[string]blob)} }

// containerName matches legal names; [blobStore.create] checks their length. (Microsoft Learn, "Naming and referencing
// containers, blobs, and metadata")
var containerName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (s *blobStore) create(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(name) < 3 || len(name) > 63:
		return refusal.New(refusal.OutOfRangeInput, "The specified resource name length is not within the permissible limits.")
	case !containerName.MatchString(name):
		return refusal.New(refusal.InvalidResourceName, "The specified resource name contains invalid characters.")
	case s.containers[name] != nil:
		return refusal.New(refusal.ContainerAlreadyExists, "The specified container already exists.")
	}
	s.containers[name] = make(map[string]blob)
	return nil
}

// get returns a blob if it satisfies the condition.
func (s *blobStore) get(container, name string, on blobCondition) (blob, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	blobs, err := s.container(container)
	if err != nil {
		return blob{}, err
	}
	b, found := blobs[name]
	if !found {
		return blob{}, refusal.New(refusal.BlobNotFound, "The specified blob does not exist.")
	}
	return b, on.check(b, found)
}

// put writes or replaces a blob if what there is of its name satisfies the condition. It keeps content.
func (s *blobStore) put(container, name string, content []byte, on blobCondition) (blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blobs, err := s.container(container)
	if err != nil {
		return blob{}, err
	}
	old, found := blobs[name]
	if err := on.check(old, found); err != nil {
		return blob{}, err
	}
	s.written++
	blobs[name] = blob{content, fmt.Sprintf(`"0x%015X"`, s.written), time.Now()}
	return blobs[name], nil
}

// remove deletes a blob if it satisfies the condition.
func (s *blobStore) remove(container, name string, on blobCondition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	blobs, err := s.container(container)
	if err != nil {
		return err
	}
	b, found := blobs[name]
	if !found {
		return refusal.New(refusal.BlobNotFound, "The specified blob does not exist.")
	}
	if err := on.check(b, found); err != nil {
		return err
	}
	delete(blobs, name)
	return nil
}

// list returns the names of a container's blobs that begin with prefix and are not before from, in order, and
// these blobs.
func (s *blobStore) list(container, prefix, from string) ([]string, map[string]blob, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	blobs, err := s.container(container)
	if err != nil {
		return nil, nil, err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(blobs)), func(name string) bool { return !strings.HasPrefix(name, prefix) || name < from })
	return names, maps.Clone(blobs), nil
}

// container returns a container's blobs. The caller holds s.mu.
func (s *blobStore) container(name string) (map[string]blob, error) {
	if blobs := s.containers[name]; blobs != nil {
		return blobs, nil
	}
	return nil, refusal.New(refusal.ContainerNotFound, "The specified container does not exist.")
}

// blobCondition is what a request demands of the blob that there is. "" demands nothing. (Microsoft
// Learn, "Specifying conditional headers for Blob service operations")
type blobCondition struct{ match, noneMatch string }

// check refuses a request whose condition the blob does not satisfy; found is false if there is none.
func (c blobCondition) check(b blob, found bool) error {
	switch {
	case found && c.noneMatch == "*":
		return refusal.New(refusal.BlobAlreadyExists, "The specified blob already exists.")
	case found && c.noneMatch == b.etag, c.match != "" && (!found || c.match != "*" && c.match != b.etag):
		return refusal.New(refusal.ConditionNotMet, "The condition specified using HTTP conditional header(s) is not met.")
	}
	return nil
}
