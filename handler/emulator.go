package main

import (
	"fmt"

	"tablesweep/internal/input/loopback"
	"tablesweep/internal/local/emulator"
)

type emulatorOptions struct {
	emulator.Options
	table, queue, blob string
	wellKnown          bool
}

func (o *emulatorOptions) options() []option {
	return []option{
		{"table-addr", perRun, &o.table, "127.0.0.1:10002", "address of the Table service; port 0 means any free port"},
		{"queue-addr", perRun, &o.queue, "127.0.0.1:10001", "address of the Queue service; port 0 means any free port"},
		{"blob-addr", perRun, &o.blob, "127.0.0.1:10000", "address of the Blob service; port 0 means any free port"},
		{"well-known-key", perRun, &o.wellKnown, nil, "use the well-known key of all emulators, even if other machines can reach this emulator"},
		{"latency", perRun, &o.Latency, nil, "minimum duration of each request, such as 10ms"},
		{"faults", perRun, &o.Faults, nil, "faults to inject, such as \"busy p=0.01\""},
	}
}

func (o *emulatorOptions) run(r *call) error {
	if !o.wellKnown && !(loopback.Is(o.table) && loopback.Is(o.queue) && loopback.Is(o.blob)) {
		o.Key = emulator.NewKey()
	}
	e, err := emulator.New(o.Options)
	if err != nil {
		return err
	}
	server, err := e.Serve(r.ctx, o.table, o.queue, o.blob)
	if err != nil {
		return err
	}
	fmt.Fprintln(r.Out, server.ConnectionString())
	<-r.ctx.Done()
	return server.Close()
}
