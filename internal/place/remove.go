package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"tablesweep/internal/storage"
)

// Removal is how far the deletion of an export has come.
type Removal struct {
	Tables int  `json:"tables,omitempty"` // of an export of many: those of which nothing is left
	Files  int  `json:"files,omitempty"`  // data files of the next one that are gone
	Done   bool `json:"-"`                // nothing is left
}

// Remove deletes an export, of one table or of many, or goes on with that. left, which it lowers, bounds the deletions, nearly. It deletes what the export's
// own lists name, and nothing else. A manifest goes before what it vouches for, and the claim last: whoever reads meanwhile is refused, and a
// call that is cut off can be repeated. It deletes nothing if the place belongs to another export, or if a list is not as it was written.
func Remove(ctx context.Context, o Objects, id string, many bool, from Removal, left *int) (Removal, error) {
	r := remover{o, from, left}
	remove := r.export
	if many {
		remove = r.tables
	}
	err := remove(ctx, "", id)
	r.Done = err == nil
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

// claimed reports whether a claim is there, and fails if it is that of another export. Without one nothing is left, or nothing is ours.
func (r *remover) claimed(ctx context.Context, name, format, id string) (bool, error) {
	var c Claim
	text, err := get(ctx, r, name, MaxManifest) // read once: another process may be at the same deletion
	if errors.Is(err, fs.ErrNotExist) || storage.NotFound(err) {
		return false, nil
	}
	if err == nil {
		err = parse(name, format, text, &c)
	}
	if err == nil && c.ID != id {
		err = fmt.Errorf("%s is that of %s now", name, c.ID)
	}
	return true, err
}

// plain matches names of tables. Others may lead elsewhere.
var plain = regexp.MustCompile(`^[0-9A-Za-z]+$`)

// tables deletes an export of many tables, one after the other. tables.json names them until none is left.
func (r *remover) tables(ctx context.Context, _, id string) error {
	if there, err := r.claimed(ctx, tablesClaimName, tablesFormat, id); err != nil || !there {
		return err
	}
	var t Tables
	text, err := get(ctx, r, TablesName, maxTables)
	if err == nil {
		err = parse(TablesName, tablesFormat, text, &t)
	}
	if err == nil && t.ID != id {
		err = fmt.Errorf("%s is that of %s now", TablesName, t.ID)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range t.Tables[min(r.Tables, len(t.Tables)):] {
		if !plain.MatchString(e.Name) {
			return fmt.Errorf("%s has a table %.100q", TablesName, e.Name)
		}
		if err := r.export(ctx, e.Name+"/", e.ID); err != nil {
			return err
		}
		r.Tables, r.Files = r.Tables+1, 0
	}
	return r.inTurn(ctx, TablesName, tablesClaimName)
}

// export deletes the export of one table. Its objects' names begin with a prefix.
func (r *remover) export(ctx context.Context, prefix, id string) error {
	if *r.left <= 0 {
		return errEnough
	}
	if there, err := r.claimed(ctx, prefix+ClaimName, format, id); err != nil || !there {
		return err
	}
	var paths []string
	hash, err := eachFile(ctx, r, prefix+FilesName, func(f File) error {
		paths = append(paths, prefix+f.Path)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := get(ctx, r, prefix+ManifestName, MaxManifest)
	if err == nil {
		var m Manifest
		if m, err = ParseManifest(text); err == nil && (m.ID != id || m.Files.SHA256 != hash) {
			err = fmt.Errorf("%s is not the list that %s vouches for", prefix+FilesName, ManifestName)
		}
		if err == nil {
			err = r.Delete(ctx, prefix+ManifestName)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	*r.left -= 3 // the other objects
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
