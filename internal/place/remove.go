package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"tablesweep/internal/storage"
)

// Removal is the progress of an export's deletion.
type Removal struct {
	// Tables is set only for an export of many tables. While Gone is false, Tables counts the tables whose data has been deleted. When
	// Gone becomes true, Tables restarts at 0, and counts the tables whose lists have been deleted.
	Tables int  `json:"tables,omitempty"`
	Files  int  `json:"files,omitempty"` // how many data files of the current table are deleted
	Gone   bool `json:"gone,omitempty"`  // all data is deleted, so the lists can be deleted
	Done   bool `json:"-"`               // everything is deleted
}

// Remove deletes an export of one table or of many, or continues a deletion. *left is the approximate number of objects
// that this call may still delete. Remove deletes only the objects that the export's lists name, and objects that late
// steps of the export's scan have written to the same place. It deletes the manifest before the data, so that nobody
// reads the export while it is incomplete. It deletes the claim last, so that an interrupted call can be repeated. It
// deletes nothing if the place belongs to another export, or if a list is missing or was changed.
//
// Remove deletes the export's lists only if from.Gone is set, that is, if all data is deleted. So the caller must store
// each result before the next call. Without the stored result, a deleted list would look like a lost list.
func Remove(ctx context.Context, o Objects, id ExportID, many bool, from Removal, left *int) (Removal, error) {
	r := remover{o, from, left}
	remove := r.removeOne
	if many {
		remove = r.removeTables
	}
	err := remove(ctx, id)
	if err == nil {
		r.Gone, r.Done = true, from.Gone
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("cannot delete the export in %s: %w", o.Address(), err)
	}
	return r.Removal, err
}

// errEnough ends a call that has made all of its allowed deletions.
var errEnough = errors.New("enough for now")

type remover struct {
	Objects
	Removal
	left *int
}

// readIfExists reads an object of the export. If the object does not exist, readIfExists returns nil, because another process may be deleting the
// same export.
func (r *remover) readIfExists(ctx context.Context, name string, most int64) ([]byte, error) {
	text, err := get(ctx, r, name, most)
	if errors.Is(err, fs.ErrNotExist) || storage.NotFound(err) {
		return nil, nil
	}
	return text, err
}

// hasID reports whether the object `name` exists, that is, whether its content `text` is not nil. If the object has the id of
// another export, hasID fails.
func hasID(name string, text []byte, id ExportID, parse func() (ExportID, error)) (bool, error) {
	if text == nil {
		return false, nil
	}
	is, err := parse()
	if err == nil && is != id {
		err = fmt.Errorf("%s now belongs to export %s", name, is)
	}
	return true, err
}

// hasClaim reports whether a claim exists. If the claim belongs to another export, hasClaim fails.
func (r *remover) hasClaim(ctx context.Context, name, format string, id ExportID) (bool, error) {
	text, err := r.readIfExists(ctx, name, MaxManifest)
	if err != nil {
		return false, err
	}
	return hasID(name, text, id, func() (ExportID, error) {
		var c Claim
		err := parse(name, format, text, &c)
		return c.ID, err
	})
}

// tableName matches names of tables. Any other name could lead outside the place.
var tableName = regexp.MustCompile(`^[0-9A-Za-z]+$`)

