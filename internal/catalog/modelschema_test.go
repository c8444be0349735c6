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

// patiently repeats the function do until it succeeds, because the storage sometimes fails.
func patiently(do func() error) (err error) {
	for range 20 {
		if err = do(); err == nil || problem.Status(err) < 500 {
			break
		}
	}
	return err
}

// takeOver takes over the tables of the published program, in processes that may die.
func (m *modelRun) takeOver() {
	m.Helper()
	for range 60 {
		c, p := m.life(m.rnd, nil)
		left := 0
		sum, err := migrate.Run(m.Context(), c, false, func(catalog.Finding) { left++ })
		c.Close()
		if lost := m.taken.lost(m.world); len(lost) > 0 {
			m.Fatalf("the take-over has lost %q", lost)
		}
		if err != nil || p.Dead() {
			continue
		}
		if sum.Left != left || left < 4 {
			m.Errorf("the migration returns %+v, leaves %d problems", sum, left)
		}
		m.taken.wantRight(m.world)
		return
	}
	m.Fatal("the take-over has not ended after many runs")
}

// reported reports whether a finding concerns rows that a take-over leaves unchanged.
func (x takeOver) reported(f catalog.Finding) bool {
	return slices.ContainsFunc([]string{"t1", "t2"}, func(v string) bool {
		return slices.ContainsFunc(x.places[v], func(k key.Key) bool { return k.Partition == f.Partition && k.Row == f.Row })
	})
}

// twins checks that the two records that differ only in case both still exist after the other writes.
func (m *modelRun) twins() {
	m.Helper()
	rows := m.rows("People", "")
	for _, v := range []string{"t1", "t2"} {
		if wrong := wrongRows(rows, v, m.taken.records[v], m.taken.places[v]...); len(wrong) > 0 {
			m.Errorf("%s", strings.Join(wrong, "\n"))
		}
	}
}

// migrate changes the schema, in processes that may die. After that, processes with the old schema are refused. The new schemas
// distinguish the same records as the old schema.
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
			m.Errorf("the migration leaves %+v", left)
		}
		wantKind(m, patiently(read), problem.Conflict)
		wantKind(m, patiently(func() error {
			_, err := old.Insert(m.Context(), stranger, "")
			return err
		}), problem.Conflict)
		return
	}
	m.Error("the migration has not ended after many runs")
}
