// Command handler is Tablesweep: without an argument an Azure Functions custom
// handler, with one the command line tool of the same engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/sweep"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { // a second Ctrl-C ends the program at once
		time.Sleep(time.Second) // but not one that a wrapper forwards, which we have got already
		stop()
	})
	err := execute(ctx, rootCommand())
	stop()
	var again restart
	if err != nil && !(errors.As(err, &again) && again.cause == nil) {
		report(os.Stderr, err)
	}
	os.Exit(exitCode(err))
}

// execute runs the command. An error after ctx has ended is an interrupt.
func execute(ctx context.Context, c *cobra.Command) error {
	err := c.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, sweep.ErrInterrupted) {
		return fmt.Errorf("%w: %w", sweep.ErrInterrupted, err)
	}
	return err
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "handler",
		Short: "Work over every row of an Azure Storage table",
		Long: `Tablesweep works over every row of a huge Azure Storage table.

Without a command this is an Azure Functions custom handler, which the
Functions host starts.

` + exitHelp,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), os.Getenv)
		},
	}
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(scanCommand(), copyCommand(), verifyCommand(), countCommand(), keysCommand(), enqueueCommand(), deleteCommand(),
		catalogCommand(), logCommand(),
		localCommand(), emulatorCommand(), demoCommand(), benchCommand(), versionCommand(), manCommand())
	return root
}
