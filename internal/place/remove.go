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

// Removal is how far the deletion of an export has come.
type Removal struct {
	Tables int  `json:"tables,omitempty"` // of an export of many: those whose data is gone, and then those of which nothing is left
	Files  int  `json:"files,omitempty"`  // data files of the next one that are gone
	Gone   bool `json:"gone,omitempty"`   // all data is gone, and the lists go next
	Done   bool `json:"-"`                // nothing is left
}

// Remove deletes an export, of one table or of many, or goes on with that. left, which it lowers, bounds the deletions, nearly. It deletes what the export's
// own lists name, what late steps of its scan have put beside that, and nothing else. A manifest goes before what it vouches for, and the claim last: whoever reads meanwhile is refused, and a
// call that is cut off can be repeated. It deletes nothing if the place belongs to another export, or if a list is lost or not as it was written.
//
// Lists go only if from says that the data is gone. So the caller keeps what a call returns before it makes the next one: a list that was
// deleted then never looks like one that was lost.
func Remove(ctx context.Context, o Objects, id string, many bool, from Removal, left *int) (Removal, error) {
	r := remover{o, from, left}
	remove := r.one
	if many {
		remove = r.tables
	}
	err := remove(ctx, id)
	if err == nil {
		r.Gone, r.Done = true, from.Gone
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("delete the export in %s: %w", o.Address(), err)
	}
	return r.Removal, err
}

// errEnough ends a call that has deleted as much as it may.
var errEnough = errors.New("enough for now")

type remover struct {
	Objects
	Removal
	left *int
}

// read reads an object that is deleted, once: another process may be at the same deletion. Without one, it returns nil.
func (r *remover) read(ctx context.Context, name string, most int64) ([]byte, error) {
	text, err := get(ctx, r, name, most)
	if errors.Is(err, fs.ErrNotExist) || storage.NotFound(err) {
		return nil, nil
	}
	return text, err
}

// owned reports whether an object is there that says whose export it is, and fails if that is another one.
func owned(name string, text []byte, id string, parse func() (string, error)) (bool, error) {
	if text == nil {
		return false, nil
	}
	is, err := parse()
	if err == nil && is != id {
		err = fmt.Errorf("%s is that of %s now", name, is)
	}
	return true, err
}

// claimed reports whether a claim is there, and fails if it is that of another export.
func (r *remover) claimed(ctx context.Context, name, format, id string) (bool, error) {
	text, err := r.read(ctx, name, MaxManifest)
	if err != nil {
		return false, err
	}
	return owned(name, text, id, func() (string, error) {
		var c Claim
		err := parse(name, format, text, &c)
		return c.ID, err
	})
}

// plain matches names of tables. Others may lead elsewhere.
var plain = regexp.MustCompile(`^[0-9A-Za-z]+$`)

