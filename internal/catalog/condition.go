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

// Meta identifies a record and its version. It is not a part of the record.
type Meta struct {
	// ID changes only if the record's index values or its sort value change.
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

// Condition is a condition on the existing record of a write. The zero value means no condition.
type Condition struct {
	Match  []string // unless empty: the record must exist and have one of these ETags, or any if AnyETag is among them
	Differ []string // unless empty: the record must not exist, or have none of these ETags
	// Once, unless "", is the caller's Idempotency-Key. For a day, the same write with this key is carried out once, and
	// repetitions get the first answer.
	Once string
	// Invocation, unless "", is the host's id of the request, which the host may repeat. If Once is "", Invocation has the same
	// effect as Once, but only for a deletion, and only for an hour.
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

// id returns the id of a deletion. parts describe the deletion.
func (on Condition) id(parts ...any) claim.ID {
	return claim.Sent{Key: on.Once, Invocation: on.Invocation}.ID(store.Encode(parts))
}

// splitID returns the two hashes in a record's ID.
func splitID(id string) (first index.FirstHash, identity index.IdentityHash, ok bool) {
	if len(id) != 2*index.HashLength {
		return "", "", false
	}
	return index.FirstHash(id[:index.HashLength]), index.IdentityHash(id[index.HashLength:]), true
}
