package host

import (
	"os/exec"
	"syscall"
)

// contain makes a child die with the thread that starts it, and puts the child into a separate process group. Therefore Ctrl-C signals only the host, which
// then ends the group.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
