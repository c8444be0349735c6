package action_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// contested is a destination to which other programs write at the same time. It answers 409 a given number of times for each of some rows, and
// does not carry out these requests.
type contested struct {
	left   map[string]int   // remaining 409 answers by row
	before func(row string) // the other programs' write before such an answer
}

func (c contested) answer(r *http.Request, body string) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/Tables") {
		return nil, nil
	}
	const refusal = `{"odata.error":{"code":"EntityAlreadyExists","message":{"value":"%sThe specified entity already exists."}}}`
	batch := strings.HasSuffix(r.URL.Path, "/$batch")
	parts := []string{r.URL.Path + body}
	if batch {
		parts = strings.Split(body, "Content-Type: application/http")[1:]
	}
	for i, part := range parts {
		for row, left := range c.left {
			if left == 0 || !strings.Contains(part, `"RowKey":"`+row+`"`) {
				continue
			}
			c.left[row]--
			if c.before != nil {
				c.before(row)
			}
			if !batch {
				return answer(r, http.StatusConflict, "application/json", fmt.Sprintf(refusal, "")), nil
			}
			return inBatch(r, "409 Conflict", fmt.Sprintf(refusal, fmt.Sprint(i, ":"))), nil
		}
	}
	return nil, nil
}

// TestConflicts: the service answers 409 EntityAlreadyExists even to an upsert, if another program writes the same row at that moment. Each row
// is either written or reported as failed, and other rows are not affected.
func TestConflicts(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	each := func(n int) map[string]int {
		left := map[string]int{}
		for _, name := range names {
			left[name] = n
		}
		return left
	}
	for _, tt := range []struct {
		name   string
		modes  []action.Mode
		left   map[string]int
		others bool // other programs insert each row before the answer about it
		fails  bool // only row c fails
	}{
		{"a row, for a moment", action.Modes, map[string]int{"c": 5}, false, false},
		{"a row, forever", action.Modes, map[string]int{"c": 1000}, false, true},
		{"each row, for a moment", action.Modes, each(5), false, false},
		{"other programs insert each row", []action.Mode{action.Replace, action.Merge, action.Skip}, each(1), true, false},
	} {
		for _, mode := range tt.modes {
			for _, n := range []int{1, len(names)} {
				t.Run(fmt.Sprintf("%s, %s, %d rows", tt.name, mode, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						em, a := emulatortest.NewAccount(t, emulator.Options{})
						target := a.Table("Target")
						proof.Must(t, target.Create(t.Context()))
						via := contested{left: map[string]int{}}
						for name, n := range tt.left {
							via.left[name] = n
						}
						if tt.others {
							via.before = func(row string) {
								theirs := rows(row)[0]
								theirs.Properties = []storage.Property{storage.StringProperty("Other", "x")}
								if err := target.Write(t.Context(), storage.Op{Kind: storage.Insert, Row: theirs.Row()}); err != nil {
									t.Error(err)
								}
							}
						}
						rows := rows(names...)
						if n == 1 {
							rows = rows[2:3]
						}
						r, err := action.Copy{Destination: emulatortest.Open(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: via.answer}).Table("Target"), Mode: mode}.Copy(t.Context(), storage.Rows(rows))
						want := action.Result{Written: int64(n)}
						if tt.others && mode == action.Skip {
							want.Written = 0
							for _, row := range rows {
								want.Kept = append(want.Kept, row.Key)
							}
						}
						if tt.fails {
							want = action.Result{Written: int64(n - 1), Failed: []action.Failure{{Key: key.Key{Partition: "p", Row: "c"}, Reason: "EntityAlreadyExists: The specified entity already exists."}}}
						}
						if diff := cmp.Diff(want, r); err != nil || diff != "" {
							t.Errorf("error %v, result (-want +got)\n%s", err, diff)
						}
						p, err := target.Query(t.Context(), storage.Query{})
						if there := n - len(want.Failed); err != nil || len(p.Rows) != there {
							t.Errorf("the destination has %d rows, want %d; error %v", len(p.Rows), there, err)
						}
						if mode == action.Replace && slices.ContainsFunc(p.Entities(), func(e storage.Entity) bool { return len(e.Properties) > 0 }) {
							t.Error("a row is not replaced")
						}
					})
				})
			}
		}
	}
}

// TestCompared: rows are written only if the destination has not changed since the comparison, even if the answer to a first try is lost. Rows
// that other programs have written, changed or deleted since are kept.
func TestCompared(t *testing.T) {
	for _, faults := range []string{"", "timeout-after p=1 times=1"} {
		synctest.Test(t, func(t *testing.T) {
			em, a := emulatortest.NewAccount(t, emulator.Options{})
			row := func(name string, v int64) storage.Entity {
				return storage.Entity{Key: key.Key{Partition: "p", Row: name}, Properties: []storage.Property{storage.Int64Property("V", v)}}
			}
			to := emulatortest.Table(t, a, "dest", []storage.Entity{row("changed", 1), row("deleted", 1), row("plain", 1), row("written", 1)})
			var rows []storage.Row
			etags := map[string]string{}
			for _, there := range emulatortest.Rows(t, to) {
				etags[there.Key.Row] = there.ETag
			}
			for _, name := range []string{"changed", "deleted", "inserted", "new", "plain", "same", "written"} {
				rows = append(rows, row(name, 2).Row().WithETag(etags[name]))
			}
			put := func(kind storage.OpKind, name string, v int64) {
				proof.Must(t, to.Write(t.Context(), storage.Op{Kind: kind, Row: row(name, v).Row()}))
			}
			put(storage.Replace, "changed", 3)
			put(storage.Delete, "deleted", 0)
			put(storage.Insert, "inserted", 3)
			put(storage.Insert, "same", 2)
			put(storage.Replace, "written", 2)
			proof.Must(t, em.SetFaults(faults))
			r, err := action.Copy{Destination: to, Compared: true}.Copy(t.Context(), rows)
			if got := fmt.Sprint(r.Written, r.Failed, r.Kept); err != nil || got != "4 [] [{p changed} {p deleted} {p inserted}]" {
				t.Errorf("faults %q: got written, failed and kept rows %s, error %v", faults, got, err)
			}
			got := map[string]int64{}
			for _, there := range emulatortest.Rows(t, to) {
				got[there.Key.Row] = there.Int("V")
			}
			if diff := cmp.Diff(map[string]int64{"changed": 3, "inserted": 3, "new": 2, "plain": 2, "same": 2, "written": 2}, got); diff != "" {
				t.Errorf("faults %q: rows (-want +got)\n%s", faults, diff)
			}
		})
	}
}
