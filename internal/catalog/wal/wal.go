// Package wal holds the rules by which a catalog's writes converge, whoever carries
// them out, how often, and in whichever order. It reads and writes nothing.
//
// Each identity (see package tablesweep/internal/catalog/index) has a head, which
// names its newest write by version. A write is committed by changing the head
// from the version it was decided on, in the same transaction that records the
// log's [Entry]; so the writes of one identity stand in one line, whatever the
// clocks say, and two writers never both win. Index rows follow: each takes a
// write only if its version is greater than the row's own ([Decide]). Deletion
// leaves a row behind, which only says that the identity is gone and since which
// version: it stops an older write that is still under way.
package wal

import "time"

// Tick is the resolution of an entry's time.
const Tick = 100 * time.Nanosecond

// Kind is what an operation is called in the list of changes.
type Kind string

// The kinds of operations.
const (
	Insert  Kind = "insert"
	Replace Kind = "replace"
	Delete  Kind = "delete"
	Undo    Kind = "undo" // of an insertion that can't be applied; it is no change
)

// Write is what an entry does to one identity: index rows in all its partitions
// that hold the record or, if it is gone, say so.
type Write struct {
	First      string   `json:"first"`      // hash of the first index key's value; it selects the shard
	Identity   string   `json:"identity"`   // hash of all index values and the sort value
	Row        string   `json:"row"`        // RowKey of its index rows
	Partitions []string `json:"partitions"` // their PartitionKeys, the first index key's first
	Version    int64    `json:"version"`    // see [Insertion]; it grows with each write of the record
	Gone       bool     `json:"gone,omitzero"`
	Fresh      bool     `json:"fresh,omitzero"` // there was no head, and so most likely there are no rows
	// Instead is the identity that the record had before, if it had another one. Where
	// both have the same row, it changes hands.
	Instead *Past `json:"instead,omitzero"`
	// Line is the first identity of a record that has had several, up to the version
	// that it then had. It tells that rows of different identities are of one record.
	Line *Past `json:"line,omitzero"`
}

// Past is an identity up to a version.
type Past struct {
	Identity string `json:"identity"`
	Version  int64  `json:"version"`
}

// Entry is one operation in the log.
type Entry struct {
	Kind Kind
	Time time.Time // later than that of every earlier entry of the same identities
	// Writes holds one write, or two where a record takes another identity: the
	// old one is gone, the new one is there. All are in the same shard.
	Writes []Write
}

// Head is an identity's newest write.
type Head struct {
	Write
	Entry   string    // the entry's id
	Time    time.Time // the entry's time
	Content string    // hash of the record; "" if it is gone
	// Sure says that no request to write a row of the identity can be carried out any
	// more, save those for entries in the log: each entry was carried out by its own
	// writer alone, and each of its requests was answered at the first try.
	Sure bool
}

// Verdict is what may be done about an operation.
type Verdict int

// The verdicts.
const (
	Commit Verdict = iota // write it
	Same                  // the record is there already, with the same contents
	Taken                 // another record has the identity
	Absent                // there is no such record
)

// Insertion decides what inserting a record does. head is that of its identity, nil
// if there is none. Then the write's version is the time, in ticks: it must be greater
// than those of an earlier life of the identity, of which nothing is known any more.
func Insertion(head *Head, w Write, content string, now time.Time) (Write, Verdict) {
	w = next(head, w, now)
	switch {
	case head == nil || head.Gone:
		return w, Commit
	case head.Content == content:
		return w, Same
	}
	return w, Taken
}

// Removal decides what deleting a record does.
func Removal(head *Head) (Write, Verdict) {
	if head == nil || head.Gone {
		return Write{}, Absent
	}
	w := next(head, head.Write, time.Time{})
	w.Gone = true
	return w, Commit
}

