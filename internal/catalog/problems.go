package catalog

import (
	"tablesweep/internal/problem"
)

// taken: another record has the identity.
func (c *Catalog) taken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) exists with other contents; PUT replaces it", row)
}

// inTheWay: another record has the row key, see collision.
func (c *Catalog) inTheWay(cause error) error {
	return problem.Conflictf(c.Schema.Sort.Field, "another record is in the way, and the record was not written; change this value a little in one of the two").Because(cause)
}

// unknown: only index rows know the record.
func (c *Catalog) unknown() error {
	return problem.Conflictf("", "the catalog's log does not know the record; enter it with: handler catalog check --repair")
}

// busy: the write was overtaken maxRaces times.
func (c *Catalog) busy() error {
	return problem.Busyf("", "others keep changing this record; try again")
}

// Finding is one thing that is wrong with a catalog.
type Finding struct {
	Partition string `json:"partition"`
	Row       string `json:"row"`
	Problem   string `json:"problem"`
	Repaired  bool   `json:"repaired"`
}
