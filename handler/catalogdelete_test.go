package main

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
)

// TestCatalogDeleteRepeats checks that the command repeats a deletion that ends early on slow storage, until all records are deleted. The command shows its
// progress.
func TestCatalogDeleteRepeats(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em, a := emulatortest.NewAccount(t, emulator.Options{})
		schema, err := index.Parse("eid,npi", "lastname")
		proof.Must(t, err)
		cat := catalog.New(catalog.Options{Index: a.Table("People"), Log: a.Table("PeopleWAL"), Schema: schema})
		defer cat.Close()
		proof.Must(t, cat.Prepare(t.Context()))
		const n = 420 // at most 96 concurrently, four times within the time limit
		var all []record.Record
		for i := range n {
			r, err := record.Parse(fmt.Appendf(nil, `{"eid":"%d","npi":"7","lastname":"A"}`, i))
			proof.Must(t, err)
			all = append(all, r)
		}
		cat.InsertAll(t.Context(), record.Decoded(all), nil)
		proof.Must(t, em.SetFaults("latency=9s"))
		var out bytes.Buffer
		var o catalogDeleteOptions
		deleted, err := o.deleteAll(t.Context(), progress.New(&out), cat, catalog.Lookup{Keys: map[string]string{"npi": "7"}})
		if deleted != n || err != nil {
			t.Errorf("%d deleted, %v; want %d", deleted, err, n)
		}
		if !regexp.MustCompile(`(?s)^deleting 1 record, .*\ndeleting (38[5-9]|39.|4..) records, `).Match(out.Bytes()) {
			t.Errorf("the progress shown is %s", &out)
		}
	})
}
