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

// TestBudgetIsKept: whatever is taken, grows and is given back, no more than the budget is held at once, each piece of work gets its part, and
// all is given back.
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
			t.Errorf("%+v", u)
		}
		p, ok := b.TryTake(whole)
		if !ok {
			t.Error("not all was given back")
		}
		p.Release()
		p.Release()
		if u := b.Usage(); u.Used != 0 {
			t.Errorf("given back twice: %+v", u)
		}
	})
}

// TestSmallPartsPass: a small part is free while large work has all and more waits, work larger than everything runs alone, and who
// leaves waits no longer.
func TestSmallPartsPass(t *testing.T) {
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
			t.Errorf("%+v, want two that wait", u)
		}
		small, err := b.Take(t.Context(), memory.Small)
		proof.Must(t, err)
		if small.Grow(1) {
			t.Error("a small part takes more of the reserve")
		}
		if !all.Grow(mib) {
			t.Error("who has all may not grow, and would never end")
		}
		if _, ok := b.TryTake(mib); ok {
			t.Error("a part is taken past those who wait")
		}
		for range 2 {
			if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		}
		all.Release()
		small.Release()
		if u := b.Usage(); u.Used != 0 || u.Waiting != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// TestUse: what is used comes out of the part first, and then out of the budget; what was refused is known, and nothing of it is used.
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
			t.Errorf("%+v: %v, %d used, %+v", tt, ok, p.Used(), b.Usage())
		}
	}
	if p.Wanted() != 6*mib || !p.Spare(mib) || p.Spare(2*mib) {
		t.Errorf("%d wanted, %+v", p.Wanted(), b.Usage())
	}
	if !p.SetUsed(2*mib) || p.Used() != 2*mib || p.SetUsed(7*mib) || p.Used() != 2*mib || !p.SetUsed(4*mib) {
		t.Errorf("%d used, %+v", p.Used(), b.Usage())
	}
	p.Release()
	if p.Used() != 0 || b.Usage().Used != 10*mib {
		t.Errorf("%+v", b.Usage())
	}
	other.Release()
	all, err := b.Take(t.Context(), 1<<40)
	proof.Must(t, err)
	defer all.Release()
	if all.Bounded().Use(1<<40) || all.Used() != 0 {
		t.Error("work that can be split uses more than all")
	}
	if !all.Use(1<<40) || b.Usage().Used > 16*mib {
		t.Errorf("%+v", b.Usage())
	}
}

// TestComing: what comes slowly has a reserve of its own, and nobody waits for that.
func TestComing(t *testing.T) {
	b := memory.NewBudget(64 * mib) // of which 1 is for that
	all, err := b.Take(t.Context(), 1<<40)
	proof.Must(t, err)
	one, other := b.Coming(), b.Coming()
	if !one.Use(mib/2) || !other.Use(mib/4) || one.Use(mib/2) || other.Use(mib/2) || !other.Use(mib/4) {
		t.Errorf("%+v, want 1 MiB in two parts beside all", b.Usage())
	}
	if small, ok := b.TryTake(memory.Small); !ok {
		t.Error("what comes slowly has the reserve of small parts")
	} else {
		small.Release()
	}
	one.Release()
	if !other.Use(mib / 2) {
		t.Error("what was given back is not there")
	}
	other.Release()
	if all.Release(); b.Usage().Used != 0 {
		t.Errorf("%+v", b.Usage())
	}
}

func TestNoBudget(t *testing.T) {
	var b *memory.Budget
	p, err := b.Take(t.Context(), 1<<60)
	if proof.Must(t, err); !p.Grow(1<<60) || !p.Use(1<<60) || !p.Spare(1<<60) || !p.Bounded().Use(1) || p.Used() != 0 || p.Wanted() != 0 || b.Steps() != nil || b.Coming() != nil || b.Half() < 1<<60 || b.Usage() != (memory.Usage{}) {
		t.Errorf("%+v", b.Usage())
	}
	p.Keep(1)
	p.Release()
}

func TestInstanceOf(t *testing.T) {
	for _, tt := range []struct {
		setting, platform, from string
		mb                      int64 // 0 for whatever this machine says
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
			t.Errorf("%+v: %+v, %v", tt, got, err)
		}
	}
	for mb, want := range map[int64]int64{512: 146, 2048: 914, 4096: 1938, 256: 18, 100: 8} {
		i := memory.Instance{Bytes: mb * mib}
		if got := i.Budget().Usage().Bytes / mib; got != want {
			t.Errorf("of %d MB, %d are the budget, want %d", mb, got, want)
		}
	}
}

// TestSteps: steps leave a quarter of the memory for large work to others, whatever they take, and how ever their parts grow. Who leaves while
// others have the rest has taken nothing.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(64 * mib) // of which 60 are for large work
		steps := b.Steps()
		p, err := steps.Take(t.Context(), steps.Half())
		if proof.Must(t, err); steps.Half() != 45*mib/2 || !p.Grow(20*mib) {
			t.Errorf("of 45 MiB, half is %d; %+v", steps.Half(), b.Usage())
		}
		if _, ok := steps.TryTake(3 * mib); ok {
			t.Error("steps take more than three quarters")
		}
		call, ok := b.TryTake(17 * mib)
		if !ok || b.Usage().Used != 119*mib/2 || steps.Usage().Used != b.Usage().Used {
			t.Errorf("%+v, %+v", b.Usage(), steps.Usage())
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
				t.Error("steps have what others have")
			}
		}
		call.Release()
		other.Release()
		if p, ok := steps.TryTake(44 * mib); !ok {
			t.Error("what was given back is not there")
		} else {
			p.Release()
		}
		if p.Release(); b.Usage().Used != 0 || b.Usage().Waiting != 0 {
			t.Errorf("%+v", b.Usage())
		}
	})
}
