// Package wal contains the rules by which a catalog's writes are ordered and applied. With these rules, the result is the same
// even if several processes apply the writes, in any order and any number of times. The package does no I/O.
//
// Each identity (see package catalog/index) has a head, which contains the identity's newest write and the write's version. One
// transaction commits a write: it inserts the log's [Entry] and updates the head. If the head has changed since the write was
// decided, the transaction fails. Therefore the writes of an identity have one order, which does not depend on clocks. Of two
// concurrent writers, only one succeeds. After the commit, the index rows are written. A row is replaced only by a write with a
// greater version ([Decide]). A deletion replaces the row with a tombstone, which contains the identity and the version, but no
// record. A tombstone stops older writes that are still under way.
package wal

import (
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
)

// Kind is the kind of an operation, as the list of changes shows it.
type Kind string

// The kinds of operations.
const (
	Insert  Kind = "insert"
	Replace Kind = "replace"
	Delete  Kind = "delete"
	Undo    Kind = "undo" // withdraws an insertion that cannot be applied; not listed as a change
)

// Write is the part of an entry that concerns one identity. A write changes one index row in each of the identity's partitions.
// The row becomes the record or, if Gone is true, a tombstone.
type Write struct {
	First      index.FirstHash      `json:"first"` // selects the shard
	Identity   index.IdentityHash   `json:"identity"`
	Row        string               `json:"row"`        // RowKey of the index rows
	Partitions []index.PartitionKey `json:"partitions"` // PartitionKeys of the index rows; the PartitionKey of the first index key comes first
	Version    int64                `json:"version"`    // see [Insertion]; grows with each write of the record
	Gone       bool                 `json:"gone,omitzero"`
	Fresh      bool                 `json:"fresh,omitzero"` // there was no head, so most likely there are no rows
	// If this write moves a record, Instead is the record's former identity. If both identities have the same index row, this
	// write overwrites the row.
	Instead *FormerIdentity `json:"instead,omitzero"`
	// If this write removes a moved record from its former identity, Next contains the record's new identity, and the record's
	// version after the move.
	Next *FormerIdentity `json:"next,omitzero"`
	// Lineage is set if the record has moved. Lineage contains the record's first identity, and the last version that the record
	// had before its first move. If rows of different identities have the same Lineage, the rows belong to one record.
	Lineage *FormerIdentity `json:"line,omitzero"`
}

// At is the key of the write's index row in a partition.
func (w Write) At(p index.PartitionKey) key.Key { return key.Key{Partition: string(p), Row: w.Row} }

// HasRowAt reports whether the write has an index row with the key.
func (w Write) HasRowAt(at key.Key) bool {
	return at.Row == w.Row && slices.Contains(w.Partitions, index.PartitionKey(at.Partition))
}

// FormerIdentity is a former identity of a record, and the last version that the record had with this identity.
type FormerIdentity struct {
	Identity index.IdentityHash `json:"identity"`
	Version  int64              `json:"version"`
}

// EntryID is the key of an entry in the log: its inverted time, and a suffix that distinguishes entries of the same time.
type EntryID string

// ContentHash is a hash of a record.
type ContentHash string

// Entry is one operation in the log.
type Entry struct {
	Kind Kind
	Time time.Time // later than the Time of every preceding entry that shares an identity with this entry
	// Writes contains one write, or two writes if a record moves within its shard. Of two writes, the first removes the
	// old identity, and the second creates the new identity.
	Writes []Write
}

// Head is an identity's newest write.
type Head struct {
	Write
	Entry   EntryID
	Time    time.Time   // the entry's time
	Content ContentHash // "" if the record was deleted
	// If Sure is true, each earlier entry of the identity was applied only by the process that had committed the entry, and that
	// process repeated no request. Therefore only requests of pending entries can still change a row of the identity.
	Sure bool
}

// Verdict is the decision about an operation.
type Verdict int

// The verdicts.
const (
	Commit Verdict = iota // commit the operation
	Same                  // the same record exists already
	Taken                 // a record with other contents has the identity
)

