package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/emulator"
	"tablesweep/internal/input/loopback"
)

const emulatorHelp = `Serve Azure Table, Queue and Blob storage from memory, until interrupted.

Nothing is written to disk: all tables, queues and blobs are gone when the command
ends. The first line on stdout is the connection string. The account is
devstoreaccount1. On loopback addresses it has the key that every emulator has: at the usual ones,
UseDevelopmentStorage=true is a connection to it, and handler export --to blob:backups/orders works
at once. Requests count only if their Host is localhost, a loopback address, or the address
served, because every page in a browser knows that key. If other machines can reach one of
the addresses, the key is a new, random one; --well-known-key keeps the other.

--faults takes rules, separated by semicolons, for example

  seed=7; latency=2ms..20ms; short-page p=0.2; empty-page p=0.1;
  busy p=0.01 retry-after=1s; timeout-before p=0.01; timeout-after p=0.01;
  reset-before p=0.01; reset-after p=0.01; duplicate p=0.05; delay p=0.05 by=5s;
  html p=0.01; empty p=0.01; braces p=0.01; half p=0.01;
  account-rate=20000; partition-rate=2000; table-deletion=40s

Every rule can be narrowed by on=KIND,KIND table=NAME queue=NAME times=N.
The kinds are query point insert update merge delete batch tables, and put get
peek update-message delete-message clear queues, and put-blob get-blob
list-blobs delete-blob containers. -after means that the request is carried out
and only its answer is lost. html, empty and braces are
answers of 200 that are not the service's; half is the first half of its answer.

The table endpoint answers these without a signature, to this machine alone:

  GET, DELETE       /_emulator/counts   requests by kind; set them to zero
  GET, PUT, DELETE  /_emulator/faults   the spec and what fired; replace; remove`

// emulatorCommand serves the embedded storage.
func emulatorCommand() *cobra.Command {
	var options emulator.Options
	var tableAddr, queueAddr, blobAddr string
	var wellKnown bool
	c := command("emulator", "Serve Table, Queue and Blob storage from memory", emulatorHelp, "", func(c *cobra.Command) error {
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
	flags.StringVar(&options.Faults, "faults", "", "what goes wrong, and how often; see above")
	return c
}
