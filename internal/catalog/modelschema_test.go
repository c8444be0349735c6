package catalog_test

import (
	randv2 "math/rand/v2"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// patiently does something until the storage, which still fails now and then, doesn't.
func patiently(do func() error) (err error) {
	for range 20 {
		if err = do(); err == nil || problem.Status(err) < 500 {
			break
		}
	}
	return err
}

// takeOver takes over what the published program left, in processes that die.
func (m *modelRun) takeOver() {
	m.Helper()
	for range 60 {
		c, p := m.life(m.rnd, nil)
		left := 0
		sum, err := migrate.Run(m.Context(), c, false, func(catalog.Finding) { left++ })
		c.Close()
		if lost := m.taken.lost(m.world); len(lost) > 0 {
			m.Fatalf("the take-over loses %q", lost)
		}
		if err != nil || p.Dead() {
			continue
		}
		if sum.Left != left || left < 4 {
			m.Errorf("%+v, %d left", sum, left)
		}
		m.taken.wantRight(m.world)
		return
	}
	m.Fatal("the take-over never ends")
}

// reported reports whether a finding is about what a take-over leaves as it was.
func (x takeOver) reported(f catalog.Finding) bool {
	return slices.ContainsFunc([]string{"t1", "t2"}, func(v string) bool {
		return slices.ContainsFunc(x.places[v], func(k key.Key) bool { return k.Partition == f.Partition && k.Row == f.Row })
	})
}

// twins checks that records which differ in case alone are both still there, whatever
// others wrote.
func (m *modelRun) twins() {
	m.Helper()
	rows := m.rows("People", "")
	for _, v := range []string{"t1", "t2"} {
		if wrong := stands(rows, v, m.taken.records[v], m.taken.places[v]...); len(wrong) > 0 {
			m.Errorf("%s", strings.Join(wrong, "\n"))
		}
	}
}

// migrate changes the schema, in processes that die. A process with the old one is refused
// then. The new schemas tell the same records apart as the old one.
func (m *modelRun) migrate(rnd *randv2.Rand) {
	time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
	old, _ := m.mortal(0, false, nil)
	stranger := m.draw(rnd, m.notes.Add(1))
	read := func() error {
		_, err := old.Find(m.Context(), by("npi", "1"))
		return err
	}
	if err := patiently(read); err != nil {
		m.Error(err)
	}
	schema, err := index.Parse([]string{"eid,npi,ssn", "eid,npi,ssn:digits,lastname"}[rnd.IntN(2)], "lastname")
	if err != nil {
		m.Error(err)
	}
	next := *m.world
	next.schema = schema
	m.mu.Lock()
	m.next, m.migrated = &next, true
	m.mu.Unlock()
	for range 60 {
		n := 0
		if rnd.IntN(2) == 0 {
			n = 1 + rnd.IntN(200)
		}
		c, p := next.mortal(n, rnd.IntN(2) == 0, nil)
		var left []catalog.Finding
		_, err := migrate.Run(m.Context(), c, false, func(f catalog.Finding) { left = append(left, f) })
		c.Close()
		if err != nil || p.Dead() {
			continue
		}
		if len(left) > 0 {
			m.Errorf("left: %+v", left)
		}
		wantKind(m, patiently(read), problem.Conflict)
		wantKind(m, patiently(func() error {
			_, err := old.Insert(m.Context(), stranger, "")
			return err
		}), problem.Conflict)
		return
	}
	m.Error("the migration never ends")
}
