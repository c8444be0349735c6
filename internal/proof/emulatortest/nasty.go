package emulatortest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// oddKeys are partition keys and row keys with which copies easily make mistakes.
var oddKeys = []string{
	"", " ", "'", "''", "%", "%27", "+", "a+b c", "é", "e\u0301", "😀", "😀x", "\ue000", "\ufffd", "a&b=c;d:e,f", "$batch", "()",
	strings.Repeat("k", 512), strings.Repeat("😀", 256),
}

// NastyRows returns n rows with keys and values with which copies easily make mistakes. The keys are distinct and in no order. The first 371 rows test the
// limits of the service. The keys and values of the other rows are drawn at random, but are the same for every n.
func NastyRows(n int) []storage.Entity {
	many := make([]storage.Property, 200)
	for i := range many {
		many[i] = storage.Int64Property(fmt.Sprintf("P%03d", i), int64(i))
	}
	large := make([]storage.Property, 15)
	for i := range large {
		large[i] = storage.StringProperty(fmt.Sprintf("L%02d", i), strings.Repeat("x", 30<<10)) // each has 60 KiB as UTF-16
	}
	all := []storage.Property{
		property("Whole", storage.Double, `3.0`), property("Tiny", storage.Double, `5E-324`), property("Huge", storage.Double, fmt.Sprint(math.MaxFloat64)),
		property("NaN", storage.Double, `"NaN"`), property("Inf", storage.Double, `"Infinity"`), property("NegInf", storage.Double, `"-Infinity"`),
		property("Min64", storage.Int64, `"-9223372036854775808"`), property("Max64", storage.Int64, `"9223372036854775807"`),
		property("Min32", storage.Int32, `-2147483648`), property("Yes", storage.Boolean, `true`), property("No", storage.Boolean, `false`),
		property("When", storage.DateTime, `"2020-02-29T23:59:59.1234567Z"`), property("Guid", storage.GUID, `"c9da6455-213d-42c9-9a79-3e9149a57833"`),
		storage.BinaryProperty("Bytes", []byte{0, 1, 254, 255}), storage.BinaryProperty("NoBytes", nil),
		storage.StringProperty("Empty", ""), storage.StringProperty("Text", "\"\\\r\n\t<&>' é😀\u2028"), storage.StringProperty("Long", strings.Repeat("é", 32<<10)),
		property("äöü_1", storage.Int32, `1`),
	}
	rows := []storage.Entity{
		{Key: key.Key{Partition: "types", Row: "all"}, Properties: all},
		{Key: key.Key{Partition: "types", Row: "many"}, Properties: many},
		{Key: key.Key{Partition: "types", Row: "none"}},
		{Key: key.Key{Partition: "types", Row: "large"}, Properties: large},
	}
	for i := range 6 { // together they exceed the size of a transaction
		rows = append(rows, storage.Entity{Key: key.Key{Partition: "types", Row: fmt.Sprintf("larger-%d", i)}, Properties: large})
	}
	seen := map[key.Key]bool{}
	add := func(k key.Key, p []storage.Property) {
		if !seen[k] {
			seen[k] = true
			rows = append(rows, storage.Entity{Key: k, Properties: p})
		}
	}
	for _, pk := range oddKeys {
		for _, rk := range oddKeys {
			add(key.Key{Partition: pk, Row: rk}, all[:4])
		}
	}
	for r := rand.New(rand.NewPCG(1, 2)); len(rows) < n; {
		add(key.Key{Partition: word(r, 1+r.IntN(2)), Row: word(r, r.IntN(5))}, drawn(r))
	}
	return rows[:n]
}

func property(name string, t storage.Type, json string) storage.Property {
	return storage.Property{Name: name, Type: t, Value: jsontext.Value(json)}
}

// word returns a partition key or row key.
func word(r *rand.Rand, runes int) string {
	w, alphabet := make([]rune, runes), []rune("aA09 -_.~!'%&+;:=@$,()[]{}<>|\"^`éß\u00a0\u0301\u2028\ud7ff\ue000\ufffd😀𝄞")
	for i := range w {
		w[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(w)
}

// drawn returns up to ten random properties of any types.
func drawn(r *rand.Rand) (all []storage.Property) {
	for i := range r.IntN(11) {
		name := fmt.Sprintf("%c%d", 'A'+rune(r.IntN(20)), i)
		all = append(all, []storage.Property{
			storage.StringProperty(name, word(r, r.IntN(50))),
			property(name, storage.Int32, fmt.Sprint(int32(r.Uint32()))),
			storage.Int64Property(name, r.Int64()-r.Int64()),
			property(name, storage.Double, `"NaN"`),
			property(name, storage.Double, fmt.Sprintf("%.17E", (r.Float64()-0.5)*math.Pow(10, float64(r.IntN(600)-300)))),
			property(name, storage.Boolean, fmt.Sprint(r.IntN(2) == 0)),
			property(name, storage.DateTime, fmt.Sprintf(`"%04d-%02d-%02dT%02d:59:59.%07dZ"`, 1601+r.IntN(8000), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(1e7))),
			property(name, storage.GUID, fmt.Sprintf(`"%08x-0000-4000-8000-%012x"`, r.Uint32(), r.Uint32())),
			storage.BinaryProperty(name, []byte(word(r, r.IntN(20)))),
		}[r.IntN(9)])
	}
	return all
}