// removeTables deletes an export of many tables: first the data of all tables, and then the lists of all tables. tables.json names the tables until all of
// them are deleted.
func (r *remover) removeTables(ctx context.Context, id ExportID) error {
	claimed, err := r.hasClaim(ctx, tablesClaimName, tablesFormat, id)
	if err != nil {
		return err
	}
	text, err := r.readIfExists(ctx, TablesName, maxTables)
	if err != nil {
		return err
	}
	var t Tables
	listed, err := hasID(TablesName, text, id, func() (ExportID, error) {
		err := parse(TablesName, tablesFormat, text, &t)
		return t.ID, err
	})
	if err != nil {
		return err
	}
	if !listed && !r.Gone {
		names, err := ExportsIn(ctx, r)
		if len(names) > 0 {
			return lostList(TablesName, "the exports of tables")
		}
		if err != nil && !storage.NotFound(err) {
			return err
		}
	}
	remove := r.removeData
	if r.Gone {
		remove = r.removeLists
	}
	for _, e := range t.Tables[min(r.Tables, len(t.Tables)):] {
		if !tableName.MatchString(e.Name) {
			return fmt.Errorf("%s has the invalid table name %.100q", TablesName, e.Name)
		}
		if err := remove(ctx, e.Name+"/", e.ID); err != nil {
			return err
		}
		r.Tables, r.Files = r.Tables+1, 0
	}
	if !r.Gone {
		r.Tables = 0
		return nil
	}
	if listed || claimed {
		if err := r.removeLate(ctx, id, true); err != nil {
			return err
		}
		return r.inTurn(ctx, TablesName, tablesClaimName)
	}
	return nil
}

func (r *remover) removeOne(ctx context.Context, id ExportID) error {
	if !r.Gone {
		return r.removeData(ctx, "", id)
	}
	if _, err := r.hasClaim(ctx, ClaimName, format, id); err != nil {
		return err
	}
	if err := r.removeLate(ctx, id, false); err != nil {
		return err
	}
	return r.removeLists(ctx, "", id)
}

// lostList is the error if a list is missing, but the data that it listed still exists.
func lostList(name, what string) error {
	return fmt.Errorf("%s is missing, but %s still exist; delete them by hand", name, what)
}

// stepFile matches the names of data files that the app's steps write.
var stepFile = regexp.MustCompile(`^data/[0-9a-v]{24}-[0-9a-f]{16}\.jsonl\.zst$`)

// Withdraw gives up an export of one table: it deletes the export's claim. A missing claim, or a claim of another export, is
// not an error.
func Withdraw(ctx context.Context, o Objects, id ExportID) error {
	return withdraw(ctx, o, Claim{preamble: preamble{format, version, id}})
}

func withdraw(ctx context.Context, o Objects, c Claim) error {
	r := remover{Objects: o}
	text, err := r.readIfExists(ctx, c.name(), MaxManifest)
	if err != nil || text == nil {
		return err
	}
	var there Claim
	if err := parse(c.name(), c.Format, text, &there); err != nil || there.ID != c.ID {
		return err
	}
	return o.Delete(ctx, c.name())
}

// ClearLate deletes the objects that steps of the app wrote to an export after its deletion. If the place has a new
// export, ClearLate deletes nothing.
func ClearLate(ctx context.Context, o Objects) error {
	var late []string
	err := o.List(ctx, DataPrefix, func(name string, _ int64) error {
		if stepFile.MatchString(name) {
			late = append(late, name)
		}
		return nil
	})
	if err != nil && !storage.NotFound(err) {
		return err
	}
	name, err := firstOf(ctx, o, ClaimName, ManifestName, FilesName) // after the listing: if the listing found data of a new export, the claim of that export already exists
	if err != nil || name != "" {
		return err
	}
	return forEach(late, func(i int) error { return o.Delete(ctx, late[i]) })
}

// removeLate deletes objects that late steps have written to an export whose data is deleted. For an export of many tables,
// removeLate also deletes the objects and claims of tables that the export does not list. A prefix with a manifest or a
// list of files belongs to another export, so removeLate keeps all objects of this prefix.
func (r *remover) removeLate(ctx context.Context, id ExportID, many bool) error {
	if *r.left <= 0 {
		return errEnough
	}
	late, taken, in := map[string][]string{}, map[string]bool{}, DataPrefix // both maps have the prefixes of exports as keys
	if many {
		in = ""
	}
	err := r.List(ctx, in, func(name string, _ int64) error {
		prefix, object := "", name
		if many {
			table, rest, _ := strings.Cut(name, "/")
			prefix, object = table+"/", rest
		}
		switch {
		case stepFile.MatchString(object), object == ClaimName:
			late[prefix] = append(late[prefix], name)
		case object == ManifestName, object == FilesName:
			taken[prefix] = true
		}
		return nil
	})
	if storage.NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []string
	for prefix, names := range late {
		if claim := prefix + ClaimName; slices.Contains(names, claim) {
			text, err := r.readIfExists(ctx, claim, MaxManifest)
			if err != nil {
				return err
			}
			var c Claim
			if parse(claim, format, text, &c) != nil || !strings.HasPrefix(string(c.ID), string(id)+"-") {
				continue
			}
		}
		if !taken[prefix] {
			all = append(all, names...)
		}
	}
	some := all[:min(*r.left, len(all))]
	*r.left -= len(some)
	if err := forEach(some, func(i int) error { return r.Delete(ctx, some[i]) }); err != nil || len(some) == len(all) {
		return err
	}
	return errEnough
}

