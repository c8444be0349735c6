package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// TestLargestRecord inserts, moves and deletes records with 15 long index keys, and the largest record with the longest index
// keys.
func TestLargestRecord(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	all := []struct {
		ch                 string
		keyLength, columns int
	}{{"€", 500, 0}, {`"`, 500, 0}, {"<", 500, 0}, {"x", 500, 0}, {"x", 507, 224}}
	for _, tt := range all[:testsize.Of(1, len(all))] {
		t.Run(fmt.Sprint(tt.ch, tt.columns), func(t *testing.T) {
			value := strings.Repeat(tt.ch, tt.keyLength)
			fields := map[string]any{"sort": strings.Repeat("s", 500)}
			var keys []string
			for i := range 15 {
				keys = append(keys, fmt.Sprintf("k%02d", i))
				fields[keys[i]] = value
			}
			for i := range tt.columns {
				fields[fmt.Sprintf("f%03d", i)] = strings.Repeat("€", 2100)
			}
			w, c := newCatalog(t, strings.Join(keys, ","), "sort")
			w.insertAll(c, fields)
			fields["sort"] = strings.Repeat("t", 500)
			w.wantOutcome(catalog.Replaced)(c.Replace(t.Context(), rec(t, mustJSON(fields)), by("k00", value), always))
			w.delete(c, by("k00", value), 1)
			c.Close()
		})
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestRefusedRows inserts a record whose index rows the service always refuses, although it accepts the commit. The insertion
// must be withdrawn without remains, and the caller must get the reason.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{}, "eid,npi", "lastname")
	w.prepare(w.openOn(w.account, nil))
	next := w.emulator.Transport()
	c := w.via(func(r *http.Request) (*http.Response, error) {
		// Azurite gives this answer for long texts that are not ASCII. It does not give the answer in a transaction, so commits
		// succeed.
		if what := describe(r); strings.Contains(what, "/People HTTP") && strings.Contains(what, `"refused"`) {
			return emulatortest.Refusal(r, http.StatusBadRequest, "PropertyValueTooLarge"), nil
		}
		return next.Do(r)
	})
	t.Cleanup(c.Close)
	_, err := c.Insert(t.Context(), rec(t, `{"eid":"1","npi":"7","lastname":"x","refused":1}`), "")
	if wantKind(t, err, problem.TooLarge); !strings.Contains(err.Error(), "PropertyValueTooLarge") {
		t.Errorf("the error does not contain the reason: %v", err)
	}
	w.wantOutcome(catalog.Created)(c.Put(t.Context(), rec(t, `{"eid":"1","npi":"7","lastname":"x"}`), always)) // a shorter record
	c.Close()
	if left := w.rows("PeopleWAL", "e|"); len(left) > 0 {
		t.Errorf("the log has pending entries: %v", left)
	}
	w.wantFound(c, by("npi", "7"), rec(t, `{"eid":"1","npi":"7","lastname":"x"}`))
	w.check(c)
}
