package logtail

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

const (
	// streamsPartition is the partition with the list of streams.
	streamsPartition = "|streams"
	// claimsPartition is the partition with the claims of deletions. The claims stay when a stream's rows are deleted.
	claimsPartition = "|claims"
	// maxNameUnits is the maximum number of UTF-16 units of an escaped name. It keeps a stream's keys within the service's
	// limits.
	maxNameUnits = 256
	// maxShards is the maximum number of a stream's shards. More shards would not help, because the target rate of a whole
	// account is only ten times the target rate of a partition.
	maxShards = 64
)

// escapeName returns a stream's name in the form of a key. Characters that are illegal in keys, or that have a special meaning
// in this table, become !HEX!. The error is a [problem.Error].
func escapeName(stream string) (string, error) {
	if stream == "" {
		return "", problem.Invalidf("stream", "is missing; name the stream")
	}
	if !utf8.ValidString(stream) {
		return "", problem.Invalidf("stream", "is not valid UTF-8")
	}
	var b strings.Builder
	for _, r := range stream {
		if r <= 0x1F || r >= 0x7F && r <= 0x9F || strings.ContainsRune(`/\#?|!%`, r) {
			b.WriteString("!" + strconv.FormatInt(int64(r), 16) + "!")
			continue
		}
		b.WriteRune(r)
	}
	if n := key.Units(b.String()); n > maxNameUnits {
		return "", problem.Invalidf("stream", "is too long: its encoded form has %d characters, but at most %d are allowed; shorten the name, or leave out special characters such as /, which is encoded as 4 characters", n, maxNameUnits)
	}
	return b.String(), nil
}

// shardsOf returns the first n shards of the stream with this escaped name.
func shardsOf(escaped string, n int) []Shard {
	all := []Shard{Shard(escaped)}
	for i := 1; i < n; i++ {
		all = append(all, Shard(fmt.Sprintf("%s|%02d", escaped, i)))
	}
	return all
}
