package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
)

// listing prints items, one a line: as JSON, or in columns.
type listing struct {
	json    *json.Encoder // nil for columns
	columns *tabwriter.Writer
}

func newListing(c *cobra.Command, asJSON bool) listing {
	l := listing{columns: tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)}
	if asJSON {
		l.json = lines.JSON(c.OutOrStdout())
	}
	return l
}

// add prints an item: v as JSON, or else the columns.
func (l listing) add(v any, columns ...string) error {
	if l.json != nil {
		return l.json.Encode(v)
	}
	for i := range columns {
		columns[i] = lines.Plain(strings.ReplaceAll(columns[i], "\n", "; "))
	}
	_, err := fmt.Fprintln(l.columns, strings.Join(columns, "\t"))
	return err
}

// end aligns the columns. Items of a single column are printed as they come.
func (l listing) end() error { return l.columns.Flush() }
