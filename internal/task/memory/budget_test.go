package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/task/memory"
)

const mib = 1 << 20

// TestBudgetIsKept takes, grows and releases parts at random. Parts must never hold more than the budget together, each call of Take must get its
// part, and all bytes must be returned in the end.
func TestBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(64 * mib)
		whole := b.Usage().Bytes
		var g sync.WaitGroup
		for n := range uint64(200) {
			g.Go(func() {
				chance := rand.New(rand.NewPCG(1, n))
				p, err := b.Take(t.Context(), chance.Int64N(100*mib))
				if err != nil {
					t.Error(err)
					return
				}
				defer p.Release()
				for range 3 {
					time.Sleep(time.Duration(chance.IntN(1000)) * time.Millisecond)
					p.Grow(chance.Int64N(8 * mib))
					if u := b.Usage(); u.Used > whole || u.Most > whole {
						t.Errorf("%d bytes are used, but the budget has only %d", u.Used, whole)
					}
				}
				p.Keep(chance.Int64N(8 * mib))
				time.Sleep(time.Millisecond)
			})
		}
		g.Wait()
		if u := b.Usage(); u.Used != 0 || u.Waiting != 0 || u.Most < whole/2 {
			t.Errorf("got the usage %+v", u)
		}
		p, ok := b.TryTake(whole)
		if !ok {
			t.Error("not all bytes were returned")
		}
		p.Release()
		p.Release()
		if u := b.Usage(); u.Used != 0 {
			t.Errorf("after a second Release, the usage is %+v", u)
		}
	})
}

// TestSmallPartsDoNotWait checks that small parts are available while large work holds all memory and other work waits, that work larger than the budget
// runs alone, and that canceled work no longer waits.
func TestSmallPartsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(16 * mib)
		all, err := b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		left := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := b.Take(ctx, mib)
				left <- err
			}()
		}
		synctest.Wait()
		if u := b.Usage(); u.Waiting != 2 {
			t.Errorf("got the usage %+v, want two waiting", u)
		}
		small, err := b.Take(t.Context(), memory.Small)
		proof.Must(t, err)
		if small.Grow(1) {
			t.Error("a small part grew beyond Small")
		}
		if !all.Grow(mib) {
			t.Error("a part with all memory could not grow")
		}
		if _, ok := b.TryTake(mib); ok {
			t.Error("TryTake took a part although other work was waiting")
		}
		for range 2 {
			if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want the end of the context", err)
			}
		}
		all.Release()
		small.Release()
		if u := b.Usage(); u.Used != 0 || u.Waiting != 0 {
			t.Errorf("got the usage %+v", u)
		}
	})
}

// TestUse checks that Use first uses the bytes of the part, and then takes bytes from the budget. If Use is refused, nothing is used, and Wanted
// returns the needed bytes.
func TestUse(t *testing.T) {
	b := memory.NewBudget(16 * mib)
	p, err := b.Take(t.Context(), 2*mib)
	proof.Must(t, err)
	other, err := b.Take(t.Context(), 10*mib)
	proof.Must(t, err)
	defer other.Release()
	for _, tt := range []struct {
		use, used, taken int64
		ok               bool
	}{{2, 2, 12, true}, {1, 3, 13, true}, {3, 3, 13, false}, {-2, 1, 13, true}, {3, 4, 14, true}} {
		if ok := p.Use(tt.use * mib); ok != tt.ok || p.Used() != tt.used*mib || b.Usage().Used != tt.taken*mib {
			t.Errorf("%+v: got %v, %d used bytes, usage %+v", tt, ok, p.Used(), b.Usage())
		}
	}
	if p.Wanted() != 6*mib || !p.Spare(mib) || p.Spare(2*mib) {
		t.Errorf("got %d wanted bytes, usage %+v", p.Wanted(), b.Usage())
	}
	if !p.SetUsed(2*mib) || p.Used() != 2*mib || p.SetUsed(7*mib) || p.Used() != 2*mib || !p.SetUsed(4*mib) {
		t.Errorf("got %d used bytes, usage %+v", p.Used(), b.Usage())
	}
	p.Release()
	if p.Used() != 0 || b.Usage().Used != 10*mib {
		t.Errorf("got the usage %+v", b.Usage())
	}
	other.Release()
	all, err := b.Take(t.Context(), 1<<40)
	proof.Must(t, err)
	defer all.Release()
	if all.Bounded().Use(1<<40) || all.Used() != 0 {
		t.Error("a bounded part used more than the memory for large work")
	}
	if !all.Use(1<<40) || b.Usage().Used > 16*mib {
		t.Errorf("got the usage %+v", b.Usage())
	}
}