// Replacement decides what replacing the record of head old by one with the
// identity w does, whose own head is target: nil if there is none, and the same
// as old if the identity stays.
func Replacement(old, target *Head, w Write, content string, now time.Time) ([]Write, Verdict) {
	if old == nil || old.Gone {
		return nil, Absent
	}
	if old.Identity == w.Identity {
		if old.Content == content {
			return nil, Same
		}
		w = next(old, w, now)
		w.Line = old.Line
		return []Write{w}, Commit
	}
	if target != nil && !target.Gone {
		return nil, Taken
	}
	left, _ := Removal(old)
	return []Write{left, Succeed(old, target, w, now)}, Commit
}

// Succeed returns the write that gives the record of head old the identity of w,
// whose own head is target. Its version is greater than those of both. Its old identity's
// removal follows, if it is not part of the same entry.
func Succeed(old, target *Head, w Write, now time.Time) Write {
	w = next(target, w, now)
	w.Version = max(w.Version, old.Version+1)
	w.Instead = &Past{old.Identity, old.Version}
	if w.Line = old.Line; w.Line == nil {
		w.Line = w.Instead
	}
	return w
}

func next(head *Head, w Write, now time.Time) Write {
	w.Gone, w.Instead, w.Line, w.Fresh = false, nil, nil, head == nil
	if head != nil {
		w.Version = head.Version + 1
	} else {
		w.Version = now.UnixNano() / int64(Tick)
	}
	return w
}

// Clearing is what may be done about the rows that say that an identity is gone.
type Clearing int

// What may be done.
const (
	Clear  Clearing = iota // delete them
	Wait                   // an entry of the identity is in the log: ask again when it is not
	Retain                 // for a day, since something older may still be on its way
	Over                   // a newer write has its own
)

// Settle decides whether the rows that the write has left are still needed: they stop
// older writes that are under way. The rows must have been read before the head, and the
// head before the log's entries, of which pending says whether any has the identity.
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

// Standing is the place of an index row in its record's line of writes.
type Standing struct {
	Identity string
	Version  int64
	Line     *Past // as in [Write]
}

// Superseded reports of each row whether one of the others holds a later write of the
// same record.
func Superseded(rows []Standing) []bool {
	// The newest version of each identity, of each line, and of those that an identity had
	// before its record took another one.
	newest, lines, left := map[string]int64{}, map[Past]int64{}, map[string]int64{}
	for _, r := range rows {
		newest[r.Identity] = max(newest[r.Identity], r.Version)
		if r.Line != nil {
			lines[*r.Line] = max(lines[*r.Line], r.Version)
			left[r.Line.Identity] = max(left[r.Line.Identity], r.Line.Version)
		}
	}
	old := make([]bool, len(rows))
	for i, r := range rows {
		past, hasLeft := left[r.Identity]
		old[i] = r.Version < newest[r.Identity] || hasLeft && r.Version <= past || r.Line != nil && r.Version < lines[*r.Line]
	}
	return old
}

// After returns the time of an entry that follows the heads: now, unless a clock
// has run ahead of ours.
func After(now time.Time, heads ...*Head) time.Time {
	now = now.Truncate(Tick)
	for _, h := range heads {
		if h != nil && !h.Time.Before(now) {
			now = h.Time.Add(Tick)
		}
	}
	return now
}

// IndexRow is the state of an index row.
type IndexRow struct {
	Exists   bool
	Identity string
	Version  int64 // 0 for a row that was not written by this program
	Gone     bool
}

// Change is what a write does to a row.
type Change int

// The actions.
const (
	Keep      Change = iota // the row has this write, or a newer one
	Create                  // there must be no row meanwhile
	Overwrite               // the row must not have changed meanwhile
	Collide                 // another identity's record has the row's key
)

// Decide returns what the write does to a row in the state have.
func Decide(have IndexRow, w Write) Change {
	switch {
	case !have.Exists:
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
	case have.Version > w.Instead.Version: // the record has gone back
		return Keep
	}
	return Overwrite
}