// tables deletes an export of many tables, one after the other: first the data of each, and then the lists of each. tables.json names them
// until none is left.
func (r *remover) tables(ctx context.Context, id string) error {
	claimed, err := r.claimed(ctx, tablesClaimName, tablesFormat, id)
	if err != nil {
		return err
	}
	text, err := r.read(ctx, TablesName, maxTables)
	if err != nil {
		return err
	}
	var t Tables
	listed, err := owned(TablesName, text, id, func() (string, error) {
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
		if err != nil && !storage.NotFound(err) { // the container
			return err
		}
	}
	remove := r.data
	if r.Gone {
		remove = r.lists
	}
	for _, e := range t.Tables[min(r.Tables, len(t.Tables)):] {
		if !plain.MatchString(e.Name) {
			return fmt.Errorf("%s has a table %.100q", TablesName, e.Name)
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
		if err := r.late(ctx, id, true); err != nil {
			return err
		}
		return r.inTurn(ctx, TablesName, tablesClaimName)
	}
	return nil
}

// one deletes the data of the export of one table, or its lists.
func (r *remover) one(ctx context.Context, id string) error {
	if !r.Gone {
		return r.data(ctx, "", id)
	}
	if _, err := r.claimed(ctx, ClaimName, format, id); err != nil {
		return err
	}
	if err := r.late(ctx, id, false); err != nil {
		return err
	}
	return r.lists(ctx, "", id)
}

// lostList is the error for a list that is not there although there is what it has named.
func lostList(name, what string) error {
	return fmt.Errorf("%s is lost, and %s are there, which nothing names any more; delete them by hand", name, what)
}

// stepFile matches the names of data files that steps of the app put.
var stepFile = regexp.MustCompile(`^data/[0-9a-v]{24}-[0-9a-f]{16}\.jsonl\.zst$`)

// Withdraw takes back the claim of an export of one table that will never be complete. One that is not there, or is another's, is no error.
func Withdraw(ctx context.Context, o Objects, id string) error {
	return withdraw(ctx, o, Claim{preamble: preamble{format, version, id}})
}

// withdraw takes back a claim, of one table or of many.
func withdraw(ctx context.Context, o Objects, c Claim) error {
	r := remover{Objects: o}
	text, err := r.read(ctx, c.name(), MaxManifest)
	if err != nil || text == nil {
		return err
	}
	var there Claim
	if err := parse(c.name(), c.Format, text, &there); err != nil || there.ID != c.ID {
		return err
	}
	return o.Delete(ctx, c.name())
}

// ClearLate deletes what late steps of the app have put into a place that has no export any more.
func ClearLate(ctx context.Context, o Objects) error {
	var late []string
	err := o.List(ctx, DataPrefix, func(name string, _ int64) error {
		if stepFile.MatchString(name) {
			late = append(late, name)
		}
		return nil
	})
	if err != nil && !storage.NotFound(err) { // the container
		return err
	}
	name, err := firstOf(ctx, o, ClaimName, ManifestName, FilesName) // behind the list: a new export has its claim before its data
	if err != nil || name != "" {
		return err
	}
	return each(late, func(i int) error { return o.Delete(ctx, late[i]) })
}

// late deletes what late steps have put into an export whose data is gone. Of an export of many tables, it also deletes what was put for tables that
// were left out, with their claims. What stands beside the objects of somebody else's export is theirs.
func (r *remover) late(ctx context.Context, id string, many bool) error {
	if *r.left <= 0 {
		return errEnough
	}
	late, taken, in := map[string][]string{}, map[string]bool{}, DataPrefix // by what begins the names of an export's objects
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
	if storage.NotFound(err) { // the container
		return nil
	}
	if err != nil {
		return err
	}
	var all []string
	for prefix, names := range late {
		if claim := prefix + ClaimName; slices.Contains(names, claim) {
			text, err := r.read(ctx, claim, MaxManifest)
			if err != nil {
				return err
			}
			var c Claim
			if parse(claim, format, text, &c) != nil || !strings.HasPrefix(c.ID, id+"-") {
				continue
			}
		}
		if !taken[prefix] {
			all = append(all, names...)
		}
	}
	some := all[:min(*r.left, len(all))]
	*r.left -= len(some)
	if err := each(some, func(i int) error { return r.Delete(ctx, some[i]) }); err != nil || len(some) == len(all) {
		return err
	}
	return errEnough
}

// data deletes the data of the export of one table. Its objects' names begin with a prefix.
func (r *remover) data(ctx context.Context, prefix, id string) error {
	if *r.left <= 0 {
		return errEnough
	}
	claimed, err := r.claimed(ctx, prefix+ClaimName, format, id)
	if err != nil {
		return err
	}
	var m Manifest
	text, err := r.read(ctx, prefix+ManifestName, MaxManifest)
	if err != nil {
		return err
	}
	sealed, err := owned(prefix+ManifestName, text, id, func() (_ string, err error) {
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
		return r.withoutFiles(ctx, prefix, sealed)
	case err != nil:
		return err
	case !claimed && !sealed:
		return lostList(prefix+ClaimName, "the export's objects")
	case sealed && m.Files.SHA256 != hash:
		return fmt.Errorf("%s is not the list that %s vouches for", prefix+FilesName, ManifestName)
	case sealed:
		if !claimed { // else nothing would have the id once the manifest is gone
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
	if err := each(some, func(i int) error { return r.Delete(ctx, some[i]) }); err != nil {
		return err
	}
	r.Files += len(some)
	*r.left -= len(some)
	if len(some) < len(paths) {
		return errEnough
	}
	return nil
}

// withoutFiles is data for an export without a list of its files: somebody has deleted that, or all of it.
func (r *remover) withoutFiles(ctx context.Context, prefix string, sealed bool) (err error) {
	left := false
	err = r.List(ctx, prefix+DataPrefix, func(name string, _ int64) error {
		left = left || Leftover(name[len(prefix):])
		return nil
	})
	if left {
		return lostList(prefix+FilesName, "data files")
	}
	if storage.NotFound(err) { // the container
		return nil
	}
	if err == nil && sealed {
		err = r.Delete(ctx, prefix+ManifestName)
	}
	return err
}

// lists deletes what is left of an export whose data is gone.
func (r *remover) lists(ctx context.Context, prefix, id string) error {
	if *r.left <= 0 {
		return errEnough
	}
	if _, err := r.claimed(ctx, prefix+ClaimName, format, id); err != nil {
		return err
	}
	*r.left -= 3 // with the manifest
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
