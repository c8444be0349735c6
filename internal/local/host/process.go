package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/storage"
)

// readyPoll is the interval at which the real host sends GET / to a starting handler. Any HTTP answer means ready.
// (WorkerConstants of azure-functions-host)
const readyPoll = 25 * time.Millisecond

// command is the handler's command line and environment.
type command struct {
	path string
	own  bool // the handler is this program; it proves its identity with [envelope.HeaderWorker]
	args []string
	dir  string
	root string
	env  []string
}

// newCommand resolves the handler's executable and environment. A relative path names a file of the app or, if the app
// has no such file, a program on the PATH.
func newCommand(o Options, h hostjson.Handler, settings storage.Settings) command {
	root := o.Root
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	c := command{path: o.Executable, own: o.Executable != "", dir: filepath.Join(root, h.Directory), root: root}
	if c.path == "" {
		c.path, c.args = h.Executable, h.Arguments
		if inRoot := filepath.Join(root, c.path); !filepath.IsAbs(c.path) && isFile(inRoot) {
			c.path = inRoot
		}
	}
	c.env = append(environ(settings), "FUNCTIONS_WORKER_RUNTIME=custom")
	return c
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

type process struct {
	cmd     *exec.Cmd
	address string        // HOST:PORT
	id      string        // is in the process's answers, and shows that no other program has the port; "" if the answers have no id
	secret  string        // proves that the host sent the request
	done    chan struct{} // closed when the process has ended
	code    int           // exit code, valid after done; -1 if a signal ended it
	wanted  atomic.Bool   // set when the host itself kills the process
}

// startProcess starts a handler process. The calling goroutine must be locked to its thread until the process has ended; see
// [contain].
func startProcess(c command, log zerolog.Logger) (*process, error) {
	port, err := unusedPort()
	if err != nil {
		return nil, err
	}
	id, secret := uuid.NewString(), rand.Text()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(c.env[:len(c.env):len(c.env)],
		fmt.Sprintf("FUNCTIONS_CUSTOMHANDLER_PORT=%d", port), envelope.WorkerVariable+"="+id,
		fmt.Sprintf("FUNCTIONS_HTTPWORKER_PORT=%d", port), "FUNCTIONS_HTTPWORKER_ID="+id,
		"FUNCTIONS_APP_ROOT_PATH="+c.root, envelope.SecretVariable+"="+secret)
	stdout := &lineWriter{line: func(s string) { logLine(log, zerolog.InfoLevel, s) }}
	stderr := &lineWriter{line: func(s string) { logLine(log, stderrLevel(s), s) }}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 2 * time.Second // in case a grandchild keeps the pipes open
	contain(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start handler: %w", err)
	}
	if !c.own {
		id = ""
	}
	p := &process{cmd: cmd, id: id, address: fmt.Sprintf("127.0.0.1:%d", port), secret: secret, done: make(chan struct{})}
	go func() { // ends with the process
		_ = cmd.Wait() // the result is in the exit code
		stdout.flush()
		stderr.flush()
		p.code = cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	return p, nil
}

// logLine logs a line of the handler. A line in zerolog's form keeps its level, message and fields.
func logLine(log zerolog.Logger, level zerolog.Level, line string) {
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	err := d.Decode(&fields)
	message, ok := fields[zerolog.MessageFieldName].(string)
	if err != nil || !ok || d.More() {
		log.WithLevel(level).Msg(line)
		return
	}
	if own, err := zerolog.ParseLevel(fmt.Sprint(fields[zerolog.LevelFieldName])); err == nil && own != zerolog.NoLevel {
		level = own
	}
	for _, name := range []string{zerolog.LevelFieldName, zerolog.MessageFieldName, zerolog.TimestampFieldName} {
		delete(fields, name)
	}
	log.WithLevel(level).Fields(fields).Msg(message)
}

// unusedPort chooses a free port, as the real host does. If another program takes the port first, the handler exits, and is restarted with another
// port.
func unusedPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// stderrLevel returns the level of a line that the handler writes to stderr: Warning if it contains "warn", otherwise Error.
// (WorkerProcess of azure-functions-host)
func stderrLevel(line string) zerolog.Level {
	if strings.Contains(strings.ToLower(line), "warn") {
		return zerolog.WarnLevel
	}
	return zerolog.ErrorLevel
}

var errExited = errors.New("the handler process exited before it answered")

// waitReady waits until the process answers HTTP requests.
func (p *process) waitReady(ctx context.Context, client *http.Client, limit time.Duration) error {
	tooLate := fmt.Errorf("the handler did not answer at http://%s within %v; the handler must listen on 127.0.0.1 and the port in FUNCTIONS_CUSTOMHANDLER_PORT", p.address, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, tooLate)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/", nil)
		if err != nil {
			return err
		}
		p.sign(req)
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if p.id == "" || resp.Header.Get(envelope.HeaderWorker) == p.id { // otherwise another program has the port
				return nil
			}
		}
		select {
		case <-p.done:
			return errExited
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(readyPoll):
		}
	}
}

// sign adds the secret that proves that the host sent the request.
func (p *process) sign(r *http.Request) { r.Header.Set(envelope.HeaderSecret, p.secret) }

// mark sets the headers that every request of an invocation needs.
func (p *process) mark(r *http.Request, invocation string) {
	p.sign(r)
	r.Header.Set(envelope.HeaderInvocation, invocation)
	r.Header.Set(envelope.HeaderHostVersion, envelope.HostVersion)
}

// recycle kills the process, so that a new process replaces it. Like the real host, recycle sends no signal before it
// kills.
func (p *process) recycle() {
	p.wanted.Store(true)
	p.kill()
}

func (p *process) kill() {
	select {
	case <-p.done: // the process has ended, and its id may belong to another process
	default:
		killGroup(p.cmd)
		<-p.done
	}
}

// lineWriter calls `line` for each line of the text that is written to it. It splits very long lines.
type lineWriter struct {
	line func(string)
	rest []byte
}

const maxLine = 64 << 10

// Write implements [io.Writer].
func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 && len(w.rest) < maxLine {
			return len(b), nil
		}
		if i < 0 {
			i = len(w.rest) - 1
		}
		w.line(strings.TrimRight(string(w.rest[:i+1]), "\r\n"))
		w.rest = w.rest[i+1:]
	}
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.line(string(w.rest))
		w.rest = nil
	}
}
