package place_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// deleting is a place in which the process is killed at one of its deletions.
type deleting struct {
	place.Objects
	mu      sync.Mutex // guards the fields below
	left    int        // the number of deletions before the process is killed; negative if it is never killed
	deleted []string
}

func (d *deleting) Delete(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return errDead
	}
	d.left--
	d.deleted = append(d.deleted, name)
	return d.Objects.Delete(ctx, name)
}

// others are objects of other programs, in an export's directories and beside them.
var others = []string{"data/notes.txt", "data/000000-0123456789abcdef.jsonl", "readme.md", "a/data/000009-0123456789abcdef.jsonl", "a/more/export.json", "z/export.json", "z/" + lateName}

// lateName is the name of a data file that a late step of the app puts.
const lateName = "data/0123456789abcdefghijklmn-0123456789abcdef.jsonl.zst"

func putOthers(t testing.TB, to place.Objects) {
	t.Helper()
	for _, name := range others {
		_, err := to.Put(t.Context(), name, []byte("mine"))
		proof.Must(t, err)
	}
}

// putLate puts the objects that late steps leave: for the exported tables, and for two tables that were left out.
func putLate(t testing.TB, to place.Objects, many bool) {
	t.Helper()
	names := []string{lateName}
	if many {
		names = []string{"a/" + lateName, "x/" + lateName, "y/" + lateName}
		_, err := to.Put(t.Context(), "y/export.json", place.NewClaim("all-00007", nil, began, "test").JSON())
		proof.Must(t, err)
	}
	for _, name := range names {
		_, err := to.Put(t.Context(), name, []byte("late"))
		proof.Must(t, err)
	}
}

// oneExport makes the export of a table.
func oneExport(t testing.TB, to place.Objects) {
	t.Helper()
	w, err := place.Create(t.Context(), to, place.NewClaim("id-one", nil, began, "test"), place.Options{Compress: place.None, FileBytes: 1000})
	proof.Must(t, err)
	proof.Must(t, completeExport(t, w, w.Add(storage.Rows(oddRows(t, 12))), manifest(place.Options{Compress: place.None})))
}

// removed deletes an export by calls that may each delete the given number of objects. It stores the result of each call, except for the one call in
// which the process is killed.
func removed(t testing.TB, to place.Objects, id string, many bool, most int) (died bool, err error) {
	t.Helper()
	var kept place.Removal
	for range 200 {
		left := most
		r, err := place.Remove(t.Context(), to, place.ExportID(id), many, kept, &left)
		switch {
		case errors.Is(err, errDead):
			died = true
			to.(*deleting).left = -1
		case err != nil:
			return died, err
		case r.Done && !kept.Gone:
			t.Error("lists were deleted before the deletion of the data was recorded")
		case r.Done:
			return died, nil
		default:
			kept = r
		}
	}
	return died, errors.New("the deletion does not end")
}

// Remove deletes the objects that the export's lists name, in an order that is safe for readers. This holds if processes are killed, and for any
// number of deletions in a call.
func TestRemove(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, many := range []bool{false, true} {
		id, make := "id-one", oneExport
		if many {
			id, make = "all", exportTables
		}
		for die := 0; ; die += testsize.Of(3, 1) {
			to, _ := inBlobs(t)
			make(t, to)
			putOthers(t, to)
			putLate(t, to, many)
			d := &deleting{Objects: to, left: die}
			died, err := removed(t, d, id, many, 1+die%7)
			proof.Must(t, err)
			left := slices.Sorted(maps.Keys(content(t, to)))
			if !slices.Equal(left, slices.Sorted(slices.Values(others))) {
				t.Fatalf("many %v, killed at deletion %d: the remaining objects are %v", many, die, left)
			}
			at := func(suffix string) int {
				return slices.IndexFunc(d.deleted, func(n string) bool { return strings.Contains(n, suffix) })
			}
			data := 0
			for i, name := range d.deleted {
				if strings.Contains(name, "data/") && !strings.HasSuffix(name, lateName) {
					data = i
				}
			}
			last := map[bool]string{false: "export.json", true: "tables-claim.json"}[many]
			if at("manifest.json") != 0 || data > at("files.jsonl") || at("files.jsonl") > at("export.json") || d.deleted[len(d.deleted)-1] != last {
				t.Fatalf("objects were deleted in the order %v", d.deleted)
			}
			if !died {
				break
			}
		}
	}
}