// TestComing checks that slow input uses a reserve of its own, for which no other work waits.
func TestComing(t *testing.T) {
	b := memory.NewBudget(64 * mib) // 1 MiB of these is the reserve for slow input
	all, err := b.Take(t.Context(), 1<<40)
	proof.Must(t, err)
	one, other := b.Coming(), b.Coming()
	if !one.Use(mib/2) || !other.Use(mib/4) || one.Use(mib/2) || other.Use(mib/2) || !other.Use(mib/4) {
		t.Errorf("got the usage %+v, want 1 MiB in two parts in addition to all other memory", b.Usage())
	}
	if small, ok := b.TryTake(memory.Small); !ok {
		t.Error("slow input took the reserve of small parts")
	} else {
		small.Release()
	}
	one.Release()
	if !other.Use(mib / 2) {
		t.Error("released memory is not available")
	}
	other.Release()
	if all.Release(); b.Usage().Used != 0 {
		t.Errorf("got the usage %+v", b.Usage())
	}
}

func TestNilBudgetHasNoLimit(t *testing.T) {
	var b *memory.Budget
	p, err := b.Take(t.Context(), 1<<60)
	if proof.Must(t, err); !p.Grow(1<<60) || !p.Use(1<<60) || !p.Spare(1<<60) || !p.Bounded().Use(1) || p.Used() != 0 || p.Wanted() != 0 || b.Steps() != nil || b.Coming() != nil || b.Half() < 1<<60 || b.Usage() != (memory.Usage{}) {
		t.Errorf("got the usage %+v", b.Usage())
	}
	p.Keep(1)
	p.Release()
}

func TestInstanceOf(t *testing.T) {
	for _, tt := range []struct {
		setting, platform, from string
		mb                      int64 // 0 for the memory of this machine
		wrong                   bool
	}{
		{"1024", "512", memory.Setting, 1024, false}, {"", "512", "WEBSITE_MEMORY_LIMIT_MB", 512, false},
		{"", "", "", 0, false}, {"", "none", "", 0, false}, {"", "0", "", 0, false}, {"", "-5", "", 0, false},
		{"x", "512", "the default", 2048, true}, {"255", "", "the default", 2048, true}, {"2GB", "", "the default", 2048, true}, {"99999999", "", "the default", 2048, true},
	} {
		got, err := memory.InstanceOf(func(name string) string {
			return map[string]string{memory.Setting: tt.setting, "WEBSITE_MEMORY_LIMIT_MB": tt.platform}[name]
		})
		if (err != nil) != tt.wrong || tt.from != "" && got.From != tt.from || tt.mb > 0 && got.Bytes != tt.mb*mib || got.Bytes <= 0 {
			t.Errorf("settings %+v: got %+v, error %v", tt, got, err)
		}
	}
	for mb, want := range map[int64]int64{512: 146, 2048: 914, 4096: 1938, 256: 18, 100: 8} {
		i := memory.Instance{Bytes: mb * mib}
		if got := i.Budget().Usage().Bytes / mib; got != want {
			t.Errorf("of %d MB, the budget is %d MiB, want %d", mb, got, want)
		}
	}
}

// TestSteps checks that steps leave a quarter of the memory for large work to other work, whatever they take and however their parts grow. A step
// that is canceled while it waits must have taken nothing.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(64 * mib) // 60 MiB of these are for large work
		steps := b.Steps()
		p, err := steps.Take(t.Context(), steps.Half())
		if proof.Must(t, err); steps.Half() != 45*mib/2 || !p.Grow(20*mib) {
			t.Errorf("got a half of %d bytes, want half of 45 MiB; the usage is %+v", steps.Half(), b.Usage())
		}
		if _, ok := steps.TryTake(3 * mib); ok {
			t.Error("steps took more than three quarters")
		}
		call, ok := b.TryTake(17 * mib)
		if !ok || b.Usage().Used != 119*mib/2 || steps.Usage().Used != b.Usage().Used {
			t.Errorf("got the usage %+v, and %+v of the steps", b.Usage(), steps.Usage())
		}
		p.Keep(mib)
		other, err := b.Take(t.Context(), 30*mib)
		proof.Must(t, err)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := steps.Take(ctx, 20*mib); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if _, ok := steps.TryTake(20 * mib); ok {
				t.Error("steps took memory that other work holds")
			}
		}
		call.Release()
		other.Release()
		if p, ok := steps.TryTake(44 * mib); !ok {
			t.Error("released memory is not available")
		} else {
			p.Release()
		}
		if p.Release(); b.Usage().Used != 0 || b.Usage().Waiting != 0 {
			t.Errorf("got the usage %+v", b.Usage())
		}
	})
}
