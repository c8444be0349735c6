package host_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"tablesweep/internal/local/host"
	"tablesweep/internal/proof"
)

// TestCloseEndsEverything: after Close, no process runs, and unfinished messages are hidden.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order {
		<-t.Context().Done()
		return order{}
	})
	r := startRig(t, o, fastQueues, host.Options{Instances: 2})
	put(t, r.work, encode("a"))
	o.wait(t, 1)
	pids := r.PIDs()
	r.Close()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	got, err := r.work.Get(t.Context(), 1, time.Minute)
	if n, errLength := r.work.Length(t.Context()); err != nil || errLength != nil || len(got) != 0 || n != 1 {
		t.Errorf("visible messages %v of %d, errors %v, %v; want the message hidden", got, n, err, errLength)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://")); err == nil {
		t.Error("the app is still served")
	}
}

// TestHandlersEndWithTheirHost: if a host is killed, its handlers end.
func TestHandlersEndWithTheirHost(t *testing.T) {
	t.Parallel()
	root := writeApp(t, hostJSON(""))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=host", "HOST_TEST_ROOT="+root)
	out, err := cmd.StdoutPipe()
	proof.Must(t, err)
	proof.Must(t, cmd.Start())
	var a, b int
	_, err = fmt.Fscanf(out, "[%d %d]\n", &a, &b)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || a == 0 || b == 0 {
		t.Fatalf("process ids %d, %d: %v", a, b, err)
	}
	eventually(t, "the end of the handlers", func() bool { return !alive(a) && !alive(b) })
}

// alive reports whether a process runs. A process that has ended counts as ended even if its parent has not waited for it.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, state, _ := bytes.Cut(stat, []byte(") "))
		return !bytes.HasPrefix(state, []byte("Z"))
	}
	return syscall.Kill(pid, 0) == nil
}
