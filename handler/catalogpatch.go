package main

import (
	"context"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
)

const catalogPatchHelp = `Find one record by index keys, and change its fields by a JSON merge patch: its fields
replace the record's, with their types; null removes a field, objects are merged. If index
values change, the new values find the record. Prints the changed record.

` + catalogConnectionHelp

const catalogPatchExamples = `  handler catalog patch eid=F314 '{"wage":41.5,"phone":null}'
  handler catalog patch email=faux@example.com '{"email":"f@example.com"}' --if-match '"17"'`

func catalogPatchCommand(f *catalogFlags) *cobra.Command {
	var s selection
	var on conditionFlag
	var withMeta bool
	c := withArgs("patch KEY=VALUE… PATCH", "Change fields of a record", catalogPatchHelp, catalogPatchExamples, func(c *cobra.Command, args []string) error {
		if len(args) < 2 {
			return usagef("give an index key and its value, such as eid=F314, and then the patch, such as '{\"wage\":41.5}'")
		}
		last := len(args) - 1
		q, err := s.query(args[:last])
		if err != nil {
			return err
		}
		return f.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
			done, err := cat.Patch(ctx, []byte(args[last]), q, on.condition())
			if err != nil {
				return asUsage(err)
			}
			out := lines.JSON(c.OutOrStdout())
			if withMeta {
				return out.Encode(map[string]any{"outcome": verbs[done.Outcome], "record": done.Record, "meta": done.Meta})
			}
			return out.Encode(done.Record)
		})
	})
	s.add(c)
	on.add(c, "")
	c.Flags().BoolVar(&withMeta, "json", false, "print an object with the record, its id and its ETag")
	return c
}
