package place_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/task"
)

// deleting is a place in which a process dies with one of its deletions.
type deleting struct {
	place.Objects
	mu      sync.Mutex // guards the fields below
	left    int        // deletions until then; none if it is negative
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

// others are objects of other people, in and beside an export's folders.
var others = []string{"data/notes.txt", "data/000000-0123456789abcdef.jsonl", "readme.md", "a/data/000009-0123456789abcdef.jsonl", "a/more/export.json", "z/export.json"}

func putOthers(t testing.TB, to place.Objects) {
	t.Helper()
	for _, name := range others {
		_, err := to.Put(t.Context(), name, []byte("mine"))
		proof.Must(t, err)
	}
}

// An export that is deleted loses what its lists name, in an order that readers can live with, whoever dies and however little a call may do.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		id, make := "id-one", func(to place.Objects) {
			w, err := place.Create(t.Context(), to, place.NewClaim("id-one", nil, began, "test"), place.Options{Compress: place.None, FileBytes: 1000})
			proof.Must(t, err)
			proof.Must(t, complete(t, w, w.Add(oddRows(t, 12)), manifest(place.Options{Compress: place.None})))
		}
		if many {
			id, make = "all", func(to place.Objects) { exportTables(t, to) }
		}
		for die := 0; ; die++ {
			to, _ := inBlobs(t)
			make(to)
			putOthers(t, to)
			d := &deleting{Objects: to, left: die}
			remove := func(from place.Removal) (place.Removal, error) {
				most := 1 + die%7
				return place.Remove(t.Context(), d, id, many, from, &most)
			}
			r, err := remove(place.Removal{})
			died := err != nil
			if d.left = -1; died && !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			for calls := 0; !r.Done && calls < 200; calls++ { // a process that died has noted nothing
				if r, err = remove(r); err != nil {
					t.Fatal(err)
				}
			}
			var left []string
			for name := range content(t, to) {
				left = append(left, name)
			}
			if slices.Sort(left); !r.Done || !slices.Equal(left, slices.Sorted(slices.Values(others))) {
				t.Fatalf("many %v, dead at deletion %d: %v: left %v", many, die, r.Done, left)
			}
			at := func(suffix string) int {
				return slices.IndexFunc(d.deleted, func(n string) bool { return strings.Contains(n, suffix) })
			}
			last := map[bool]string{false: "export.json", true: "tables-claim.json"}[many]
			if at("manifest.json") != 0 || at("data/") > at("files.jsonl") || at("files.jsonl") > at("export.json") || d.deleted[len(d.deleted)-1] != last {
				t.Fatalf("deleted in this order: %v", d.deleted)
			}
			if !died {
				break
			}
		}
	}
}

// What is another's, or not as it was written, stays as it is.
func TestRemoveRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, id string
		many     bool
		change   func(to place.Objects)
		want     string
	}{
		{"another export", "id-other", false, nil, "is that of id-one now"},
		{"another export of many", "all", true, func(to place.Objects) { proof.Must(t, place.ClaimTables(t.Context(), to, tablesClaim("new"))) }, "is that of new now"},
		{"a list of others", "id-one", false, func(to place.Objects) {
			text := strings.Replace(content(t, to)["files.jsonl"], "data/000000", "data/000001", 1)
			proof.Must(t, to.Delete(t.Context(), "files.jsonl"))
			_, err := to.Put(t.Context(), "files.jsonl", []byte(text))
			proof.Must(t, err)
		}, "is not the list that manifest.json vouches for"},
		{"nothing", "id-one", true, nil, ""}, // as when somebody has deleted the export
	} {
		to, _ := inBlobs(t)
		w, err := place.Create(t.Context(), to, place.NewClaim("id-one", nil, began, "test"), place.Options{Compress: place.None})
		proof.Must(t, err)
		proof.Must(t, complete(t, w, w.Add(oddRows(t, 9)), manifest(place.Options{Compress: place.None})))
		if tt.change != nil {
			tt.change(to)
		}
		was := len(content(t, to))
		most := 100
		r, err := place.Remove(t.Context(), to, tt.id, tt.many, place.Removal{}, &most)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || r.Done != (err == nil) {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
		}
		if n := len(content(t, to)); n != was {
			t.Errorf("%s: %d objects of %d are left", tt.name, n, was)
		}
	}
}

// Processes that delete an export at once don't hinder each other.
func TestRemoveTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to, em := inBlobs(t)
		exportTables(t, to)
		proof.Must(t, em.SetFaults("seed=1; latency=1ms..9ms"))
		var g task.Group
		for i := range 40 {
			g.Go(func() error {
				most := 100
				time.Sleep(time.Duration(i) * 1100 * time.Microsecond) // so that one meets what another has just deleted
				r, err := place.Remove(t.Context(), to, "all", true, place.Removal{}, &most)
				if err == nil && !r.Done {
					err = errors.New("not done")
				}
				return err
			})
		}
		proof.Must(t, g.Wait())
		if left := content(t, to); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
