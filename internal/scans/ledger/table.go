package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// rows gives access to the ledger's table. Each error of a method names the purpose of the failed request.
type rows struct{ table *storage.Table }

func op[P ~string](kind storage.OpKind, partition P, row string, properties ...storage.Property) storage.Op {
	return storage.Op{Kind: kind, Row: storage.Entity{Key: key.Key{Partition: string(partition), Row: row}, Properties: properties}.Row()}
}

func (l rows) write(ctx context.Context, what string, ops ...storage.Op) error {
	return because(what, l.table.Write(ctx, ops...))
}

func (l rows) get(ctx context.Context, what, partition, row string) (storage.Entity, bool, error) {
	e, found, err := l.table.Get(ctx, key.Key{Partition: partition, Row: row})
	return e, found, because(what, err)
}

func (l rows) query(ctx context.Context, what string, q storage.Query) (storage.Page, error) {
	p, err := l.table.Query(ctx, q)
	return p, because(what, err)
}

func (l rows) pages(ctx context.Context, what string, q storage.Query) iter.Seq2[storage.Page, error] {
	return func(yield func(storage.Page, error) bool) {
		for {
			p, err := l.query(ctx, what, q)
			if !yield(p, err) || err != nil || p.Next == nil {
				return
			}
			q.Token = p.Next
		}
	}
}

// IsLedger reports whether a table is an app's ledger: whether it has a row of Maintain or a list of scans. It reports
// false if the table does not exist, or if the caller may not read it.
func IsLedger(ctx context.Context, table *storage.Table) (is bool, err error) {
	if table.Cosmos() { // a ledger is never in Cosmos DB
		return false, nil
	}
	lists := scansPartition
	for _, mark := range []struct {
		in  key.Range
		has func(storage.Row) bool
	}{
		{key.WithPrefix(maintainPartition, maintainRow), func(row storage.Row) bool {
			return slices.ContainsFunc(row.Entity().Properties, func(p storage.Property) bool { return p.Name == poisonName })
		}},
		{key.Range{Partition: &lists, Low: &key.Bound{Key: allPrefix}, High: key.PrefixEnd(endedPrefix)}, func(row storage.Row) bool {
			return strings.Index(row.Key.Row, "|") == 1
		}},
	} {
		if is || err != nil {
			break
		}
		err = table.All(ctx, storage.Query{Range: mark.in, Top: 1}, func(p storage.Page) error {
			if len(p.Rows) == 0 {
				return nil
			}
			is = mark.has(p.Rows[0])
			return errEnough
		})
		if err == errEnough || storage.Gone(err) || storage.Denied(err) {
			err = nil
		}
	}
	return is, because("check for an app's scans", err)
}

var errEnough = errors.New("one row is enough")

func because(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// overtaken reports whether a conditional write failed because the row had already changed. Either another process or
// the first try of this write changed the row.
func overtaken(err error) bool {
	return storage.NotFound(err) || storage.HasCode(err, "UpdateConditionNotSatisfied")
}

func unlessOvertaken(err error) error {
	if overtaken(err) {
		return nil
	}
	return err
}
