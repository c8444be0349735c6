package catalog

import (
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/problem"
)

// maxRaces is the maximum number of tries of a call. A call is tried again if another writer was faster.
const maxRaces = 50

func identityTaken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) exists with other contents; PUT replaces it", row)
}

func rowKeyTaken(s index.Schema, cause error) error {
	return problem.Conflictf(s.Sort.Field, "the record was not written, because another record has the same row key; change the field %s slightly in one of the two records", s.Sort.Field).Because(cause)
}

func unknownToLog() error {
	return problem.Conflictf("", `the record cannot be changed or deleted, because it is not in the catalog's log; to list all such records, run "tablesweep catalog check"; to change them, first move them to another catalog: run "tablesweep catalog export", then "tablesweep catalog import"`)
}

func tooManyRaces() error {
	return problem.Busyf("", "other writers keep changing this record; try again")
}
