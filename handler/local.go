package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/host"
	"tablesweep/internal/storage"
)

type localOptions struct {
	storage, addr, root, keys string
	instances                 int
	verbose                   bool
}

func localCommand() *cobra.Command {
	c := command("local", "Run the function app here, in place of the Functions host", &localOptions{})
	c.Flags().Lookup("keys").NoOptDefVal = newKey
	return c
}

func (o *localOptions) options() []option {
	return []option{
		{"storage", perRun, &o.storage, embedded, "the app's storage: embedded, a connection, or a setting's name"},
		{"addr", perRun, &o.addr, "127.0.0.1:7071", "where to serve the app; port 0 means any free port"},
		{"instances", perRun, &o.instances, 1, "number of handler processes"},
		{"root", perRun, &o.root, ".", "the app's directory, which contains host.json"},
		{"keys", perRun, &o.keys, nil, "require a key from callers; --keys=KEY sets the key"},
		{"verbose", perRun, &o.verbose, nil, "log every invocation"},
	}
}

func (o *localOptions) run(r *call) error {
	if o.instances < 1 {
		return usagef("--instances must be at least 1")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, log := r.ctx, localLog(r.toErr, o.verbose)
	options := host.Options{Root: o.root, Executable: self, Addr: o.addr, Instances: o.instances, Key: localKey(o.keys), Log: log}
	if options.Settings, err = storageSettings(o.storage, os.Environ()); err != nil {
		return err
	}
	if o.storage == embedded {
		e, err := emulator.New(emulator.Options{})
		if err != nil {
			return err
		}
		// The storage must outlive ctx, because the host finishes its work on messages after ctx has ended.
		server, err := e.Serve(context.WithoutCancel(ctx), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		options.Settings = map[string]string{storage.HostConnection: server.ConnectionString()}
	}
	h, err := host.Start(ctx, options)
	if err != nil {
		return err
	}
	defer h.Close()
	if key := h.Key(); key != options.Key || o.keys == newKey {
		log.Info().Str("key", key).Msg("callers need this key")
	}
	fmt.Fprintln(r.Out, "ready", h.URL())
	if address := consoleOf(ctx, h.URL()); address != "" {
		fmt.Fprintln(r.Out, "console", address)
	}
	<-ctx.Done()
	return nil
}

func localLog(w io.Writer, verbose bool) zerolog.Logger {
	level := zerolog.InfoLevel
	if verbose {
		level = zerolog.DebugLevel
	}
	console := zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: true}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		console.NoColor = err != nil || info.Mode()&os.ModeCharDevice == 0
	}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}

// newKey is the value of --keys that creates a key.
const newKey = "new"

func localKey(flag string) string {
	if flag == newKey {
		return host.NewKey()
	}
	return flag
}

// embedded is the value of --storage that selects storage in this process.
const embedded = "embedded"

// storageSettings returns the settings by which an app finds its storage. The settings' names begin with AzureWebJobsStorage. The argument `text` is a
// connection, or the name of a setting in the environment. If text is "embedded" or "AzureWebJobsStorage", the result is nil.
func storageSettings(text string, environ []string) (map[string]string, error) {
	switch {
	case text == embedded, text == storage.HostConnection:
		return nil, nil
	case !job.IsSetting(text):
		return map[string]string{storage.HostConnection: text}, nil
	}
	found := map[string]string{}
	for _, e := range environ {
		key, v, _ := strings.Cut(e, "=")
		if rest, ok := strings.CutPrefix(key, text); ok && (rest == "" || strings.HasPrefix(rest, "__")) {
			found[storage.HostConnection+rest] = v
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--storage %s: the environment has no setting of this name; --storage must be %q, a connection, or the name of a setting", text, embedded)
	}
	return found, nil
}

// consoleOf returns the address of the console of the app at url, or "" if there is none.
func consoleOf(ctx context.Context, url string) string {
	address := url + "/api/console/"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // frees the connection for other requests
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return address
}
