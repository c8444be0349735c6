package adaptive

import (
	"encoding/json"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// TestFormOfState checks form 1 of a step's state, which is stored and sent. Later versions must still read this form.
func TestFormOfState(t *testing.T) {
	t.Parallel()
	const form1 = `{"stop":{"Partition":"p","Row":"r"},"left":16.233,"credit":1.5,"first":true,"run":3,"in":true,` +
		`"trail":{"here":"k9","fresh":1,"levels":[[0,0,0.942],[1,0.9,0.823]],"tries":1},"forks":[0,0,11,11,0,0],` +
		`"abc":{"l":"\"0😀","w":[5,103,33]},"hinted":true,"due":2.5,"group":{"first":1,"end":7,"sum":12,"due":31.4}}`
	var st strand
	d := json.NewDecoder(strings.NewReader(form1))
	d.DisallowUnknownFields()
	proof.Must(t, d.Decode(&st))
	got, err := json.Marshal(st)
	if err != nil || string(got) != form1 {
		t.Errorf("%v\n%s, want\n%s", err, got, form1)
	}
}
