// Command handler is Tablesweep: without arguments, an Azure Functions custom handler, and with arguments, a
// command-line tool with the same engine.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/app/server"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/task"
)

func main() {
	errOut := lines.NewPlainWriter(os.Stderr)
	log.SetOutput(withoutAnswers{errOut})
	first, second := interrupts()
	meter := progress.New(os.Stderr)
	context.AfterFunc(first, meter.Interrupt)
	context.AfterFunc(second, func() {
		time.Sleep(lastWords) // lets the command end by itself
		meter.End()
		report(meter, task.ErrInterrupted)
		os.Exit(exitInterrupted)
	})
	root := rootCommand()
	root.SetErr(errOut)
	if progress.IsTerminal(os.Stdout) { // a terminal gets no control characters, but a file or another program gets every byte
		root.SetOut(lines.NewPlainWriter(os.Stdout))
	}
	os.Exit(run(first, root, shared{meter: meter, second: second}))
}

// run runs the command, reports its error, and returns the exit code.
func run(ctx context.Context, root *cobra.Command, s shared) int {
	err := execute(withShared(ctx, s), root)
	s.meter.End()
	var again server.Restart
	if err != nil && !(errors.As(err, &again) && again.Cause == nil) {
		report(s.meter, err)
	}
	return exitCode(err)
}

// withoutAnswers drops the lines that net/http logs when it receives an answer that belongs to no request. Such a line may contain rows.
type withoutAnswers struct{ io.Writer }

// Write implements [io.Writer].
func (w withoutAnswers) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

const (
	// forwarded is the time within which a second interrupt counts as a repetition of the first one. A wrapper program may forward an interrupt that
	// this process has also received directly.
	forwarded = 200 * time.Millisecond
	// lastWords is the longest time that a command may take to end after the second interrupt.
	lastWords = 700 * time.Millisecond
)

// interrupts returns two contexts. The first signal ends the first context, and commands finish the work under way. The second signal ends the second
// context, and commands end immediately.
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

// shared holds the values that all commands share: the output on stderr, and the context that ends with the second interrupt.
type shared struct {
	meter     *progress.Meter
	second    context.Context
	fileBytes int // the size of an export's files, measured as JSON; 0 for the default
}

type sharedKey struct{}

func withShared(ctx context.Context, t shared) context.Context {
	return context.WithValue(ctx, sharedKey{}, t)
}

// sharedBy returns the shared values. In a test without shared values, sharedBy returns new ones.
func sharedBy(c *cobra.Command) shared {
	if t, ok := c.Context().Value(sharedKey{}).(shared); ok {
		return t
	}
	return shared{meter: progress.New(c.ErrOrStderr()), second: context.Background()}
}

// execute runs the command. If the command fails after ctx has ended, execute returns the error of an interrupt.
func execute(ctx context.Context, c *cobra.Command) error {
	err := c.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		return interrupted(err)
	}
	return err
}

// interrupted returns the error of an interrupted command. The result keeps the part of err that says what the command was doing.
func interrupted(err error) error {
	reason, canceled := strings.CutSuffix(err.Error(), context.Canceled.Error())
	switch {
	case errors.Is(err, task.ErrInterrupted):
		return err
	case !canceled || errors.As(err, new(job.Hinted)):
		return fmt.Errorf("%w: %w", task.ErrInterrupted, err)
	case reason == "":
		return task.ErrInterrupted
	}
	return fmt.Errorf("%w: %s", task.ErrInterrupted, strings.TrimSuffix(reason, ": "))
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tablesweep",
		Short:         "Process every row of an Azure Storage table",
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       thisBuild().String(),
	}
	licenses := root.Flags().Bool("licenses", false, "print the licences of the program and of all linked libraries")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *licenses {
			return printLicenses(c.OutOrStdout())
		}
		if server.Port(environment()) == "" { // no Functions host started this process
			return c.Help()
		}
		return server.Serve(c.Context(), environment(), os.Stdout, os.Stderr)
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = printHelp(c, false) })
	root.SetHelpCommand(helpCommand())
	addGlobals(root)
	root.AddCommand(
		scanCommand(),
		copyPlaces("copy FROM TO", "Copy a table, within an account or to another"),
		copyPlaces("export TABLE PLACE", "Write a table to files, as a backup", "mode", "failed", "rows", "dry-run", "types"),
		copyPlaces("import PLACE TABLE", "Write files of rows to a table", "compress", "with-timestamp", "since", "since-overlap", "state"),
		command("verify FROM TO", "Compare two tables, or exports, row by row", &verifyOptions{}),
		command("sync FROM TO", "Make a table equal to another, or to an export", &syncOptions{}),
		command("count PLACE", "Count the rows of a table", &countOptions{}),
		command("keys PLACE", "List the partition keys of a table", &keysOptions{}),
		command("enqueue PLACE", "Put a message into a queue for every row", &enqueueOptions{}),
		command("delete TABLE", "Delete rows by range and filter", &deleteOptions{}),
		tablesCommand(), scansCommand(), catalogCommand(), logCommand(),
		localCommand(),
		command("doctor", "Check the setup and report problems", &doctorOptions{}),
		command("emulator", "Serve Table, Queue and Blob storage from memory", &emulatorOptions{}),
		command("demo", "Copy real rows through the function app, on this machine alone", &demoOptions{}),
		command("version", "Print the program's version", &versionOptions{}),
		manCommand())
	addHelp(root)
	onlyOnce(root)
	return root
}
