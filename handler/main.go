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

	"tablesweep/internal/function/server"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

func main() {
	first, second := interrupts()
	meter := progress.New(os.Stderr)
	context.AfterFunc(second, func() {
		time.Sleep(lastWords) // for what ends by itself
		meter.End()
		report(meter, sweep.ErrInterrupted)
		os.Exit(exitInterrupted)
	})
	err := execute(withShared(first, shared{meter, second}), rootCommand())
	meter.End()
	var again server.Restart
	if err != nil && !(errors.As(err, &again) && again.Cause == nil) {
		report(meter, err)
	}
	os.Exit(exitCode(err))
}

const (
	// forwarded is how long after an interrupt another one may be the same: wrappers
	// forward those that we have got already.
	forwarded = 200 * time.Millisecond
	// lastWords is how long a command may take to end after the second interrupt.
	lastWords = 700 * time.Millisecond
)

// interrupts returns contexts that signals end. After the first one, commands finish the work under way
// and end; the second one ends them at once.
func interrupts() (first, second context.Context) {
	first, begin := context.WithCancel(context.Background())
	second, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		at := time.Now()
		begin()
		for range signals {
			if time.Since(at) >= forwarded {
				end()
			}
		}
	}()
	return first, second
}

// shared is what all commands share: their output on stderr, and the interrupt that ends
// them at once.
type shared struct {
	meter  *progress.Meter
	second context.Context
}

type sharedKey struct{}

func withShared(ctx context.Context, t shared) context.Context {
	return context.WithValue(ctx, sharedKey{}, t)
}

// sharedBy returns what the command shares with others; in tests, a new one.
func sharedBy(c *cobra.Command) shared {
	if t, ok := c.Context().Value(sharedKey{}).(shared); ok {
		return t
	}
	return shared{progress.New(c.ErrOrStderr()), context.Background()}
}

// sweepOptions are the options of every sweep of a command.
func sweepOptions(c *cobra.Command, workers int) sweep.Options {
	t := sharedBy(c)
	return sweep.Options{Workers: workers, Watch: t.meter.Show, Abort: t.second.Done()}
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
			return server.Serve(cmd.Context(), os.Getenv, os.Stdout, os.Stderr)
		},
	}
	root.SetFlagErrorFunc(badFlag)
	addPprof(root)
	root.AddCommand(scanCommand(), copyCommand(), verifyCommand(), countCommand(), keysCommand(), enqueueCommand(), deleteCommand(),
		tablesCommand(), scansCommand(), catalogCommand(), logCommand(),
		localCommand(), emulatorCommand(), demoCommand(), versionCommand(), manCommand())
	return root
}