// If a claim is lost, Remove finds the export's id in another object. If a list is lost, Remove deletes nothing that the list named.
func TestRemoveWithoutLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lost string // objects that were deleted before
		many bool
		want string
	}{
		{"export.json", false, ""},
		{"manifest.json", false, ""},
		{"files.jsonl", false, "files.jsonl is missing"},
		{"export.json manifest.json", false, "export.json is missing"},
		{"export.json files.jsonl", false, "files.jsonl is missing"},
		{"export.json files.jsonl manifest.json", false, "files.jsonl is missing"},
		{"*", false, ""},
		{"tables-claim.json", true, ""},
		{"tables.json", true, "tables.json is missing"},
		{"tables.json tables-claim.json", true, "tables.json is missing"},
		{"a/export.json tables-claim.json", true, ""},
		{"a/files.jsonl", true, "a/files.jsonl is missing"},
		{"*", true, ""},
	} {
		to, _ := inBlobs(t)
		id, make := "id-one", oneExport
		if tt.many {
			id, make = "all", exportTables
		}
		make(t, to)
		for name := range content(t, to) {
			if tt.lost == "*" || slices.Contains(strings.Fields(tt.lost), name) {
				proof.Must(t, to.Delete(t.Context(), name))
			}
		}
		was := len(content(t, to))
		if _, err := removed(t, to, "other", tt.many, 100); was > 0 && err == nil {
			t.Errorf("%s: an object of another program was deleted", tt.lost)
		}
		if left := len(content(t, to)); left != was {
			t.Errorf("%s: %d of %d objects of another export are left", tt.lost, left, was)
		}
		_, err := removed(t, to, id, tt.many, 100)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("without %s: got error %v, want %q", tt.lost, err, tt.want)
		}
		if left := len(content(t, to)); left > 0 && err == nil || left < was && err != nil {
			t.Errorf("%s: %d objects of %d are left", tt.lost, left, was)
		}
	}
}

// An export whose claim is lost is deleted completely, also if processes are killed, and for any number of deletions in a call. If the container is
// lost, there is nothing to delete.
func TestRemoveWithoutClaims(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for lost, many := range map[string]bool{"export.json": false, "a/export.json": true, "a/export.json tables-claim.json": true} {
		for die := 0; ; die += testsize.Of(3, 1) {
			to, _ := inBlobs(t)
			id, make := "id-one", oneExport
			if many {
				id, make = "all", exportTables
			}
			make(t, to)
			for name := range strings.FieldsSeq(lost) {
				proof.Must(t, to.Delete(t.Context(), name))
			}
			died, err := removed(t, &deleting{Objects: to, left: die}, id, many, 1+die%7)
			if left := content(t, to); err != nil || len(left) > 0 {
				t.Fatalf("%s, killed at deletion %d: error %v, the remaining objects are %v", lost, die, err, left)
			}
			if !died {
				break
			}
		}
	}
	for _, from := range []place.Removal{{}, {Files: 1}, {Gone: true}} {
		for _, many := range []bool{false, true} {
			to, _ := inBlobs(t)
			left := 100
			if r, err := place.Remove(t.Context(), to, "id", many, from, &left); err != nil || r.Done != from.Gone {
				t.Errorf("without a container, many %v, progress %+v: got %+v, error %v", many, from, r, err)
			}
		}
	}
}

