package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// user runs a command as a user does, in this process, and returns the output of stderr and stdout.
func user(ctx context.Context, in io.Reader, args ...string) (output string, err error) {
	out, errText, err := inProcess(ctx, in, args...)
	return errText + out, err
}

// inProcess runs a command in this process.
func inProcess(ctx context.Context, in io.Reader, args ...string) (stdout, stderr string, err error) {
	var out, errText bytes.Buffer
	c := rootCommand()
	c.SetArgs(args)
	c.SetIn(in)
	c.SetOut(&out)
	c.SetErr(&errText)
	err = execute(ctx, c)
	return out.String(), errText.String(), err
}

// TestImportFromSilentStdinIsInterrupted: an interrupt ends an import from stdin although no input arrives.
func TestImportFromSilentStdinIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	_, _, connection := serveEmulator(t, emulator.Options{})
	end := make(chan struct{})
	defer close(end)
	silent := reader(func([]byte) (int, error) {
		interrupt()
		<-end
		return 0, io.EOF
	})
	_, err := user(ctx, silent, "import", "--from", "-", "--to", "orders", "--to-connection", connection)
	if exitCode(err) != exitInterrupted || strings.Contains(hintFor(err), "--checkpoint") || !strings.Contains(hintFor(err), "again") {
		t.Errorf("got error %v and hint %q, want an interrupt without a checkpoint", err, hintFor(err))
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// TestCommandDoesNotFinishAppExport: a command does not finish an export that a scan of the app has begun.
func TestCommandDoesNotFinishAppExport(t *testing.T) {
	t.Parallel()
	dir := place.Directory(filepath.Join(t.TempDir(), "orders"))
	claim := place.NewClaim("0123-ab", []byte(`{"source":{"table":"orders"},"action":{"type":"copy"}}`), time.Now(), "tablesweep")
	proof.Must(t, place.PutClaim(t.Context(), dir, claim))
	_, err := user(t.Context(), nil, "count", "--table", string(dir))
	if hint := hintFor(err); exitCode(err) != exitUsage || !strings.Contains(hint, "POST /api/scans/0123-ab/retry") || strings.Contains(hint, "--resume") {
		t.Errorf("got error %v and hint %q, want the retry of the scan in the hint", err, hint)
	}
}

// TestExportWithoutCheckpointHasNoResumeHint: an export that ends before it has created its checkpoint does not print that it can be resumed.
func TestExportWithoutCheckpointHasNoResumeHint(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(1, 3))
	checkpoint := filepath.Join(t.TempDir(), "orders.ckpt")
	wrong := "DefaultEndpointsProtocol=http;AccountName=other;AccountKey=c2VjcmV0" + connection[strings.Index(connection, ";TableEndpoint"):]
	_, err := user(t.Context(), nil, "export", "--from", "source", "--from-connection", connection,
		"--to", "blob:backups/orders", "--to-connection", wrong, "--checkpoint", checkpoint)
	if _, statErr := os.Stat(checkpoint); err == nil || statErr == nil || !errors.Is(statErr, os.ErrNotExist) {
		t.Fatalf("got error %v, and for the checkpoint %v; want errors, and no checkpoint", err, statErr)
	}
	if hint := hintFor(err); strings.Contains(hint, "--resume") || hint == "" {
		t.Errorf("error %v: got the hint %q, want one without --resume", err, hint)
	}
}

// TestExportUnderWayIsRefused: the error about an export that another process is writing says what to do, and names no flag that was not given.
func TestExportUnderWayIsRefused(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(1, 3))
	dir := t.TempDir()
	lock, err := journal.Lock(filepath.Join(dir, place.JournalName))
	proof.Must(t, err)
	defer lock.Close()
	output, err := user(t.Context(), nil, "export", "--from", "source", "--to", dir, "--from-connection", connection)
	if exitCode(err) != exitUsage || strings.Contains(err.Error(), "--resume") || !strings.Contains(hintFor(err), "wait until the other process has ended") {
		t.Errorf("got error %v, hint %q, output:\n%s", err, hintFor(err), output)
	}
}

// TestErrorsHaveNoSecret: a URL in the place of a file's name is refused without its signature. A connection string or a key in the place of any name is
// refused without its key.
func TestErrorsHaveNoSecret(t *testing.T) {
	t.Parallel()
	const (
		url  = "https://acme.blob.core.windows.net/backups/orders?sv=1&sig=SECRET%2Fx&se=2"
		key  = "SECRET/abcdefghijklmnopqrstuvwxyz+0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop=="
		long = "SECRETabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + key + ";EndpointSuffix=core.windows.net"
	)
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(1, 3))
	for _, flags := range [][]string{
		{"export", "--from", "orders", "--to", "./orders", "--state", url, "--since", "last"},
		{"copy", "--from", "orders", "--to", "copied", "--rows", url},
		{"copy", "--from", "orders", "--to", "copied", "--failed", url},
		{"copy", "--from", "orders", "--to", "copied", "--checkpoint", url},
		{"copy", "--resume", url[len("https://"):]},
		{"enqueue", "--table", "orders", "--queue", url},
		{"export", "--from", "orders", "--to", "?sv=1&sig=SECRET"},
		{"count", "--table", text}, {"count", "--table", key}, {"count", "--table", long}, {"count", "--tables", text, "--all"}, {"count", "--table", "orders", "--filter", text},
		{"count", "--connection", long, "--table", "orders"}, {"count", "--connection", key, "--table", "orders"},
		{"copy", "--from", text, "--to", "copied"}, {"copy", "--from", "orders", "--to", key}, {"copy", "--from", "orders", "--to", "copied", "--mode", text},
		{"enqueue", "--table", "orders", "--queue", text}, {"enqueue", "--table", "orders", "--queue", key}, {"enqueue", "--table", "orders", "--queue", long},
		{"enqueue", "--table", "orders", "--queue", "work", "--message", text}, {"export", "--from", "orders", "--to", "blob:backups/" + text}, {"export", "--from", "orders", "--to", "blob:" + key},
		{"tables", "create", text}, {"tables", "delete", key, "--yes"}, {"scan", "--table", "orders", "--strategy", text}, {"log", "tail", text}, {text}, {"count", text},
	} {
		name := "--from-connection"
		if !slices.Contains([]string{"copy", "export"}, flags[0]) {
			name = "--connection"
		}
		if !slices.Contains(flags, name) {
			flags = append(flags, name, connection)
		}
		output, err := user(t.Context(), nil, flags...)
		var reported bytes.Buffer
		report(progress.New(&reported), err)
		if output += reported.String(); err == nil || strings.Contains(output, "SECRET") {
			t.Errorf("%v: the output has a secret: %s", flags, output)
		}
	}
}
