package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// TestEmulatorNeedsNewKeyOnTheNetwork: if other machines can reach the emulator, callers need a key that only its first line of output shows.
func TestEmulatorNeedsNewKeyOnTheNetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tables, queues, blobs, flag string
		wellKnown                         bool
	}{
		{"loopback", "127.0.0.1:0", "localhost:0", "127.0.0.1:0", "", true},
		{"everywhere", "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0", "", false},
		{"no address", ":0", "127.0.0.1:0", "127.0.0.1:0", "", false},
		{"blobs alone", "127.0.0.1:0", "127.0.0.1:0", "[::]:0", "", false},
		{"queues alone", "127.0.0.1:0", "0.0.0.0:0", "127.0.0.1:0", "", false},
		{"requested by a flag", "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0", "--well-known-key", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			out, in := io.Pipe()
			command := command("emulator", "", &emulatorOptions{})
			args := []string{"--table-addr", tt.tables, "--queue-addr", tt.queues, "--blob-addr", tt.blobs}
			if tt.flag != "" {
				args = append(args, tt.flag)
			}
			command.SetArgs(args)
			command.SetOut(in)
			ended := make(chan error, 1)
			go func() { ended <- command.ExecuteContext(ctx) }() // ends with the interrupt
			connection, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || strings.Contains(connection, emulator.DefaultKey) != tt.wellKnown {
				t.Fatalf("the first line is %s, %v; want the well-known key: %v", connection, err, tt.wellKnown)
			}
			connection = strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(strings.TrimSpace(connection))
			_, rest, _ := strings.Cut(connection, "AccountKey=")
			key, _, _ := strings.Cut(rest, ";")
			for name, with := range map[string]string{"its key": key, "the well-known key": emulator.DefaultKey} {
				c, err := storage.ParseConnection(strings.Replace(connection, key, with, 1))
				proof.Must(t, err)
				a, err := storage.Open(c, storage.Options{})
				proof.Must(t, err)
				if err := a.Table("rows").Create(ctx); (err == nil) != (with == key || tt.wellKnown) || err != nil && !storage.Denied(err) {
					t.Errorf("with the key %s: got error %v", name, err)
				}
			}
			interrupt()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
