package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/job"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

// TestInterruptedCommands checks that an interrupt is reported as one, whatever request it ends. Keys are read one row at a time, so the answer under way
// must not be the last.
func TestInterruptedCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args  string
		at    []fault.Kind // the interrupt comes with the first request of these kinds
		table string       // the table of that request
		want  string       // expected in the error
	}{
		{"log tail orders", []fault.Kind{fault.Point, fault.Query}, logtail.DefaultTable, "^interrupted: "},
		{"catalog query eid=1", []fault.Kind{fault.Query}, "People", "^interrupted: "},
		{"catalog delete eid=1 --yes", []fault.Kind{fault.Update, fault.Merge, fault.Batch}, "People", `^interrupted: of (1 record|([2-9]|[1-9]\d+) records) found, `},
		{"keys --table People", []fault.Kind{fault.Query}, "People", "^interrupted"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ready := make(chan struct{})
			_, _, connection := serveEmulator(t, emulator.Options{Faults: "short-page p=1 rows=1 table=People", OnRequest: func(e emulator.Event) {
				select {
				case <-ready:
					if e.Table == test.table && slices.Contains(test.at, e.Kind) {
						interrupt()
						<-ctx.Done()
					}
				default:
				}
			}})
			run := func(ctx context.Context, args ...string) error {
				if args[0] == "catalog" {
					args = append(args, "--table", "People", "--index-keys", "eid", "--row-key", "at")
				}
				_, err := user(ctx, nil, append(args, "--connection", connection)...)
				return err
			}
			proof.Must(t, run(t.Context(), "catalog", "insert", `{"eid":"1","at":"a"}`, `{"eid":"1","at":"b"}`))
			close(ready)
			err := run(ctx, strings.Fields(test.args)...)
			if exitCode(err) != exitInterrupted || !regexp.MustCompile(test.want).MatchString(fmt.Sprint(err)) {
				t.Errorf("got %v with exit code %d, want %s with %d", err, exitCode(err), test.want, exitInterrupted)
			}
		})
	}
}

// TestInterruptedAppendFinishes checks that, in spite of an interrupt, events that were read or whose request is under way are appended, each once.
func TestInterruptedAppendFinishes(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	_, a := emulatortest.NewAccount(t, emulator.Options{OnRequest: func(e emulator.Event) {
		if e.Kind == fault.Batch || e.Kind == fault.Insert {
			began <- struct{}{}
			<-goOn
		}
	}})
	streams := logtail.New(logtail.Options{Table: a.Table("log")})
	proof.Must(t, streams.Prepare(t.Context()))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out strings.Builder
	r := &call{ctx: ctx, Process: job.Process{Out: &out}}
	input, user := io.Pipe()
	defer user.Close()
	ended := make(chan error, 1)
	go func() { ended <- (&appender{call: r, streams: streams, stream: "s"}).appendLines(input) }()
	write := func(text string) {
		if _, err := io.WriteString(user, text); err != nil {
			t.Error(err)
		}
	}
	write("{\"n\":1}\n")
	<-began
	write("{\"n\":2}\n{\"n\":3}\n")
	write("\n") // when this is accepted, the other lines have been read
	interrupt()
	close(goOn)
	err := <-ended
	if exitCode(err) != exitInterrupted || hintFor(err) != "already appended: 3 events; when you try again, append only the other events" {
		t.Errorf("got %v with exit code %d and hint %q, want an interrupt after 3 events", err, exitCode(err), hintFor(err))
	}
	var events []logtail.Event
	_, err = streams.Read(t.Context(), "s", logtail.EventQuery{Top: 10}, func(e logtail.Event) bool {
		events = append(events, e)
		return true
	})
	proof.Must(t, err)
	var ids strings.Builder
	for _, e := range slices.Backward(events) {
		fmt.Fprintln(&ids, e.ID)
	}
	if len(events) != 3 || out.String() != ids.String() {
		t.Errorf("the command printed these ids:\n%sand the stream has these:\n%s", &out, &ids)
	}
}

// An interrupt ends the question whether to delete.
func TestReadAnswer(t *testing.T) {
	t.Parallel()
	answer, err := readAnswer(t.Context(), strings.NewReader(" People\r\nmore"))
	if err != nil || answer != "People" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	if _, err := readAnswer(t.Context(), strings.NewReader("People")); !errors.Is(err, io.EOF) {
		t.Errorf("got %v for a line without an end, want an error", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	nobody, user := io.Pipe()
	defer user.Close()
	interrupt()
	if _, err := readAnswer(ctx, nobody); !errors.Is(err, task.ErrInterrupted) {
		t.Errorf("got %v, want an interrupt", err)
	}
}