// removeData deletes the data of one table's export, whose objects have names with the prefix.
func (r *remover) removeData(ctx context.Context, prefix string, id ExportID) error {
	if *r.left <= 0 {
		return errEnough
	}
	claimed, err := r.hasClaim(ctx, prefix+ClaimName, format, id)
	if err != nil {
		return err
	}
	var m Manifest
	text, err := r.readIfExists(ctx, prefix+ManifestName, MaxManifest)
	if err != nil {
		return err
	}
	sealed, err := hasID(prefix+ManifestName, text, id, func() (_ ExportID, err error) {
		m, err = ParseManifest(text)
		return m.ID, err
	})
	if err != nil {
		return err
	}
	var paths []string
	hash, err := eachFile(ctx, r, prefix+FilesName, func(f File) error {
		paths = append(paths, prefix+f.Path)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || storage.NotFound(err):
		return r.removeDataWithoutFiles(ctx, prefix, sealed)
	case err != nil:
		return err
	case !claimed && !sealed:
		return lostList(prefix+ClaimName, "the export's objects")
	case sealed && m.Files.SHA256 != hash:
		return fmt.Errorf("the hash of %s differs from the hash in %s", prefix+FilesName, ManifestName)
	case sealed:
		if !claimed { // after the manifest is deleted, only the claim contains the export's id
			_, err = r.Put(ctx, prefix+ClaimName, NewClaim(id, nil, m.StartedAt, m.Program).JSON())
		}
		if err == nil {
			err = r.Delete(ctx, prefix+ManifestName)
		}
	}
	if err != nil {
		return err
	}
	paths = paths[min(r.Files, len(paths)):]
	some := paths[:min(*r.left, len(paths))]
	if err := forEach(some, func(i int) error { return r.Delete(ctx, some[i]) }); err != nil {
		return err
	}
	r.Files += len(some)
	*r.left -= len(some)
	if len(some) < len(paths) {
		return errEnough
	}
	return nil
}

// removeDataWithoutFiles is removeData for an export that lacks files.jsonl. It fails if data files exist, because nothing lists them.
func (r *remover) removeDataWithoutFiles(ctx context.Context, prefix string, sealed bool) (err error) {
	left := false
	err = r.List(ctx, prefix+DataPrefix, func(name string, _ int64) error {
		left = left || Leftover(name[len(prefix):])
		return nil
	})
	if left {
		return lostList(prefix+FilesName, "data files")
	}
	if storage.NotFound(err) {
		return nil
	}
	if err == nil && sealed {
		err = r.Delete(ctx, prefix+ManifestName)
	}
	return err
}

// removeLists deletes the remaining objects of an export whose data is deleted.
func (r *remover) removeLists(ctx context.Context, prefix string, id ExportID) error {
	if *r.left <= 0 {
		return errEnough
	}
	if _, err := r.hasClaim(ctx, prefix+ClaimName, format, id); err != nil {
		return err
	}
	*r.left -= 3 // counts these two objects, and the manifest that was deleted earlier
	return r.inTurn(ctx, prefix+FilesName, prefix+ClaimName)
}

func (r *remover) inTurn(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := r.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
