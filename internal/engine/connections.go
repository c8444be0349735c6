package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// maxNames is the most tables or queues that are listed of a connection.
const maxNames = 1000

// Connections lists the names of the settings that a request may name.
type Connections struct {
	Connections []string `json:"connections"`
}

// TableNames lists tables of a connection.
type TableNames struct {
	Tables []string `json:"tables"`
}

// QueueNames lists queues of a connection.
type QueueNames struct {
	Queues []string `json:"queues"`
}

// Connections returns the app's connections, in order.
func (e *Engine) Connections() Connections {
	return Connections{slices.Sorted(maps.Keys(e.options.Accounts))}
}

// TableNames returns the first tables of a connection; none if it may not list them.
func (e *Engine) TableNames(ctx context.Context, connection string) (TableNames, error) {
	names, err := e.names(ctx, connection, (*storage.Account).TableNames)
	return TableNames{names}, err
}

// QueueNames returns the first queues of a connection; none if it may not list them, or has no queues.
func (e *Engine) QueueNames(ctx context.Context, connection string) (QueueNames, error) {
	names, err := e.names(ctx, connection, (*storage.Account).QueueNames)
	return QueueNames{names}, err
}

func (e *Engine) names(ctx context.Context, connection string, each func(*storage.Account, context.Context, func(string) error) error) ([]string, error) {
	a, ok := e.options.Accounts[connection]
	if !ok {
		return nil, problem.NotFoundf("connection", "%s is not among the app's connections", secret.Name(connection))
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
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
	return names, err
}

// errEnoughNames ends a listing early.
var errEnoughNames = errors.New("enough")