// Remove does not delete objects of another export, or an export whose lists were changed.
func TestRemoveRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, id string
		many     bool
		change   func(to place.Objects)
		want     string
	}{
		{"another export", "id-other", false, nil, "now belongs to export id-one"},
		{"another export of many", "all", true, func(to place.Objects) { proof.Must(t, place.ClaimTables(t.Context(), to, tablesClaim("new"), false)) }, "now belongs to export new"},
		{"a list of other files", "id-one", false, func(to place.Objects) {
			text := strings.Replace(content(t, to)["files.jsonl"], "data/000000", "data/000001", 1)
			proof.Must(t, to.Delete(t.Context(), "files.jsonl"))
			_, err := to.Put(t.Context(), "files.jsonl", []byte(text))
			proof.Must(t, err)
		}, "files.jsonl differs from the hash in manifest.json"},
		{"nothing", "id-one", true, nil, ""}, // the export is already deleted
	} {
		to, _ := inBlobs(t)
		w, err := place.Create(t.Context(), to, place.NewClaim("id-one", nil, began, "test"), place.Options{Compress: place.None})
		proof.Must(t, err)
		proof.Must(t, completeExport(t, w, w.Add(storage.Rows(oddRows(t, 9))), manifest(place.Options{Compress: place.None})))
		if tt.change != nil {
			tt.change(to)
		}
		was := len(content(t, to))
		if _, err := removed(t, to, tt.id, tt.many, 100); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
		if n := len(content(t, to)); n != was {
			t.Errorf("%s: %d objects of %d are left", tt.name, n, was)
		}
	}
}

// Processes that delete an export concurrently do not disturb each other. A process that finds objects deleted continues, or leaves the rest to the
// other process.
func TestConcurrentRemovals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to, em := inBlobs(t)
		exportTables(t, to)
		proof.Must(t, em.SetFaults("seed=1; latency=1ms..9ms"))
		var g task.Group
		var mu sync.Mutex // guards the variables below
		var row place.Removal
		version := 0
		for i := range 40 {
			g.Go(func() error {
				time.Sleep(time.Duration(i) * 1100 * time.Microsecond) // lets each process find objects that another process has just deleted
				for {
					mu.Lock()
					from, was := row, version
					mu.Unlock()
					most := 100
					r, err := place.Remove(t.Context(), to, "all", true, from, &most)
					mu.Lock()
					overtaken := version != was
					if !overtaken && err == nil {
						row, version = r, version+1
					}
					mu.Unlock()
					if overtaken || err != nil || r.Done {
						if overtaken {
							err = nil
						}
						return err
					}
				}
			})
		}
		proof.Must(t, g.Wait())
		if left := content(t, to); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Withdraw deletes the claim of an export that will never be complete, unless the claim is that of another export. Afterwards, ClearLate deletes late
// data files, but no other objects.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	claim := func(id string) string { return string(place.NewClaim(place.ExportID(id), nil, began, "test").JSON()) }
	const more = "data/notes.txt"
	for _, tt := range []struct {
		name, claim string
		list        string // a further object in the place
		claimGoes   bool
		wrong       string
	}{
		{"its own", claim("id"), "", true, ""},
		{"none", "", "", true, ""},
		{"another's", claim("other"), "", false, ""},
		{"a complete export without its claim", "", "manifest.json", true, ""},
		{"a list", "", "files.jsonl", true, ""},
		{"a damaged claim", "{}", "", false, "its format is"},
	} {
		to, _ := inBlobs(t)
		proof.Must(t, place.Withdraw(t.Context(), to, "id"), place.ClearLate(t.Context(), to)) // the container does not exist
		proof.Must(t, to.Make(t.Context()))
		for name, text := range map[string]string{"export.json": tt.claim, tt.list: "x", lateName: "late", more: "mine"} {
			if name != "" && text != "" {
				_, err := to.Put(t.Context(), name, []byte(text))
				proof.Must(t, err)
			}
		}
		err := place.Withdraw(t.Context(), to, "id")
		proof.Must(t, place.ClearLate(t.Context(), to))
		left := content(t, to)
		_, claimed := left["export.json"]
		_, late := left[lateName]
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) || claimed == tt.claimGoes || late == (tt.claimGoes && tt.list == "") || left[more] == "" {
			t.Errorf("%s: got error %v; the remaining objects are %v", tt.name, err, left)
		}
	}
}
