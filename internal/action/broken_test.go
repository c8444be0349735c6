package action_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// breaking is a transport to a service that fails for each write of a row whose key contains "bad", and for every write until a given
// time.
func breaking(em *emulator.Emulator, until time.Time) policy.Transporter {
	return emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, body string) (*http.Response, error) {
		if r.Method == http.MethodGet || !time.Now().Before(until) && !strings.Contains(r.URL.Path+body, "bad") {
			return nil, nil
		}
		return answer(r, http.StatusInternalServerError, "application/json", `{"odata.error":{"code":"InternalError","message":{"value":"The server encountered an internal error."}}}`), nil
	}}
}

// TestRowThatBreaksTheService: a row for which the service fails each time does not delay other rows, and is reported as failed. If
// the service fails for every row for a while, all rows wait and none fails.
func TestRowThatBreaksTheService(t *testing.T) {
	for _, tt := range []struct {
		name    string
		names   []string
		away    time.Duration
		written int64
		longest time.Duration
	}{
		{"no row", []string{"a", "b", "c"}, 0, 3, 0},
		{"a row", []string{"a", "b", "bad", "d", "e"}, 0, 4, 90 * time.Second},
		{"the only row", []string{"bad"}, 0, 0, 45 * time.Second},
		{"every row for a while", []string{"a", "b", "c"}, 100 * time.Second, 3, 110 * time.Second},
		{"the only row for a while", []string{"a"}, 100 * time.Second, 1, 110 * time.Second},
	} {
		for _, deletes := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", delete"}[deletes], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					em, a := emulatortest.NewAccount(t, emulator.Options{})
					rows := rows(tt.names...)
					target := a.Table("Target")
					proof.Must(t, target.Create(t.Context()))
					began := time.Now()
					via := emulatortest.Open(t, em, breaking(em, began.Add(tt.away))).Table("Target")
					var w action.Work = action.Copy{Destination: via}
					if deletes {
						_, err := (action.Copy{Destination: target}).Copy(t.Context(), storage.Rows(rows))
						proof.Must(t, err)
						w = action.Delete{Table: via}
					}
					r, err := action.All(t.Context(), storage.RequestOptions{}, &action.Limiter{}, w, storage.Rows(rows))
					if took := time.Since(began); err != nil || r.Written != tt.written || took < tt.away || took > tt.longest {
						t.Errorf("got result %+v, error %v after %v; want %d rows written within %v to %v", r, err, took, tt.written, tt.away, tt.longest)
					}
					want := action.Failure{Key: key.Key{Partition: "p", Row: "bad"}, Reason: "500, 10 times in a row: InternalError: The server encountered an internal error.", Broken: true}
					if int(tt.written) != len(rows)-len(r.Failed) || len(r.Failed) > 0 && r.Failed[0] != want {
						t.Errorf("got failed rows %+v, want %+v", r.Failed, want)
					}
				})
			})
		}
	}
}
