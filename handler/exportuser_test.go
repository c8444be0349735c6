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

// user runs a command as a user does, in this process, and returns what it says.
func user(ctx context.Context, in io.Reader, args ...string) (said string, err error) {
	out, told, err := inProcess(ctx, in, args...)
	return told + out, err
}

// inProcess runs a command in this process.
func inProcess(ctx context.Context, in io.Reader, args ...string) (stdout, stderr string, err error) {
	var out, told bytes.Buffer
	c := rootCommand()
	c.SetArgs(args)
	c.SetIn(in)
	c.SetOut(&out)
	c.SetErr(&told)
	err = execute(ctx, c)
	return out.String(), told.String(), err
}

// An import from stdin ends with an interrupt even while its producer says nothing.
func TestInterruptedImportOfSilence(t *testing.T) {
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
		t.Errorf("got %v, hint %q", err, hintFor(err))
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// What a scan of the app has begun is not finished by a command.
func TestBegunByTheApp(t *testing.T) {
	t.Parallel()
	dir := place.Directory(filepath.Join(t.TempDir(), "orders"))
	claim := place.NewClaim("0123-ab", []byte(`{"source":{"table":"orders"},"action":{"type":"copy"}}`), time.Now(), "tablesweep")
	proof.Must(t, place.PutClaim(t.Context(), dir, claim))
	_, err := user(t.Context(), nil, "count", "--table", string(dir))
	if hint := hintFor(err); exitCode(err) != exitUsage || !strings.Contains(hint, "POST /api/scans/0123-ab/retry") || strings.Contains(hint, "--resume") {
		t.Errorf("got %v, hint %q", err, hint)
	}
}

// An export that ends before it has made its checkpoint does not say that it can be resumed.
func TestNothingToResume(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(1, 3))
	checkpoint := filepath.Join(t.TempDir(), "orders.ckpt")
	wrong := "DefaultEndpointsProtocol=http;AccountName=other;AccountKey=c2VjcmV0" + connection[strings.Index(connection, ";TableEndpoint"):]
	_, err := user(t.Context(), nil, "export", "--from", "source", "--from-connection", connection,
		"--to", "blob:backups/orders", "--to-connection", wrong, "--checkpoint", checkpoint)
	if _, statErr := os.Stat(checkpoint); err == nil || statErr == nil || !errors.Is(statErr, os.ErrNotExist) {
		t.Fatalf("got %v, %v", err, statErr)
	}
	if hint := hintFor(err); strings.Contains(hint, "--resume") || hint == "" {
		t.Errorf("%v: hint %q", err, hint)
	}
}

// An export that is under way is named by what to do, not by a flag that was not given.
func TestExportUnderWay(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(1, 3))
	dir := t.TempDir()
	lock, err := journal.Lock(filepath.Join(dir, place.JournalName))
	proof.Must(t, err)
	defer lock.Close()
	said, err := user(t.Context(), nil, "export", "--from", "source", "--to", dir, "--from-connection", connection)
	if exitCode(err) != exitUsage || strings.Contains(err.Error(), "--resume") || !strings.Contains(hintFor(err), "wait until it has ended") {
		t.Errorf("%v, hint %q\n%s", err, hintFor(err), said)
	}
}

// A URL in the place of a file's name is a mistake whose message has no signature, and a connection string or a key in the place of any
// name one without it.
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
		said, err := user(t.Context(), nil, flags...)
		var reported bytes.Buffer
		report(progress.New(&reported), err)
		if said += reported.String(); err == nil || strings.Contains(said, "SECRET") {
			t.Errorf("%v: %s", flags, said)
		}
	}
}
