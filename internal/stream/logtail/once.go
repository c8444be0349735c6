package logtail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
)

const (
	// A stream's notes of used idempotency keys are in the partition with the name oncePartition + the stream's
	// escaped name.
	oncePartition = "|once|"

	maxRaces = 20 // maximum number of tries; another process may write the same events
)

// note describes the append in which an idempotency key was used. The append's events have consecutive ids, in one shard.
type note struct {
	first   string // the oldest event's id
	shard   Shard
	content string // hash of the events
}

// AppendOnce is [Streams.Append] with an idempotency key. If an append is repeated within a day with the same key, stream
// and events, AppendOnce inserts missing events, and returns the ids of the first append. If the events differ, the error is
// [problem.KeyReused]. All events are written to one shard.
func (s *Streams) AppendOnce(ctx context.Context, stream string, records record.Some, idempotencyKey string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	shards, escaped, err := s.toWrite(ctx, stream)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for i := range records.Len() {
		hash.Write([]byte(records.At(i).Hash()))
	}
	n := note{
		first:   s.clock.nextKeys(s.now(), records.Len())[0],
		shard:   shards[s.nextTurn()%len(shards)],
		content: hex.EncodeToString(hash.Sum(nil)),
	}
	n, known, err := s.take(ctx, escaped, idempotencyKey, n)
	if err != nil {
		return nil, s.notAppended(stream, escaped, err)
	}
	keys, err := keysFrom(n.first, records.Len())
	if err != nil {
		return nil, fmt.Errorf("the append to stream %q failed, because the stored row of the Idempotency-Key is invalid: %w", stream, err)
	}
	if ids, err := s.complete(ctx, n.shard, keys, records, known); err != nil {
		return nil, s.notAppended(stream, escaped, &PartialError{IDs: ids, Err: err})
	}
	return keys, nil
}

// take stores a note of a key's use, or returns the note that is already stored. If `known` is true, another try may have written
// events.
func (s *Streams) take(ctx context.Context, escaped, idempotencyKey string, n note) (used note, known bool, err error) {
	sum := sha256.Sum256([]byte(idempotencyKey))
	at := key.Key{Partition: oncePartition + escaped, Row: hex.EncodeToString(sum[:])}
	for range maxRaces {
		err := s.options.Table.Write(ctx, storage.Op{Kind: storage.Insert, Row: storage.Entity{Key: at, Properties: []storage.Property{
			storage.Int64Property("Version", version), storage.StringProperty("First", n.first),
			storage.StringProperty("Partition", string(n.shard)), storage.StringProperty("Content", n.content),
		}}.Row()})
		if !storage.Conflict(err) {
			return n, false, err
		}
		row, found, err := s.options.Table.Get(ctx, at)
		if err != nil {
			return note{}, false, err
		}
		if !found { // the note was deleted, because it was too old or the stream was deleted
			continue
		}
		if v := row.Int("Version"); v != version {
			return note{}, false, fmt.Errorf("the stored row of the Idempotency-Key has version %d, but this program knows only version %d", v, version)
		}
		used := note{first: row.Get("First"), shard: Shard(row.Get("Partition")), content: row.Get("Content")}
		if used.content != n.content {
			return note{}, false, problem.ReusedKey()
		}
		return used, true, nil
	}
	return note{}, false, problem.Busyf("", "other processes keep inserting and deleting the row of the Idempotency-Key; try again")
}

// complete inserts events with these keys into a shard. If the argument `known` is true, some of the events may exist, and
// only missing events are inserted. The result contains the ids of the events, with "" for each event that may still be
// missing.
func (s *Streams) complete(ctx context.Context, shard Shard, keys []string, records record.Some, known bool) ([]string, error) {
	ids := make([]string, len(keys))
	for range maxRaces {
		if known {
			if err := s.findEvents(ctx, shard, keys, ids); err != nil {
				return ids, err
			}
		}
		var missing []string
		var at []int
		for i, id := range keys {
			if ids[i] == "" {
				missing, at = append(missing, id), append(at, i)
			}
		}
		recordOf := func(i int) record.Record { return records.At(at[i]) }
		written, err := s.write(ctx, []Shard{shard}, missing, recordOf, func(error) bool { return false })
		for i, id := range written {
			ids[at[i]] = id
		}
		if !storage.Conflict(err) {
			return ids, err
		}
		known = true // another try has written some of the events
	}
	return ids, problem.Busyf("", "other attempts are appending the same events; try again")
}

// findEvents sets ids[i] to keys[i] if the shard contains an event with the key keys[i]. The keys must be sorted by age,
// oldest first.
func (s *Streams) findEvents(ctx context.Context, shard Shard, keys, ids []string) error {
	oldest, newest := keys[0], keys[len(keys)-1]
	r := key.Range{Partition: new(string(shard)), Low: &key.Bound{Key: newest}, High: &key.Bound{Key: oldest}}
	return s.options.Table.All(ctx, storage.Query{Range: r, Select: []string{}}, func(p storage.Page) error {
		for _, row := range p.Entities() {
			i, found := slices.BinarySearchFunc(keys, row.Key.Row, func(at, id string) int { return strings.Compare(id, at) })
			if found {
				ids[i] = row.Key.Row
			}
		}
		return nil
	})
}

// tidy deletes old rows once an hour: notes of keys that were used more than a day ago, and claims that are no longer
// needed.
func (s *Streams) tidy(ctx context.Context) (removed int64, err error) {
	now := s.now()
	err = s.tidying.Due(now, func() (err error) {
		all := key.Range{Low: &key.Bound{Key: claimsPartition}, High: key.PrefixEnd(oncePartition)} // the range contains only claims and notes of keys
		removed, err = claim.Tidy(ctx, s.options.Table, all, now)
		return err
	})
	return removed, err
}
