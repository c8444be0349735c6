package file

import "testing"

// Names that the user gives follow the rules of the system. On Windows, some names lead to devices. For example, a table's directory may have such a
// name.
func TestNamesGivenByUsers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p              Path
		other, windows bool
	}{
		{At("orders.jsonl"), true, true},
		{At("backup/c.ckpt"), true, true},
		{At("backup/aux.jsonl"), true, false},
		{At("CON"), true, false},
		{At("a:b"), true, false},
		{At("backup/aux/c.ckpt"), true, false},
		{In("backup/nul", "export.json"), true, false},
		{In("backup/orders", "export.json"), true, true},
		{In("backup/orders", "aux.json"), false, false},
		{At(".."), false, false},
		{At("/"), false, false},
	} {
		if other, windows := tt.p.leadsIn(false), tt.p.leadsIn(true); other != tt.other || windows != tt.windows {
			t.Errorf("%v: got %v, and %v on Windows", tt.p, other, windows)
		}
	}
}
