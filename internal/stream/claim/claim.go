// Package claim makes sure that a repeated request is carried out only once. If no answer arrives, a client repeats the request
// with the same Idempotency-Key, and a Functions host repeats the request with the same invocation id.
//
// A claim is a row that a request inserts before it reads anything:
//
//	RowKey     row
//	i|HASH     claim with the hash of an Idempotency-Key: Request (hash of the request), the Answer once there is one, and, if a repetition
//	           has taken the claim over, when it was Made
//	i|v|HASH   claim with the hash of an invocation id and the request
//
// A transaction that carries out a request may also write the request's claim. [ID.Row] returns the claim's row.
package claim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

const (
	// Prefix is the start of every claim's RowKey.
	Prefix           = "i|"
	invocationPrefix = Prefix + "v|" // sorts after all other claims, whose keys continue with a hexadecimal digit

	// The minimum time for which claims are kept after their last change. An hour is enough for invocations, because a
	// host repeats a request within seconds.
	keepKeys, keepInvocations = 24 * time.Hour, time.Hour
	tidyEvery                 = time.Hour

	requestColumn, answerColumn, madeColumn = "Request", "Answer", "Made"

	maxRaces = 20 // maximum number of tries; a further try is needed if another process changes or deletes the claim
)

// Sent contains the values that a request and its repetitions share. The zero value is for a request that is never repeated.
type Sent struct {
	Key        string // the Idempotency-Key, "" for none
	Invocation string // the host's invocation id; ignored if Key is not ""
}

// ID returns the id of the request that the argument describes. Different requests with the same invocation id have
// different IDs. If different requests have the same Idempotency-Key, [ID.Check] returns an error for the second
// request.
func (s Sent) ID(request string) ID {
	switch {
	case s.Key != "":
		return ID{Prefix + hash(s.Key), hash(request)}
	case s.Invocation != "":
		return ID{invocationPrefix + hash(s.Invocation+" "+request), hash(request)}
	}
	return ID{}
}

// ID is the same for a request and its repetitions, and different for other requests. The zero value is for a request that is
// never repeated.
type ID struct{ row, request string }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// None reports whether the id is the zero value.
func (id ID) None() bool { return id.row == "" }

// Keyed reports whether the id comes from an Idempotency-Key.
func (id ID) Keyed() bool { return id.row != "" && !strings.HasPrefix(id.row, invocationPrefix) }

// Row returns the id's row in a partition. The row contains the request's hash and the properties `more`.
func (id ID) Row(partition string, more ...storage.Property) storage.Entity {
	return storage.Entity{
		Key:        key.Key{Partition: partition, Row: id.row},
		Properties: append([]storage.Property{storage.StringProperty(requestColumn, id.request)}, more...),
	}
}

// Check returns a KeyReused error if the given row, which has the id's RowKey, was written for another request.
func (id ID) Check(row storage.Entity) error {
	if row.Get(requestColumn) != id.request {
		return problem.ReusedKey()
	}
	return nil
}

// Claims are the claims of one partition.
type Claims struct {
	Table     *storage.Table
	Partition string
}

// Claim is the claim of a request.
type Claim struct {
	// Known is true if the claim already existed: either an earlier try had made it, or this try repeated the insertion
	// because the first answer was lost.
	Known  bool
	Made   time.Time // when the claim was made, by the service's clock
	Answer string    // the answer that a try has recorded, or ""

	row storage.Entity
}

// Take makes a claim for a request, or returns the claim of an earlier try. If the Idempotency-Key was used for another
// request, the error is KeyReused. Take sends one request to the storage, or two for a repetition.
func (c Claims) Take(ctx context.Context, id ID) (Claim, error) {
	return c.take(ctx, id.Row(c.Partition), id)
}

// TakeWith is Take for a request whose answer is known in advance.
func (c Claims) TakeWith(ctx context.Context, id ID, answer string) (Claim, error) {
	return c.take(ctx, id.Row(c.Partition, storage.StringProperty(answerColumn, answer)), id)
}

func (c Claims) take(ctx context.Context, row storage.Entity, id ID) (Claim, error) {
	for range maxRaces {
		b := c.Table.Batch()
		b.Add(storage.Op{Kind: storage.Insert, Row: row.Row()})
		err := b.Do(ctx)
		if err != nil && !storage.Conflict(err) {
			return Claim{}, fmt.Errorf("the claim for the request was not stored: %w", err)
		}
		known := err != nil
		if made, ok := storage.ETagTime(b.ETag()); ok && !known {
			row.ETag = b.ETag()
			return Claim{Made: made, Answer: row.Get(answerColumn), row: row}, nil
		}
		there, found, err := c.Table.Get(ctx, row.Key)
		switch {
		case err != nil:
			return Claim{}, fmt.Errorf("the request's claim cannot be read: %w", err)
		case found:
			return claimOf(known, there), id.Check(there)
		}
	}
	return Claim{}, problem.Busyf("", "other processes keep inserting and deleting the request's claim; try again")
}

