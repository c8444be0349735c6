package scans

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

const maxNames = 1000

// Names is a map from a kind (connections, tables or queues) to the names of that kind.
type Names map[string][]string

// Connections returns the sorted names of the connections that a request may use.
func (ss *Scans) Connections(context.Context, string) (Names, error) {
	return Names{"connections": slices.Sorted(maps.Keys(ss.Options.Accounts))}, nil
}

// TableNames returns the names of a connection's first 1,000 tables. Without permission to list tables, it
// returns none.
func (ss *Scans) TableNames(ctx context.Context, connection string) (Names, error) {
	return ss.names(ctx, "tables", connection, (*storage.Account).TableNames)
}

// QueueNames returns the names of a connection's first 1,000 queues. It returns none if the account has no queues or
// does not permit listing.
func (ss *Scans) QueueNames(ctx context.Context, connection string) (Names, error) {
	return ss.names(ctx, "queues", connection, (*storage.Account).QueueNames)
}

func (ss *Scans) names(ctx context.Context, of, connection string, each func(*storage.Account, context.Context, func(string) error) error) (Names, error) {
	a, ok := ss.Options.Accounts[connection]
	if !ok {
		return nil, problem.NotFoundf("connection", "%s is not among the app's connections", secret.Name(connection))
	}
	ctx, cancel := context.WithTimeout(ctx, StartTime)
	defer cancel()
	names := []string{}
	err := each(a, ctx, func(name string) error {
		if names = append(names, name); len(names) == maxNames {
			return errEnoughNames
		}
		return nil
	})
	if errors.Is(err, errEnoughNames) || storage.Denied(err) || errors.Is(err, storage.ErrNoQueues) {
		err = nil
	}
	return Names{of: names}, err
}

var errEnoughNames = errors.New("enough")
