package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The command prints where it serves, serves there, and stops when interrupted.
func TestEmulatorCommand(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, in := io.Pipe()
	command := emulatorCommand()
	command.SetArgs([]string{"--table-addr", "127.0.0.1:0", "--queue-addr", "127.0.0.1:0", "--blob-addr", "127.0.0.1:0", "--faults", "busy p=1 times=1 on=tables"})
	command.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }() // ends with interrupt
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	connection := strings.TrimSpace(line)
	service, err := aztables.NewServiceClientFromConnectionString(connection, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.CreateTable(ctx, "rows", nil); err != nil { // by the SDK's retry
		t.Error(err)
	}
	_, rest, _ := strings.Cut(connection, "TableEndpoint=")
	endpoint, _, _ := strings.Cut(rest, "/devstoreaccount1")
	resp, err := http.Get(endpoint + "/_emulator/faults")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), `"busy":1`) {
		t.Errorf("faults are %s", body)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the command ends with %v", err)
	}
}
