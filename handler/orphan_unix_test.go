//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// TestOrphanedHandlerEnds kills the process that started the handler while a call is under way. The call must be answered, and the handler must then end.
func TestOrphanedHandlerEnds(t *testing.T) {
	t.Parallel()
	em, _, connection := serveEmulator(t, emulator.Options{})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	proof.Must(t, err)
	port := fmt.Sprint(free.Addr().(*net.TCPAddr).Port)
	free.Close()
	host := exec.Command("sh", "-c", "tablesweep & echo started; exec sleep 60")
	host.Env = append(os.Environ(), "FUNCTIONS_CUSTOMHANDLER_PORT="+port, "AzureWebJobsStorage="+connection)
	pipe, err := host.StdoutPipe()
	proof.Must(t, err)
	proof.Must(t, host.Start())
	output := bufio.NewScanner(pipe)
	output.Scan()
	url := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + "/api/scans")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	proof.Must(t, em.SetFaults("latency=1s on=batch,insert"))
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Post(url+"/api/log/orders", "application/json", strings.NewReader(`{"n":1}`))
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	time.Sleep(200 * time.Millisecond)
	pipe.Close() // like the host's end of the pipe when the host is dead
	proof.Must(t, host.Process.Kill())
	_ = host.Wait()
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("the call under way was answered %d, want 201", status)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url + "/")
		if err != nil {
			return // no process listens any more
		}
		resp.Body.Close()
		if time.Now().After(deadline) {
			t.Fatal("the orphan still answers")
		}
	}
}
