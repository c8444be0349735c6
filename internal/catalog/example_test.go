package catalog_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/record"
)

// A query by any identifier finds the record. If an identifier changes, the record moves.
func Example() {
	ctx := context.Background()
	account := emulatortest.Example()
	schema, err := index.Parse("eid,email", "lastname")
	must(err)
	people := catalog.New(catalog.Options{Name: "people", Index: account.Table("People"), Log: account.Table("PeopleWAL"), Schema: schema})
	defer people.Close()
	must(people.Prepare(ctx))

	ann, err := record.Parse([]byte(`{"eid":"F314","email":"ann@x","lastname":"Faux"}`))
	must(err)
	_, err = people.Insert(ctx, ann, "")
	must(err)
	byEmail := func(email string) catalog.Lookup { return catalog.Lookup{Keys: map[string]string{"email": email}} }
	written, err := people.Patch(ctx, []byte(`{"email":"ann@y"}`), byEmail("ann@x"), catalog.Condition{})
	must(err)
	fmt.Println(written.Outcome, string(written.Record.AppendJSON(nil)))

	for _, email := range []string{"ann@x", "ann@y"} {
		found, err := people.Find(ctx, byEmail(email))
		must(err)
		fmt.Println(email, len(slices.Collect(found.Records())))
	}
	// Output:
	// replaced {"eid":"F314","email":"ann@y","lastname":"Faux"}
	// ann@x 0
	// ann@y 1
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
