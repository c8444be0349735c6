package host

import (
	"os/exec"
	"syscall"
)

// contain makes a child die with the thread that starts it. It puts the child into its own process group, so that Ctrl-C signals only the host.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