// Insertion decides whether to insert a record. The argument `head` is the head of the record's identity, or nil. If `head` is
// nil, the version of the returned write is the time in ticks. This version is greater than the versions of all records that had
// this identity before.
func Insertion(head *Head, w Write, content ContentHash, now time.Time) (Write, Verdict) {
	w = following(head, w, now)
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
	w := following(head, head.Write, time.Time{})
	w.Gone, w.Lineage = true, head.Lineage
	return w
}

// Replacement decides whether a record is replaced. The argument `old` is the record's head, which must be live. The argument w
// contains the identity of the new record. The argument `target` is the head of this identity, or nil. If the new record keeps
// the old identity, target is ignored.
func Replacement(old, target *Head, w Write, content ContentHash, now time.Time) ([]Write, Verdict) {
	if old.Identity == w.Identity {
		if old.Content == content {
			return nil, Same
		}
		w = following(old, w, now)
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

// TakeIdentity returns the write that moves a record to w's identity. The argument `old` is the record's head, and target is the
// head of w's identity. The version of the write is greater than the versions of both heads. Another write, in the same entry
// or in a later entry, removes the record from the old identity.
func TakeIdentity(old, target *Head, w Write, now time.Time) Write {
	w = following(target, w, now)
	w.Version = max(w.Version, old.Version+1)
	w.Instead = &FormerIdentity{old.Identity, old.Version}
	if w.Lineage = old.Lineage; w.Lineage == nil {
		w.Lineage = w.Instead
	}
	return w
}

// following returns the write w with the version that follows the head's version.
func following(head *Head, w Write, now time.Time) Write {
	w.Gone, w.Instead, w.Next, w.Lineage, w.Fresh = false, nil, nil, nil, head == nil
	if head != nil {
		w.Version = head.Version + 1
	} else {
		w.Version = now.UnixNano() / int64(key.Tick)
	}
	return w
}

// Clearing says what to do with the tombstones that a deletion has left.
type Clearing int

// The decisions.
const (
	Clear  Clearing = iota // delete the tombstones
	Wait                   // decide later, because an entry of the identity is pending
	Retain                 // keep the tombstones for a day, because an older request may still be carried out
	Over                   // keep the rows, because they belong to a newer write
)

// Settle decides whether the tombstones of the write are still needed to stop older writes. The argument `pending` must be true
// if the identity has a pending entry. The caller must first read the rows, then the head, and then the entries.
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

// VersionClaim says which of a record's writes an index row contains.
type VersionClaim struct {
	Identity index.IdentityHash
	Version  int64
	Lineage  *FormerIdentity // as in [Write]
}

// Superseded reports for each row whether it is outdated. A row is outdated if another row has a newer write of the same
// record.
func Superseded(rows []VersionClaim) []bool {
	// The map `newest` contains the newest version of each identity, and the map `lines` contains the newest version of each
	// lineage. The map `left` contains, for the first identity of each moved record, the last version that the record had with
	// this identity.
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

// NextTime returns the time of an entry that follows the heads. The result is the later of two times: the argument `now`, and one
// tick after the latest head's time.
func NextTime(now time.Time, heads ...*Head) time.Time {
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
	NoRow     RowState = iota // there is no row
	HasRecord                 // the row contains a record
	Tombstone                 // the row contains only the identity and version of a deletion
)

// Effect describes how a write changes an index row.
type Effect int

// The effects.
const (
	Keep      Effect = iota // leave the row, because it contains this write or a newer one
	Create                  // insert the row; if another process inserts a row first, the insertion fails
	Overwrite               // replace the row, if its ETag has not changed
	Collide                 // leave the row, because it belongs to another record with the same key
)

// Decide returns the effect of the write on an index row in its present state.
func Decide(present IndexRow, w Write) Effect {
	switch {
	case present.State == NoRow:
		return Create
	case present.Identity == w.Identity:
		if present.Version >= w.Version {
			return Keep
		}
		return Overwrite
	case w.Gone:
		return Keep
	case w.Instead == nil || w.Instead.Identity != present.Identity:
		return Collide
	case present.Version > w.Instead.Version: // the record has since moved back to its former identity
		return Keep
	}
	return Overwrite
}
