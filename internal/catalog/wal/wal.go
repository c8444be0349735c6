// Package wal contains the rules that make a catalog's writes converge: any process may apply them, in any order, any number of
// times. It does no I/O.
//
// Each identity (see package catalog/index) has a head, which has the version of its newest write. One transaction commits a
// write: it inserts the log's [Entry] and updates the head, on condition that the head is still the one by which the write was
// decided. Therefore the writes of an identity form one line, whatever the clocks say, and two writers never both win. The index
// rows follow. Each accepts a write only if the write's version is greater than the row's ([Decide]). A deletion leaves a
// tombstone, a row with only identity and version, which stops older writes that are still under way.
package wal

import (
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
)

// Kind is the kind of an operation, by its name in the list of changes.
type Kind string

// The kinds of operations.
const (
	Insert  Kind = "insert"
	Replace Kind = "replace"
	Delete  Kind = "delete"
	Undo    Kind = "undo" // withdraws an insertion that cannot be applied; it is not a change
)

// Write is the effect of an entry on one identity: in each of its partitions, the index row becomes the record or, if Gone, a
// tombstone.
type Write struct {
	First      index.FirstHash      `json:"first"` // selects the shard
	Identity   index.IdentityHash   `json:"identity"`
	Row        string               `json:"row"`        // RowKey of its index rows
	Partitions []index.PartitionKey `json:"partitions"` // of its index rows, the first index key's first
	Version    int64                `json:"version"`    // see [Insertion]; grows with each write of the record
	Gone       bool                 `json:"gone,omitzero"`
	Fresh      bool                 `json:"fresh,omitzero"` // there was no head, so most likely there are no rows
	// Instead is the record's former identity, if it was different. If both have the same row, the row passes to this identity.
	Instead *FormerIdentity `json:"instead,omitzero"`
	// Next, in a removal, is the record's new identity, and its version there; nil if the record was deleted.
	Next *FormerIdentity `json:"next,omitzero"`
	// Lineage is the first identity of a record that has had several, and that identity's last version. It shows that rows of
	// different identities belong to one record.
	Lineage *FormerIdentity `json:"line,omitzero"`
}

// At returns the key of the write's index row in a partition.
func (w Write) At(p index.PartitionKey) key.Key { return key.Key{Partition: string(p), Row: w.Row} }

// HasRowAt reports whether the write has an index row with the key.
func (w Write) HasRowAt(at key.Key) bool {
	return at.Row == w.Row && slices.Contains(w.Partitions, index.PartitionKey(at.Partition))
}

// FormerIdentity is a former identity of a record, and its last version.
type FormerIdentity struct {
	Identity index.IdentityHash `json:"identity"`
	Version  int64              `json:"version"`
}

// EntryID is the key of an entry in the log: its inverted time, and a suffix that distinguishes it from others of that time.
type EntryID string

// ContentHash is a hash of a record.
type ContentHash string

// Entry is one operation in the log.
type Entry struct {
	Kind Kind
	Time time.Time // later than that of every earlier entry of the same identities
	// Writes contains one write, or two if a record takes another identity: the removal of the old one, and the write of the new
	// one. All are in the same shard.
	Writes []Write
}

// Head is an identity's newest write.
type Head struct {
	Write
	Entry   EntryID
	Time    time.Time   // the entry's time
	Content ContentHash // "" if the record is gone
	// Sure means that the service can no longer carry out any request to write a row of the identity, except those for entries in
	// the log. Each earlier entry was applied by its own writer only, and each of its requests was answered at the first try.
	Sure bool
}

// Verdict is the decision about an operation.
type Verdict int

// The verdicts.
const (
	Commit Verdict = iota // commit it
	Same                  // the same record exists already
	Taken                 // a record with other contents has the identity
)

// Insertion decides whether to insert a record. head is that of its identity, or nil. Without a head, the version is the time
// in ticks. The identity may have had earlier lives, of which nothing is stored any more, and the version must be greater than
// theirs.
func Insertion(head *Head, w Write, content ContentHash, now time.Time) (Write, Verdict) {
	w = next(head, w, now)
	switch {
	case head == nil || head.Gone:
		return w, Commit
	case head.Content == content:
		return w, Same
	}
	return w, Taken
}

// Removal returns the write that deletes the record of a live head.
func Removal(head *Head) Write {
	w := next(head, head.Write, time.Time{})
	w.Gone, w.Lineage = true, head.Lineage
	return w
}

