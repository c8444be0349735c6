package file

import "testing"

// Names that the user gives are those of the system: on Windows, some lead to devices, such as a table's directory.
func TestNamesOfTheUser(t *testing.T) {
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
			t.Errorf("%v: %v, and %v on Windows", tt.p, other, windows)
		}
	}
}
