package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/emulator"
	"tablesweep/internal/input/loopback"
)

// emulatorCommand serves the embedded storage.
func emulatorCommand() *cobra.Command {
	var options emulator.Options
	var tableAddr, queueAddr, blobAddr string
	var wellKnown bool
	return command("emulator", "Serve Table, Queue and Blob storage from memory", optionTable{
		{"table-addr", perRun, &tableAddr, "127.0.0.1:10002", "address of the Table service; port 0 takes a free one"},
		{"queue-addr", perRun, &queueAddr, "127.0.0.1:10001", "address of the Queue service; port 0 takes a free one"},
		{"blob-addr", perRun, &blobAddr, "127.0.0.1:10000", "address of the Blob service; port 0 takes a free one"},
		{"well-known-key", perRun, &wellKnown, nil, "keep the key that every emulator has, even if other machines can reach this one"},
		{"latency", perRun, &options.Latency, nil, "how long every request takes at least, such as 10ms"},
		{"faults", perRun, &options.Faults, nil, "what goes wrong, and how often"},
	}, func(r *call) error {
		if !wellKnown && !(loopback.Is(tableAddr) && loopback.Is(queueAddr) && loopback.Is(blobAddr)) {
			options.Key = emulator.NewKey()
		}
		e, err := emulator.New(options)
		if err != nil {
			return err
		}
		server, err := e.Serve(r.ctx, tableAddr, queueAddr, blobAddr)
		if err != nil {
			return err
		}
		fmt.Fprintln(r.Out, server.ConnectionString())
		<-r.ctx.Done()
		return server.Close()
	})
}
