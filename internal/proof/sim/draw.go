package sim

import (
	"encoding/binary"
	"hash/fnv"
)

// draw is a random number that depends only on the seed and the request. It stays
// the same however goroutines interleave.
func draw(seed uint64, what ...string) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, seed) // a hash takes everything
	for _, s := range what {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	x := h.Sum64() // FNV mixes its last bytes poorly; finish as splitmix64 does
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// chance returns true with probability p.
func chance(p float64, x uint64) bool { return float64(x>>11)/(1<<53) < p }
