package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/app/gate"
	"tablesweep/internal/problem"
)

func TestGateOpensSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Minute
		start, reports := time.Now(), 0
		g := gate.New()
		go g.Prepare(t.Context(), func(ctx context.Context) error {
			if time.Since(start) < outage {
				return errors.New("no answer")
			}
			return nil
		}, func(error) { reports++ })
		if err := g.Pass(t.Context(), 20*time.Second); problem.Status(err) != 503 || time.Since(start) != 20*time.Second {
			t.Errorf("during the outage: error %v after %v, want a 503 after 20s", err, time.Since(start))
		}
		if err := g.Wait(t.Context()); err != nil || time.Since(start) > outage+4*time.Second {
			t.Errorf("the gate opened after %v, error %v; want at most 4 s after %v", time.Since(start), err, outage)
		}
		if reports != 5 {
			t.Errorf("%d failures were reported in %v, want one a minute", reports, outage)
		}
		if err := g.Pass(t.Context(), 0); err != nil {
			t.Errorf("open: %v", err)
		}
	})
}

func TestReasonIsReturnedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := gate.New()
		reason := &problem.Error{Kind: problem.Conflict, Detail: "is being moved"}
		go g.Prepare(t.Context(), func(context.Context) error { return reason }, func(error) {})
		synctest.Wait()
		if err := g.Pass(t.Context(), time.Minute); !errors.Is(err, reason) || time.Since(start) != 0 {
			t.Errorf("got error %v after %v, want the reason immediately", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
		defer cancel()
		if err := g.Wait(ctx); !errors.Is(err, reason) || time.Since(start) != 9*time.Minute {
			t.Errorf("a step got error %v after %v, want the reason at the end of its time", err, time.Since(start))
		}
	})
}

func TestPanicIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tries := gate.New(), 0
		go g.Prepare(t.Context(), func(context.Context) error {
			if tries++; tries == 1 {
				panic("first")
			}
			return nil
		}, func(error) {})
		if err := g.Wait(t.Context()); err != nil || tries != 2 {
			t.Errorf("got error %v after %d attempts, want success at the second", err, tries)
		}
	})
}
