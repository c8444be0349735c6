package health

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/task/memory"
)

func TestJudgeClock(t *testing.T) {
	for ahead, want := range map[time.Duration]State{
		0: OK, 29 * time.Second: OK, -29 * time.Second: OK, time.Minute: Warning, -time.Minute: Warning, 15 * time.Minute: Failed, -time.Hour: Failed,
	} {
		if got := judgeClock(ahead); got.State != want {
			t.Errorf("ahead %v: got check %+v, want %s", ahead, got, want)
		}
	}
	if got := judgeClock(-time.Minute).Detail; !strings.HasPrefix(got, "1m0s behind the storage's") {
		t.Errorf("got detail %s", got)
	}
}

func TestJudgeMemory(t *testing.T) {
	const mib = 1 << 20
	usage := memory.Usage{Bytes: 146 * mib, Used: 5 * mib, Most: 99 * mib, Waiting: 3}
	got := judgeMemory(memory.Instance{Bytes: 512 * mib, From: memory.Setting}, usage)
	want := "the instance has 512 MB (by TABLESWEEP_MEMORY_MB); rows, bodies and answers may use 146 MB, use 5 MB now, and have used at most 99 MB; steps and calls waiting for memory: 3"
	if got.State != OK || got.Detail != want {
		t.Errorf("%+v", got)
	}
	got = judgeMemory(memory.Instance{Bytes: 300 * mib}, memory.Usage{})
	if got.State != Warning || !strings.HasSuffix(got.Detail, "the Functions host leaves only 80 MB for the app: use larger instances (instanceMemoryMB), or set TABLESWEEP_MEMORY_MB to the actual size of the instances") {
		t.Errorf("%+v", got)
	}
}

func TestJudgeMaintained(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name        string
		m           ledger.Maintained
		run, poison State // "" if there is no such check
		detail      string
	}{
		{"never", ledger.Maintained{Now: now}, Warning, "", "has never run"},
		{"just now", ledger.Maintained{Now: now, At: now.Add(-30 * time.Second)}, OK, OK, "ran 30s ago"},
		{"long ago", ledger.Maintained{Now: now, At: now.Add(-time.Hour)}, Warning, OK, "ran 1h0m0s ago, but should run every minute"},
		{"failed", ledger.Maintained{Now: now, At: now.Add(-time.Minute), Error: "a\nb"}, Warning, OK, "and failed: a; b"},
		{"poison", ledger.Maintained{Now: now, At: now, Poison: 3}, OK, Warning, "ran 0s ago"},
	} {
		got := judgeMaintained(tt.m)
		if got[0].State != tt.run || !strings.Contains(got[0].Detail, tt.detail) {
			t.Errorf("%s: got checks %+v", tt.name, got)
		}
		if (len(got) > 1) != (tt.poison != "") || tt.poison != "" && got[1].State != tt.poison {
			t.Errorf("%s: got checks %+v, want poison queues %q", tt.name, got, tt.poison)
		}
	}
}

// The app's own host.json is accepted. The check notices each missing value on which scans depend.
func TestJudgeHost(t *testing.T) {
	right, err := hostjson.Load(os.DirFS("../../.."), func(string) string { return "" })
	proof.Must(t, err)
	if got := judgeHost(right); got.State != OK {
		t.Errorf("%+v", got)
	}
	for name, tt := range map[string]struct {
		change func(*hostjson.App)
		want   State
	}{
		"messageEncoding":             {func(a *hostjson.App) { a.Queues.Base64 = false }, Failed},
		"enableProxyingHttpRequest":   {func(a *hostjson.App) { a.Handler.Proxy = false }, Failed},
		"maxDequeueCount":             {func(a *hostjson.App) { a.Queues.MaxDequeue = 2 }, Warning},
		"visibilityTimeout":           {func(a *hostjson.App) { a.Queues.Visibility = 0 }, Warning},
		"functionTimeout is 5m0s":     {func(a *hostjson.App) { a.FunctionTimeout = 5 * time.Minute }, Warning},
		"batchSize 1 and newBatchThr": {func(a *hostjson.App) { a.Queues.BatchSize, a.FunctionTimeout = 1, 0 }, OK},
	} {
		a := right
		tt.change(&a)
		if got := judgeHost(a); got.State != tt.want || !strings.Contains(got.Detail, name) {
			t.Errorf("%s: got check %+v, want %s", name, got, tt.want)
		}
	}
}

func TestDetailsAreOneLine(t *testing.T) {
	got := NewCheck("x", "", errors.Join(errors.New("a\x1b[31m"), errors.New(strings.Repeat("é", 500)))).Detail
	if strings.ContainsAny(got, "\n\x1b") || len([]rune(got)) != maxDetail+1 {
		t.Errorf("%q", got)
	}
}
