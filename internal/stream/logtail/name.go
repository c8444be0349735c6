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
	// streamsPartition contains the list of streams. No stream's partition has this name.
	streamsPartition = "|streams"
	// claimsPartition contains the claims of deletions, which outlive a stream's rows.
	claimsPartition = "|claims"
	// maxNameUnits keeps a stream's keys well within the service's limits.
	maxNameUnits = 256
	// maxShards is the most partitions of a stream. Ten at their target rate already use up
	// an account's target.
	maxShards = 64
)

// escapeName returns a stream's name as a key. Characters that are illegal in keys, or special
// here, become !HEX!. The error is a [problem.Error].
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
		return "", problem.Invalidf("stream", "has a name of %d characters as a key, at most %d are possible; a character other than letters and digits may take several", n, maxNameUnits)
	}
	return b.String(), nil
}

// shardsOf returns the first n shards of a stream.
func shardsOf(escaped string, n int) []Shard {
	all := []Shard{Shard(escaped)}
	for i := 1; i < n; i++ {
		all = append(all, Shard(fmt.Sprintf("%s|%02d", escaped, i)))
	}
	return all
}
