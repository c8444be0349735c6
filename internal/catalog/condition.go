package catalog

import (
	"slices"
	"strconv"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/stream/claim"
)

// Meta identifies a record and its version. It is not part of the record.
type Meta struct {
	// ID changes only if the record's index values or its sort value do.
	ID string `json:"id"`
	// ETag changes with each write. It is the same under every index key, and "" if another
	// program wrote the record.
	ETag string `json:"etag,omitempty"`
}

func metaOf(w wal.Write) Meta {
	return Meta{ID: string(w.First) + string(w.Identity), ETag: etagOf(w.Version)}
}

func etagOf(version int64) string {
	if version == 0 {
		return ""
	}
	return `"` + strconv.FormatInt(version, 10) + `"`
}

// AnyETag stands for the ETag of any record.
const AnyETag = "*"

// Condition is what a write demands of the existing record. The zero value demands
// nothing.
type Condition struct {
	Match  []string // unless empty: the record exists and has one of these ETags, or any for AnyETag
	Differ []string // unless empty: the record does not exist, or has none of these ETags
	// Once, unless "", is the caller's Idempotency-Key: for a day, the same write with it is done
	// once, and gets the first answer.
	Once string
	// Invocation, unless "", is the host's id of the request, which the host may send again. It does for a
	// deletion what Once does, for an hour, if that is "".
	Invocation string
}

// check returns an Unmet error unless the head's record meets the condition.
func (on Condition) check(h *store.Head) error {
	has := func(etags []string) bool {
		return h.Live() && (slices.Contains(etags, AnyETag) || slices.Contains(etags, etagOf(h.Version)))
	}
	switch {
	case len(on.Match) > 0 && !h.Live():
		return problem.Unmetf("If-Match", "there is no such record")
	case len(on.Match) > 0 && !has(on.Match):
		return problem.Unmetf("If-Match", "the record has changed; read it again, and send its new ETag")
	case has(on.Differ):
		return problem.Unmetf("If-None-Match", "the record exists")
	}
	return nil
}

// id returns the id of a deletion that parts describe.
func (on Condition) id(parts ...any) claim.ID {
	return claim.Sent{Key: on.Once, Invocation: on.Invocation}.ID(store.Encode(parts))
}

// splitID returns the hashes that a record's ID consists of.
func splitID(id string) (first index.FirstHash, identity index.IdentityHash, ok bool) {
	if len(id) != 2*index.HashLength {
		return "", "", false
	}
	return index.FirstHash(id[:index.HashLength]), index.IdentityHash(id[index.HashLength:]), true
}
