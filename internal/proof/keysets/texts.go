package keysets

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

func guids(r *rand.Rand, _ int) func(int) string {
	return func(int) string {
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:8], r.Uint64())
		binary.BigEndian.PutUint64(id[8:], r.Uint64())
		return id.String()
	}
}

func urns(r *rand.Rand, n int) func(int) string {
	next := guids(r, n)
	return func(i int) string {
		return fmt.Sprintf("urn:contoso:tenant%02d:%s", int(40*math.Pow(r.Float64(), 2)), next(i))
	}
}

func padded(*rand.Rand, int) func(int) string {
	return func(i int) string { return fmt.Sprintf("%016d", i) }
}

func counters(*rand.Rand, int) func(int) string { return strconv.Itoa }

// ticks returns inverted times of 19 digits, in units of 100 ns. Later times are smaller.
func ticks(r *rand.Rand, _ int) func(int) string {
	at := int64(638_000_000_000_000_000)
	return func(int) string {
		at += 1 + int64(math.Exp(6+2*r.NormFloat64()))
		if r.IntN(20_000) == 0 { // a pause of minutes or days
			at += int64(math.Exp(25 + 2*r.NormFloat64()))
		}
		return fmt.Sprintf("%019d", 3_155_378_975_999_999_999-at)
	}
}

func snowflakes(r *rand.Rand, _ int) func(int) string {
	ms, sequence := int64(1_400_000_000_000)-1_288_834_974_657, int64(0)
	return func(int) string {
		if r.IntN(4) == 0 {
			ms, sequence = ms+1+int64(math.Exp(4+2*r.NormFloat64())), 0
		}
		sequence++
		return strconv.FormatInt(ms<<22|r.Int64N(32)<<12|sequence, 10)
	}
}

func base64s(r *rand.Rand, _ int) func(int) string {
	return func(int) string {
		var b [15]byte
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		return base64.URLEncoding.EncodeToString(b[:])
	}
}

// pairs makes a name from two names. A few names are the first part of many names, as in real archives.
func pairs(names []string) texts {
	return func(r *rand.Rand, _ int) func(int) string {
		return func(int) string {
			first := names[int(float64(len(names))*math.Pow(r.Float64(), 1.5))]
			return first + "-" + names[r.IntN(len(names))]
		}
	}
}

// dotted makes ids like Contoso.Data.Json. A new id often extends an existing one, so big namespaces grow faster.
func dotted(r *rand.Rand, _ int) func(int) string {
	syllables := strings.Fields("ab ac ba co da de el en fo ga in jo ka le lo ma mi net no or pa ra re ri ro sa se soft ta te ti to ul un ve wa xa")
	word := func() string {
		w := ""
		for range 1 + r.IntN(3) {
			w += syllables[int(float64(len(syllables))*r.Float64()*r.Float64())]
		}
		return strings.ToUpper(w[:1]) + w[1:]
	}
	var spaces []string
	return func(int) string {
		id := word()
		if len(spaces) > 0 && r.IntN(10) < 8 {
			id = spaces[r.IntN(len(spaces))] + "." + id
		}
		switch {
		case r.IntN(3) == 0 && strings.Count(id, ".") < 4:
			spaces = append(spaces, id)
		case strings.Contains(id, "."): // big namespaces grow faster
			spaces = append(spaces, id[:strings.LastIndex(id, ".")])
		}
		return id + strconv.Itoa(r.IntN(100))
	}
}

// cascade draws a text character by character. The shares of the next characters after a prefix are random, but the same for every row.
func cascade(r *rand.Rand, _ int) func(int) string {
	return func(int) string {
		var b strings.Builder
		for range 14 {
			h := fnv.New64a()
			h.Write([]byte(b.String()))
			split := rand.New(rand.NewPCG(h.Sum64(), 1))
			var weight [8]float64
			total := 0.0
			for i := range weight {
				weight[i] = math.Exp(1.2 * split.NormFloat64())
				total += weight[i]
			}
			u, c := r.Float64()*total, 0
			for c < 7 && u >= weight[c] {
				u -= weight[c]
				c++
			}
			b.WriteByte("acegikmo"[c])
		}
		return b.String()
	}
}

func scripts(r *rand.Rand, _ int) func(int) string {
	alphabets := []struct{ first, size rune }{
		{'a', 26}, {'a', 26}, {'A', 26}, {0x3B1, 25}, {0x430, 32}, {0x5D0, 27},
		{0x3041, 80}, {0x4E00, 8000}, {0xAC00, 11172}, {0x1F300, 700}, {0xFF21, 26},
	}
	return func(int) string {
		a := alphabets[r.IntN(len(alphabets))]
		var b strings.Builder
		for range 4 + r.IntN(6) {
			b.WriteRune(a.first + rune(float64(a.size)*r.Float64()*r.Float64()))
		}
		return b.String()
	}
}

func customerDates(r *rand.Rand, n int) func(int) string {
	customers := max(10, n/400)
	return func(int) string {
		c := int(float64(customers) * math.Pow(r.Float64(), 3))
		return fmt.Sprintf("c%06d|%s|%05d", c*7919%1_000_000, date(r.IntN(1500)), r.IntN(100_000))
	}
}

func devices(_ *rand.Rand, n int) func(int) string {
	return func(i int) string { return fmt.Sprintf("device-%04d:%012d", i%200*37, i/200) }
}

func twoClusters(r *rand.Rand, _ int) func(int) string {
	return func(int) string {
		return []string{"alpha/2024/", "zeta/0000/"}[r.IntN(2)] + strconv.FormatUint(1<<40+r.Uint64N(1<<34), 36)
	}
}

func runs(r *rand.Rand, _ int) func(int) string {
	return func(int) string {
		depth := int(r.ExpFloat64() * 6)
		return strings.Repeat("a", depth) + strconv.FormatUint(1<<36+r.Uint64N(1<<40), 36)
	}
}
