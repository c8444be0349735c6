package catalog

import (
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/problem"
)

// maxRaces is how often a write is decided again after other writes have overtaken it.
const maxRaces = 50

// identityTaken refuses a write because another record has the identity.
func identityTaken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) exists with other contents; PUT replaces it", row)
}

// rowKeyTaken refuses a write because another record has the row key; see collision.
func rowKeyTaken(s index.Schema, cause error) error {
	return problem.Conflictf(s.Sort.Field, "the record was not written, because another record has its row key; change this value slightly in one of the two").Because(cause)
}

// unknownToLog refuses a write because only index rows contain the record.
func unknownToLog() error {
	return problem.Conflictf("", `the record is not in the catalog's log; "tablesweep catalog check" lists such rows, and "tablesweep catalog export" and "tablesweep catalog import" move them to another catalog`)
}

// tooManyRaces is the error of a call that other writers have overtaken maxRaces times.
func tooManyRaces() error {
	return problem.Busyf("", "others keep changing this record; try again")
}
