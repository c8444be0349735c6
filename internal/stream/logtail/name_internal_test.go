package logtail

import (
	"strings"
	"testing"
	"unicode/utf8"

	"tablesweep/internal/key"
)

func TestStreamNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, want string }{
		{"orders", "orders"},
		{"Orders", "Orders"},
		{"it's 100 €", "it's 100 €"},
		{"a/b", "a!2f!b"},
		{"a|01", "a!7c!01"},
		{"|streams", "!7c!streams"},
		{"!%\\#?\x00\u0085", "!21!!25!!5c!!23!!3f!!0!!85!"},
		{"😀", "😀"},
	} {
		if got, err := escapeName(tt.name); err != nil || got != tt.want {
			t.Errorf("escapeName(%q) returns %q, error %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "\xff", strings.Repeat("a", 257), strings.Repeat("/", 65), strings.Repeat("😀", 129)} {
		if got, err := escapeName(bad); err == nil {
			t.Errorf("the name %.20q is accepted, and escaped to %q", bad, got)
		}
	}
}

// FuzzStreamsShareNoPartition checks that different streams have different partitions, that no partition is that of the list,
// and that keys are legal.
func FuzzStreamsShareNoPartition(f *testing.F) {
	for _, pair := range [][2]string{{"a", "a|01"}, {"a!7c!01", "a|01"}, {"!", "!21!"}, {"|streams", "streams"}, {"a/", "a!2f!"}} {
		f.Add(pair[0], pair[1], uint8(2), uint8(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, n, m uint8) {
		x, err1 := escapeName(a)
		y, err2 := escapeName(b)
		if err1 != nil || err2 != nil || a == b {
			t.Skip()
		}
		of := map[string]bool{streamsPartition: true}
		for _, shard := range append(shardsOf(x, int(n%maxShards)+1), shardsOf(y, int(m%maxShards)+1)...) {
			p := string(shard)
			if of[p] {
				t.Errorf("the streams %q and %q share the partition %q", a, b, p)
			}
			of[p] = true
			if strings.ContainsAny(p, "/\\#?\x00\x1f\x7f\u0085") || !utf8.ValidString(p) || key.Units(p) > 512 {
				t.Errorf("%q is not a legal key", p)
			}
		}
	})
}
