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
		{PathAt("orders.jsonl"), true, true},
		{PathAt("backup/c.ckpt"), true, true},
		{PathAt("backup/aux.jsonl"), true, false},
		{PathAt("CON"), true, false},
		{PathAt("a:b"), true, false},
		{PathAt("backup/aux/c.ckpt"), true, false},
		{PathIn("backup/nul", "export.json"), true, false},
		{PathIn("backup/orders", "export.json"), true, true},
		{PathIn("backup/orders", "aux.json"), false, false},
		{PathAt(".."), false, false},
		{PathAt("/"), false, false},
	} {
		if other, windows := tt.p.leadsIn(false), tt.p.leadsIn(true); other != tt.other || windows != tt.windows {
			t.Errorf("%v: got %v, and %v on Windows", tt.p, other, windows)
		}
	}
}
