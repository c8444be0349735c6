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
	c := command("emulator", "Serve Table, Queue and Blob storage from memory", func(c *cobra.Command) error {
		if !wellKnown && !(loopback.Is(tableAddr) && loopback.Is(queueAddr) && loopback.Is(blobAddr)) {
			options.Key = emulator.NewKey()
		}
		e, err := emulator.New(options)
		if err != nil {
			return err
		}
		server, err := e.Serve(c.Context(), tableAddr, queueAddr, blobAddr)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), server.ConnectionString())
		<-c.Context().Done()
		return server.Close()
	})
	flags := c.Flags()
	flags.StringVar(&tableAddr, "table-addr", "127.0.0.1:10002", "address of the Table service; port 0 takes a free one")
	flags.StringVar(&queueAddr, "queue-addr", "127.0.0.1:10001", "address of the Queue service; port 0 takes a free one")
	flags.StringVar(&blobAddr, "blob-addr", "127.0.0.1:10000", "address of the Blob service; port 0 takes a free one")
	flags.BoolVar(&wellKnown, "well-known-key", false, "keep the key that every emulator has, even if other machines can reach this one")
	flags.DurationVar(&options.Latency, "latency", 0, "how long every request takes at least, such as 10ms")
	flags.StringVar(&options.Faults, "faults", "", "what goes wrong, and how often")
	return c
}
