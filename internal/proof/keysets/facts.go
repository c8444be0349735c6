package keysets

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/key"
	"tablesweep/internal/local/demo/debian"
)

// facts returns key sets from real data: Debian's packages, times of commits, and the IPv4 blocks of a registry.
func facts() []Set {
	made := func(name, about string, page int, rows func() ([]key.Key, error)) Set {
		return Set{Name: name, About: about, Real: true, Page: page, Rows: func(n int) ([]key.Key, error) {
			all, err := rows()
			slices.SortFunc(all, key.Key.Compare)
			return some(slices.Compact(all), n), err
		}}
	}
	return []Set{
		made("dates", "commits by day and number", 20, dates),
		made("digests", "digests of Debian's packages in 256 partitions of two pages", 125, digests),
		made("networks", "IPv4 networks in the blocks of RIPE NCC", 200, networks),
		made("uuid7", "commits by UUIDv7", 20, uuids),
	}
}

// eachCommit calls f with the commits of the set commit-log in the order of their times.
func eachCommit(f func(i int, at time.Time, id [32]byte)) error {
	rows, err := sample("commit-log")
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b key.Key) int { return strings.Compare(b.Row, a.Row) })
	for i, k := range rows {
		ticks, _, _ := strings.Cut(k.Row, "_")
		at, err := key.InvertedTime(ticks)
		if err != nil {
			return err
		}
		f(i, at, sha256.Sum256([]byte(k.Partition+k.Row)))
	}
	return nil
}

func dates() (rows []key.Key, err error) {
	err = eachCommit(func(i int, at time.Time, _ [32]byte) {
		rows = append(rows, key.Key{Partition: at.Format(time.DateOnly), Row: fmt.Sprintf("%07d", i)})
	})
	return rows, err
}

func uuids() (rows []key.Key, err error) {
	err = eachCommit(func(_ int, at time.Time, id [32]byte) {
		digits := fmt.Sprintf("%012x7%s", at.UnixMilli(), hex.EncodeToString(id[:10])[:19])
		rows = append(rows, key.Key{Partition: uuid.MustParse(digits).String()})
	})
	return rows, err
}

func eachDigest(f func(digest [32]byte)) error {
	packages, err := debian.Packages()
	for _, p := range packages {
		f(sha256.Sum256([]byte(p.Name + "_" + p.Version + "_" + p.Architecture)))
	}
	return err
}

func digests() (rows []key.Key, err error) {
	err = eachDigest(func(digest [32]byte) {
		h := hex.EncodeToString(digest[:20])
		rows = append(rows, key.Key{Partition: h[:2], Row: h})
	})
	return rows, err
}

func networks() (rows []key.Key, err error) {
	blocks := []byte{
		2, 5, 31, 37, 46, 62, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95,
		109, 141, 145, 151, 176, 178, 185, 188, 193, 194, 195, 212, 213, 217,
	}
	lengths := []uint32{24, 24, 24, 24, 24, 23, 22, 22, 21, 20, 19, 16} // most blocks are small
	err = eachDigest(func(digest [32]byte) {
		length := lengths[int(digest[4])%len(lengths)]
		network := binary.BigEndian.Uint32(digest[:4]) >> (32 - length) << (32 - length)
		first := blocks[int(digest[0])%len(blocks)]
		rows = append(rows, key.Key{Partition: fmt.Sprintf("%d.%d.%d.%d", first, network>>16&0xFF, network>>8&0xFF, network&0xFF), Row: fmt.Sprint(length)})
	})
	return rows, err
}
