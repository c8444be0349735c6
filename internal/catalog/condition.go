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

// Meta identifies a record and its version. Meta is not a part of the record.
type Meta struct {
	// ID changes only if an index value or the sort value of the record changes.
	ID string `json:"id"`
	// ETag changes with each write. It is "" if another program wrote the record.
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

// AnyETag stands for every ETag.
const AnyETag = "*"

// Condition is a condition that the existing record must meet before a write. The zero value means no condition.
type Condition struct {
	Match  []string // if not empty, the record must exist and have one of these ETags; AnyETag admits every ETag
	Differ []string // if not empty, the record must not have any of these ETags; with AnyETag, the record must not exist
	// Once is the caller's Idempotency-Key, or "". Within a day, a repetition of the write with the same key changes nothing, and returns the first
	// answer.
	Once string
	// Invocation is the host's id of the request, or "". If the host sends a request again, the id is the same. If Once is "", and
	// the host sends a deletion again within an hour, the deletion is not carried out again.
	Invocation string
}

// check returns an Unmet error if the head's record does not meet the condition.
func (on Condition) check(h *store.Head) error {
	has := func(etags []string) bool {
		return h.Live() && (slices.Contains(etags, AnyETag) || slices.Contains(etags, etagOf(h.Version)))
	}
	switch {
	case len(on.Match) > 0 && !h.Live():
		return problem.Unmetf("If-Match", "the record does not exist")
	case len(on.Match) > 0 && !has(on.Match):
		return problem.Unmetf("If-Match", "the record has changed; read the record again, and send its new ETag")
	case has(on.Differ):
		return problem.Unmetf("If-None-Match", "the record exists already")
	}
	return nil
}

// id returns the id of the deletion that the arguments describe.
func (on Condition) id(parts ...any) claim.ID {
	return claim.Sent{Key: on.Once, Invocation: on.Invocation}.ID(store.Encode(parts))
}

func splitID(id string) (first index.FirstHash, identity index.IdentityHash, ok bool) {
	if len(id) != 2*index.HashLength {
		return "", "", false
	}
	return index.FirstHash(id[:index.HashLength]), index.IdentityHash(id[index.HashLength:]), true
}
