package debian_test

import (
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/local/demo/debian"
	"tablesweep/internal/proof"
)

func TestPackages(t *testing.T) {
	packages, err := debian.Packages()
	proof.Must(t, err)
	partitions := map[string]bool{}
	for i, p := range packages {
		partitions[p.Source] = true
		if i > 0 && packages[i-1].Key().Compare(p.Key()) >= 0 {
			t.Errorf("%v comes before %v", packages[i-1].Key(), p.Key())
		}
	}
	if len(packages) != 63_666 || len(partitions) != 34_172 {
		t.Errorf("%d packages in %d partitions, want 63,666 in 34,172", len(packages), len(partitions))
	}
	if got, want := packages[0].Key(), (key.Key{Partition: "0ad", Row: "0ad_0.0.26-3_amd64"}); got != want {
		t.Errorf("the first package is %v, want %v", got, want)
	}
}