func claimOf(known bool, row storage.Entity) Claim {
	made := row.Timestamp
	if text := row.Get(madeColumn); text != "" {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil { // the text may be invalid if somebody has changed the row
			made = t
		}
	}
	return Claim{known, made, row.Get(answerColumn), row}
}

// TakeOver lets a repetition take over a known claim that has no answer yet. From then on, [Claims.Unchanged] returns
// false to the first try. TakeOver returns the claim's new state, which may contain the answer of another try.
func (c Claims) TakeOver(ctx context.Context, of Claim) (Claim, error) {
	for range maxRaces {
		if of.Answer != "" || of.row.Get(madeColumn) != "" { // the first try has ended, or another repetition has taken the claim over
			return of, nil
		}
		err := c.Table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: of.row.ETag, Row: storage.Entity{
			Key: of.row.Key, Properties: []storage.Property{storage.StringProperty(madeColumn, of.Made.UTC().Format(time.RFC3339Nano))},
		}.Row()})
		if unlessChanged(err) != nil {
			return of, fmt.Errorf("the request's claim was not changed: %w", err)
		}
		there, found, err := c.Table.Get(ctx, of.row.Key)
		switch {
		case err != nil:
			return of, fmt.Errorf("the request's claim cannot be read: %w", err)
		case !found: // the claim was deleted because of its age
			return of, nil
		}
		of = claimOf(true, there)
	}
	return of, problem.Busyf("", "other processes keep changing the request's claim; try again")
}

// Unchanged reports whether the claim's row is still the one that this try wrote. If a repetition has taken over the claim, the
// result is false.
func (c Claims) Unchanged(ctx context.Context, of Claim) (bool, error) {
	there, found, err := c.Table.Get(ctx, of.row.Key)
	if err != nil {
		return false, fmt.Errorf("the request's claim cannot be read: %w", err)
	}
	return found && there.ETag == of.row.ETag, nil
}

// Record stores the answer for repetitions. The result is false if another try has recorded another answer, or if the
// claim was deleted.
func (c Claims) Record(ctx context.Context, of Claim, answer string) (kept bool, err error) {
	for range maxRaces {
		err := c.Table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: of.row.ETag, Row: storage.Entity{
			Key: of.row.Key, Properties: []storage.Property{storage.StringProperty(answerColumn, answer)},
		}.Row()})
		if err == nil || unlessChanged(err) != nil {
			return err == nil, err
		}
		there, found, err := c.Table.Get(ctx, of.row.Key)
		switch now := there.Get(answerColumn); {
		case err != nil || !found || now != "":
			return now == answer, err // true if another try has recorded an equal answer
		}
		of.row = there // a repetition has taken the claim over
	}
	return false, problem.Busyf("", "other processes keep changing the request's claim; try again")
}

// Release deletes the claim of a request that was not carried out, unless another try has changed the claim.
func (c Claims) Release(ctx context.Context, of Claim) error {
	err := c.Table.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: of.row.ETag, Row: storage.Row{Key: of.row.Key}})
	return unlessChanged(err)
}

// unlessChanged returns a write's error, or nil if the write failed because another try has changed or deleted the
// claim.
func unlessChanged(err error) error {
	if storage.HasCode(err, "UpdateConditionNotSatisfied") || storage.NotFound(err) {
		return nil
	}
	return err
}

// Outdated calls fn with the claims that were not changed for at least the duration `age`. The argument `now` is the
// service's time.
func (c Claims) Outdated(ctx context.Context, now time.Time, age time.Duration, fn func(Claim) error) error {
	q := storage.Query{Range: key.WithPrefix(c.Partition, Prefix), Filter: lastChanged(now, age)}
	return c.Table.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities() {
			if err := fn(claimOf(true, row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastChanged returns a filter for rows that were not changed for at least the duration `age`.
func lastChanged(now time.Time, age time.Duration) string {
	return "Timestamp lt datetime'" + now.Add(-age).UTC().Format("2006-01-02T15:04:05Z") + "'"
}

// Tidying stores the time of the last search for claims that are no longer needed. It is safe for concurrent use.
type Tidying struct {
	mu   sync.Mutex
	last time.Time
}

// Due calls `tidy`, unless a call has succeeded within the last hour. The argument `now` is the service's time.
func (t *Tidying) Due(now time.Time, tidy func() error) error {
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	if now.Sub(last) < tidyEvery {
		return nil
	}
	if err := tidy(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = now
	return nil
}

// Tidy deletes two kinds of rows from a range: claims that are no longer needed, and other rows that are older than a
// day. The search takes one query. The argument `now` is the service's time. Even after an error, the result `removed` is
// the number of deleted rows.
func Tidy(ctx context.Context, table *storage.Table, in key.Range, now time.Time) (removed int64, err error) {
	filter := fmt.Sprintf("(%s or (%s and RowKey ge '%s'))", lastChanged(now, keepKeys), lastChanged(now, keepInvocations), invocationPrefix)
	if removed, err = action.DeleteFound(ctx, table, storage.Query{Range: in, Filter: filter}, nil); err != nil {
		err = fmt.Errorf("old claims of requests were not deleted: %w", err)
	}
	return removed, err
}
