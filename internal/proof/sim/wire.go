package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tablesweep/internal/task"
)

// Accident happens to a machine during one of its storage requests.
type Accident struct {
	Kind Kind
	// If Host is true, Request counts the host's requests that change something, such as the deletion of a message. Otherwise, Request counts the handler's
	// requests.
	Host bool
	// Request is the number of the request, from 1, in the life of the process.
	Request int
	// If Applied is true, the request is carried out, and only its answer is lost.
	Applied bool
}

// Kind is the kind of an accident.
type Kind string

// The kinds of accidents.
const (
	Loss    Kind = "machine lost"    // with the leases that the machine holds
	Crash   Kind = "handler crashed" // the handler is started again
	Silence Kind = "no answer"       // the connection breaks, but the process continues
)

func (a Accident) String() string {
	return fmt.Sprintf("%s during request %d (of the host: %v, applied: %v)", a.Kind, a.Request, a.Host, a.Applied)
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// errDead is the error of a dead process's requests. It wraps [context.Canceled] so that the SDK does not retry.
var errDead = fmt.Errorf("the process is dead: %w", context.Canceled)

// maxLate is the longest time until a late request is carried out. The service drops requests after 30 s.
const maxLate = 30 * time.Second

// wire carries the storage requests of one process. It delays each request by a different time, and ends the process during a request.
type wire struct {
	*world
	name string
	gone context.Context // ends when the process ends
	die  func(Kind)      // ends the process or the machine
	host bool            // whether this is the host's wire, which counts only requests that change something

	accident *Accident // the next accident, or nil

	mu       sync.Mutex // guards the fields below
	seen     map[uint64]int
	requests int
}

// Do sends the request to the emulator.
func (l *wire) Do(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	moment := l.moment(req, body)
	if !task.Sleep(req.Context(), time.Duration(moment%uint64(time.Millisecond))) || l.gone.Err() != nil {
		if l.gone.Err() != nil {
			return nil, errDead
		}
		return nil, req.Context().Err()
	}
	detached := context.WithoutCancel(req.Context())
	if a := l.next(req); a != nil {
		l.note(l.name, req, a.String())
		l.count(&l.stats.Accidents)
		if a.Applied {
			forget(l.send(detached, req, body))
		}
		if a.Kind == Silence {
			return nil, errReset
		}
		l.die(a.Kind)
		return nil, errDead
	}
	if req.Method != http.MethodGet && chance(l.plan.Late, draw(moment, "late")) {
		l.note(l.name, req, "late")
		l.group.Go(func() {
			time.Sleep(time.Duration(draw(moment, "by") % uint64(maxLate)))
			forget(l.send(detached, req, body))
		})
		return nil, errReset
	}
	l.tally(req, body)
	l.notCanceled(req, body)
	// Requests that are under way when the process dies may still be carried out.
	ctx := req.Context()
	if chance(0.5, draw(moment, "under way")) {
		ctx = detached
	}
	resp, err := l.send(ctx, req, body)
	if l.gone.Err() != nil {
		forget(resp, err)
		return nil, errDead
	}
	if err != nil {
		l.note(l.name, req, err.Error())
	} else {
		l.note(l.name, req, resp.Status)
	}
	return resp, err
}

// next counts the request, and returns the accident that happens during it, or nil.
func (l *wire) next(req *http.Request) *Accident {
	if l.host && req.Method == http.MethodGet {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests++; l.accident != nil && l.accident.Request == l.requests {
		return l.accident
	}
	return nil
}

func (l *wire) send(ctx context.Context, req *http.Request, body []byte) (*http.Response, error) {
	sent := req.WithContext(ctx)
	sent.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasPrefix(req.URL.Host, "second.") {
		return l.aside.Do(sent)
	}
	return l.emulator.Do(sent)
}

func forget(resp *http.Response, err error) {
	if err == nil {
		resp.Body.Close()
	}
}

// moment returns a number that differs from that of all other requests of the run. The request has the same number in every run of the seed.
func (l *wire) moment(req *http.Request, body []byte) uint64 {
	caller, _ := req.Context().Value(invocationKey{}).(string)
	identity := draw(l.plan.Seed, l.name, caller, req.Method, req.URL.Path, req.URL.RawQuery, string(stable(body)))
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.seen[identity]
	l.seen[identity]++
	return draw(identity, strconv.Itoa(n))
}

// stable removes the random parts of a body: the boundaries of a batch.
func stable(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("--")) {
		return body
	}
	var kept []byte
	for line := range bytes.Lines(body) {
		if !bytes.HasPrefix(line, []byte("--")) && !bytes.HasPrefix(line, []byte("Content-Type: multipart")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(req.Body)
	return b, errors.Join(err, req.Body.Close())
}

// draw returns a random number that depends only on its arguments. It does not depend on how goroutines interleave.
func draw(seed uint64, what ...string) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, seed) // a hash returns no error
	for _, s := range what {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	x := h.Sum64() // FNV mixes its last bytes poorly; finish as splitmix64 does
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func chance(p float64, x uint64) bool { return float64(x>>11)/(1<<53) < p }
