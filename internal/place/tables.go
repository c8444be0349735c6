package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// The names of the objects of an export of many tables.
const (
	tablesClaimName = "tables-claim.json"
	TablesName      = "tables.json"
)

const (
	tablesFormat = "tablesweep-tables"
	maxTables    = 64 << 20 // the maximum number of bytes of tables.json
	tablesAtOnce = 8        // the maximum number of manifests that are read concurrently
	maxNamed     = 10       // the maximum number of tables that an error names
)

// Tables is the content of tables.json, the manifest of an export of many tables.
type Tables struct {
	preamble
	Account    string        `json:"account"`    // "" for the exports of several accounts
	StartedAt  time.Time     `json:"startedAt"`  // the earliest startedAt in the tables' manifests
	FinishedAt time.Time     `json:"finishedAt"` // the latest finishedAt in the tables' manifests
	Tables     []TableExport `json:"tables"`     // sorted by name
}

// TableExport describes one table's export in tables.json.
type TableExport struct {
	Name     string   `json:"name"`
	ID       ExportID `json:"id"`
	Rows     int64    `json:"rows"`
	Manifest string   `json:"manifest"` // the SHA-256 of the table's manifest.json
}

// NewTablesClaim returns the claim of an export of many tables.
func NewTablesClaim(id ExportID, request json.RawMessage, startedAt time.Time, program string) Claim {
	return Claim{preamble: preamble{tablesFormat, version, id}, Request: request, StartedAt: startedAt, Program: program}
}

// Claimed reports whether a place has the claim of an export of one table or of many.
func Claimed(ctx context.Context, o Objects) (bool, error) {
	name, err := firstOf(ctx, o, ClaimName, tablesClaimName)
	return name != "", err
}

// FreeOfTables fails with [ErrTaken] if the place contains a complete or unfinished export, or lies within one.
func FreeOfTables(ctx context.Context, to Objects) error {
	name, err := firstOf(ctx, to, markers...)
	if name != "" {
		err = fmt.Errorf("%w: it contains %s", ErrTaken, name)
	}
	if err == nil {
		err = checkApart(ctx, to, 0)
	}
	return ofTables(to, err)
}

// ofTables adds the place's address to the error [ErrTaken].
func ofTables(to Objects, err error) error {
	if errors.Is(err, ErrTaken) {
		err = fmt.Errorf("%s %w", to.Address(), err)
	}
	return err
}

// firstOf returns the first name for which an object exists, or "".
func firstOf(ctx context.Context, o Objects, names ...string) (string, error) {
	for _, name := range names {
		switch _, err := o.Get(ctx, name, 0, 1); {
		case err == nil:
			return name, nil
		case !errors.Is(err, fs.ErrNotExist) && !storage.Gone(err):
			return "", err
		}
	}
	return "", nil
}

// ClaimTables claims the place for an export of many tables. If `begun` is false, it calls [Take]. If `begun` is true, an earlier process has
// begun the export, so [PutClaim] is enough.
func ClaimTables(ctx context.Context, to Objects, c Claim, begun bool) error {
	if b, ok := to.(*Blobs); ok {
		if err := b.Make(ctx); err != nil {
			return err
		}
	}
	if begun {
		return ofTables(to, PutClaim(ctx, to, c))
	}
	return ofTables(to, Take(ctx, to, c, nil))
}

// SealTables writes tables.json, which makes an export of many tables complete. The call may be repeated, because the content depends only on the
// manifests of the exports.
func SealTables(ctx context.Context, to Objects, id ExportID, names []string) error {
	t := Tables{preamble: preamble{tablesFormat, version, id}, Tables: make([]TableExport, len(names))}
	manifests := make([]Manifest, len(names))
	names = slices.Sorted(slices.Values(names))
	err := forEach(names, func(i int) (err error) {
		text, err := get(ctx, to, names[i]+"/"+ManifestName, MaxManifest)
		if err == nil {
			manifests[i], err = ParseManifest(text)
		}
		m := manifests[i]
		t.Tables[i] = TableExport{names[i], m.ID, m.Rows, hashOf(text)}
		if err != nil {
			err = fmt.Errorf("%s/%s: %w", to.Address(), names[i], err)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, m := range manifests {
		if i == 0 {
			t.Account, t.StartedAt, t.FinishedAt = m.Account, m.StartedAt, m.FinishedAt
		}
		if m.Account != t.Account {
			t.Account = ""
		}
		t.StartedAt = slices.MinFunc([]time.Time{t.StartedAt, m.StartedAt}, time.Time.Compare)
		t.FinishedAt = slices.MaxFunc([]time.Time{t.FinishedAt, m.FinishedAt}, time.Time.Compare)
	}
	return PutSame(ctx, to, TablesName, withChecksum(t))
}

// OpenTables reads tables.json, and checks that the place has exactly the listed exports and that all of them are complete. The error is
// [ErrNoExport] if tables.json is missing. Other errors name the tables that are missing, replaced or incomplete.
func OpenTables(ctx context.Context, from Objects) (t Tables, err error) {
	text, err := get(ctx, from, TablesName, maxTables)
	if errors.Is(err, fs.ErrNotExist) || storage.HasCode(err, "ContainerNotFound") {
		return t, fmt.Errorf("%s %w of many tables: %s", from.Address(), ErrNoExport, explainMissing(from, TablesName))
	}
	if err == nil {
		err = parse(TablesName, tablesFormat, text, &t)
	}
	for i := 1; i < len(t.Tables) && err == nil; i++ {
		if t.Tables[i-1].Name >= t.Tables[i].Name {
			err = fmt.Errorf("%s lists %s twice or out of order", TablesName, t.Tables[i].Name)
		}
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", from.Address(), err)
	}
	existing, err := ExportsIn(ctx, from)
	if err != nil {
		return t, err
	}
	wrong := make([]string, len(t.Tables))
	err = forEach(t.Tables, func(i int) (err error) {
		wrong[i], err = t.Tables[i].defect(ctx, from, existing)
		return err
	})
	if err != nil {
		return t, err
	}
	wrong = slices.DeleteFunc(wrong, func(text string) bool { return text == "" })
	for _, name := range existing {
		if !slices.ContainsFunc(t.Tables, func(e TableExport) bool { return e.Name == name }) {
			wrong = append(wrong, name+" is not in it")
		}
	}
	if n := len(wrong); n > maxNamed {
		wrong = append(wrong[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(wrong) > 0 {
		return t, fmt.Errorf("%s does not match its %s: %s", from.Address(), TablesName, strings.Join(wrong, ", "))
	}
	return t, nil
}

// defect describes the defect of a listed export, or returns "". The argument `existing` lists the exports in the place, complete or not.
func (e TableExport) defect(ctx context.Context, from Objects, existing []string) (string, error) {
	if !slices.Contains(existing, e.Name) {
		return e.Name + " is missing", nil
	}
	text, err := get(ctx, from, e.Name+"/"+ManifestName, MaxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e.Name + " is not a complete export", nil
	case err == nil && hashOf(text) != e.Manifest:
		return e.Name + " is another export", nil
	}
	return "", err
}

// ExportsIn returns the sorted names of the exports in a place, complete or not.
func ExportsIn(ctx context.Context, o Objects) (names []string, err error) {
	err = o.List(ctx, "", func(object string, _ int64) error {
		name, object, _ := strings.Cut(object, "/")
		if object == ClaimName || object == ManifestName || object == JournalName {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// forEach calls the function `do` with the index of each item. It makes several calls concurrently.
func forEach[T any](items []T, do func(i int) error) error {
	var group task.Group
	group.SetLimit(tablesAtOnce)
	for i := range items {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
