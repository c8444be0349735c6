package catalog

import (
	"tablesweep/internal/problem"
)

func (c *Catalog) taken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) is there with other contents: PUT replaces it", row)
}

func (c *Catalog) inTheWay(cause error) error {
	return problem.Conflictf(c.Schema.Sort.Field, "the record was not written: change this value a little, or that of the record in its way").Because(cause)
}

func (c *Catalog) unknown() error {
	return problem.Conflictf("", "the catalog's log does not know the record: enter it there by: handler catalog check --repair")
}

func (c *Catalog) busy() error {
	return problem.Busyf("", "others keep changing this record; try again")
}