// Replacement decides whether to replace the record of the live head old with a record of w's identity. target is the head of
// that identity, or nil. It is ignored if w has old's identity.
func Replacement(old, target *Head, w Write, content ContentHash, now time.Time) ([]Write, Verdict) {
	if old.Identity == w.Identity {
		if old.Content == content {
			return nil, Same
		}
		w = next(old, w, now)
		w.Lineage = old.Lineage
		return []Write{w}, Commit
	}
	if target != nil && !target.Gone {
		return nil, Taken
	}
	left := Removal(old)
	w = TakeIdentity(old, target, w, now)
	left.Next, left.Lineage = &FormerIdentity{w.Identity, w.Version}, w.Lineage
	return []Write{left, w}, Commit
}

// TakeIdentity returns the write that gives w's identity to the record of the head old. The head of that identity is target.
// The write's version is greater than those of both heads. Another write, in the same entry or a later one, removes the old
// identity.
func TakeIdentity(old, target *Head, w Write, now time.Time) Write {
	w = next(target, w, now)
	w.Version = max(w.Version, old.Version+1)
	w.Instead = &FormerIdentity{old.Identity, old.Version}
	if w.Lineage = old.Lineage; w.Lineage == nil {
		w.Lineage = w.Instead
	}
	return w
}

// next returns w as the write that follows the head.
func next(head *Head, w Write, now time.Time) Write {
	w.Gone, w.Instead, w.Next, w.Lineage, w.Fresh = false, nil, nil, nil, head == nil
	if head != nil {
		w.Version = head.Version + 1
	} else {
		w.Version = now.UnixNano() / int64(key.Tick)
	}
	return w
}

// Clearing is the decision about a deletion's tombstones.
type Clearing int

// The decisions.
const (
	Clear  Clearing = iota // delete them
	Wait                   // an entry of the identity is pending, so decide again when it is applied
	Retain                 // for a day, because an older request may still be carried out
	Over                   // a newer write has its own rows
)

// Settle decides whether the tombstones of the write are still needed to stop older writes. pending reports whether an entry of
// the identity is in the log. The rows must have been read before the head, and the head before the entries.
func Settle(h *Head, w Write, pending bool) Clearing {
	switch {
	case h == nil || h.Version != w.Version:
		return Over
	case pending:
		return Wait
	case !h.Sure:
		return Retain
	}
	return Clear
}

// VersionClaim is the position of an index row in its record's line of writes.
type VersionClaim struct {
	Identity index.IdentityHash
	Version  int64
	Lineage  *FormerIdentity // as in [Write]
}

// Superseded reports for each row whether another one has a newer write of the same record.
func Superseded(rows []VersionClaim) []bool {
	// The newest version of each identity and of each line, and the last version of each
	// identity that a record has left.
	newest, lines, left := map[index.IdentityHash]int64{}, map[FormerIdentity]int64{}, map[index.IdentityHash]int64{}
	for _, r := range rows {
		newest[r.Identity] = max(newest[r.Identity], r.Version)
		if r.Lineage != nil {
			lines[*r.Lineage] = max(lines[*r.Lineage], r.Version)
			left[r.Lineage.Identity] = max(left[r.Lineage.Identity], r.Lineage.Version)
		}
	}
	old := make([]bool, len(rows))
	for i, r := range rows {
		past, hasLeft := left[r.Identity]
		old[i] = r.Version < newest[r.Identity] || hasLeft && r.Version <= past || r.Lineage != nil && r.Version < lines[*r.Lineage]
	}
	return old
}

// After returns the time of an entry that follows the heads: now, or a tick after the latest head if that is from a clock ahead
// of ours.
func After(now time.Time, heads ...*Head) time.Time {
	now = now.Truncate(key.Tick)
	for _, h := range heads {
		if h != nil && !h.Time.Before(now) {
			now = h.Time.Add(key.Tick)
		}
	}
	return now
}

// IndexRow is the state of an index row.
type IndexRow struct {
	State    RowState
	Identity index.IdentityHash
	Version  int64 // 0 if another program wrote the row
}

// RowState is the content of an index row.
type RowState int

// The states.
const (
	NoRow     RowState = iota // there is none
	HasRecord                 // a record
	Tombstone                 // the mark of a deletion
)

// Effect is the effect of a write on an index row.
type Effect int

// The effects.
const (
	Keep      Effect = iota // nothing: the row has this write or a newer one
	Create                  // insert it, on condition that there is none
	Overwrite               // replace it, on condition of its ETag
	Collide                 // nothing: another record has the row's key
)

// Decide returns the effect of the write on a row in the state have.
func Decide(have IndexRow, w Write) Effect {
	switch {
	case have.State == NoRow:
		return Create
	case have.Identity == w.Identity:
		if have.Version >= w.Version {
			return Keep
		}
		return Overwrite
	case w.Gone:
		return Keep
	case w.Instead == nil || w.Instead.Identity != have.Identity:
		return Collide
	case have.Version > w.Instead.Version: // the record has moved back since
		return Keep
	}
	return Overwrite
}
