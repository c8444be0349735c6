package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/app/envelope"
)

// maxAnswer is the maximum number of bytes that are read from an answer.
const maxAnswer = 128 << 20

// invocation is one run of a function on an instance.
type invocation struct {
	in       *instance
	function hosted
	id       string
}

func (in *instance) newInvocation(f hosted) invocation {
	return invocation{in: in, function: f, id: uuid.NewString()}
}

// withProcess calls fn with the handler's process. The function's time limit starts here, and includes the wait for a
// restart. If the function exceeds the limit, its process is soon killed, so the process's other invocations also fail.
func (v invocation) withProcess(ctx context.Context, fn func(ctx context.Context, p *process) error) (err error) {
	log := v.in.log.With().Str("function", v.function.Name).Str("invocation", v.id).Logger()
	start := time.Now()
	log.Debug().Msg("executing")
	defer func() {
		log.Debug().Dur("ms", time.Since(start)).Bool("succeeded", err == nil).Msg("executed")
	}()
	var errTimeout error
	if limit := v.in.host.app.FunctionTimeout; limit > 0 {
		errTimeout = fmt.Errorf("function %s exceeded functionTimeout, %v: the handler process will be killed, and the other invocations in this process will fail", v.function.Name, limit)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	p, err := v.in.ready(ctx)
	if err == nil {
		err = fn(ctx, p)
	}
	if errors.Is(err, envelope.ErrNoAnswer) {
		log.Error().Err(err).Msg("the invocation hangs")
		<-ctx.Done()
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && cause == errTimeout {
		if p != nil {
			time.AfterFunc(v.in.host.options.Times.Grace, v.in.recycle)
		}
		err = cause
	}
	left := errors.Is(err, context.Canceled) // ctx was canceled, or the client disconnected
	if err != nil && ctx.Err() == nil && !left || errTimeout != nil && err == errTimeout {
		log.Error().Err(err).Msg("the invocation failed")
	}
	return err
}

// invoke sends the document to the handler and returns its answer.
func (v invocation) invoke(ctx context.Context, document []byte) (a envelope.Answer, err error) {
	err = v.withProcess(ctx, func(ctx context.Context, p *process) error {
		a, err = v.post(ctx, p, document)
		return err
	})
	for _, line := range a.Logs {
		v.in.log.Info().Str("function", v.function.Name).Str("invocation", v.id).Msg(line)
	}
	return a, err
}

func (v invocation) post(ctx context.Context, p *process, document []byte) (envelope.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.address+"/"+v.function.Name, bytes.NewReader(document))
	if err != nil {
		return envelope.Answer{}, err
	}
	// Like the real host (ObjectContent), send no Content-Length.
	req.ContentLength = -1
	req.Header.Set("Content-Type", envelope.ContentType)
	req.Header.Set("User-Agent", envelope.UserAgent)
	p.mark(req, v.id)
	resp, err := v.in.host.client.Do(req)
	if err != nil {
		return envelope.Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return envelope.Answer{}, fmt.Errorf("cannot read the handler's answer: %w", err)
	}
	return envelope.ParseAnswer(resp.StatusCode, resp.Header.Get("Content-Type"), body)
}
