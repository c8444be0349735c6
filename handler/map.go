package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tablesweep/internal/catalog/load"
	"tablesweep/internal/file"
	"tablesweep/internal/job"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/place"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
)

// programValue is the value of a flag that takes a program, as text or as @FILE. Checkpoints store the text, so a resume does not read the
// file.
type programValue struct{ text *string }

// Set implements [pflag.Value].
func (v programValue) Set(text string) error {
	*v.text = text
	path, named := strings.CutPrefix(text, "@")
	if !named {
		return nil
	}
	content, err := file.PathAt(path).Read()
	if *v.text = string(content); err == nil && strings.HasPrefix(*v.text, "@") {
		*v.text = "\n" + *v.text // without the newline, a resume would mistake a jq format such as @csv for @FILE
	}
	return err
}

// String implements [pflag.Value].
func (v programValue) String() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Type implements [pflag.Value].
func (v programValue) Type() string { return "PROGRAM" }

// mapFlags are the flags that change rows between the source and the destination.
type mapFlags struct {
	program      string
	rename, drop []string
}

// previewed is the number of rows that a dry run shows before and after the map.
const previewed = 20

func (f *mapFlags) options() []option {
	return []option{
		{"map", fixed, programValue{&f.program}, nil, "jq program that replaces each row by zero, one or several rows; @FILE reads the program from FILE"},
		{"rename", fixed, &f.rename, nil, "properties to rename before --map, as OLD=NEW,…"},
		{"drop", fixed, &f.drop, nil, "properties to remove before --map"},
	}
}

// given reports whether any of the flags is given.
func (f *mapFlags) given() bool { return f.program != "" || f.rename != nil || f.drop != nil }

// keepsFor returns an error if the filter compares a property that --drop or --rename changes. A row and its copy differ in such a property, so the
// filter may match only one of the two.
func (f *mapFlags) keepsFor(filter string) error {
	changed := slices.Clone(f.drop)
	for _, pair := range f.rename {
		from, to, _ := strings.Cut(pair, "=")
		changed = append(changed, from, to)
	}
	for _, name := range changed {
		if storage.Compares(filter, name) {
			return usagef("--filter compares %s, but --drop or --rename changes this property, so the source and the destination never become equal; filter by another property", name)
		}
	}
	return nil
}

// open returns the map, or nil if none of the flags is given.
func (f *mapFlags) open() (*rowmap.Map, error) {
	o := rowmap.Options{Rename: map[string]string{}, Drop: f.drop, Program: f.program}
	for _, pair := range f.rename {
		from, to, _ := strings.Cut(pair, "=")
		if !isProperty(from) || !isProperty(to) {
			return nil, usagef("--rename is %q; it must be OLD=NEW, where OLD and NEW are names of properties; to change keys, use --map", pair)
		}
		switch _, twice := o.Rename[from]; {
		case twice:
			return nil, usagef("--rename renames the property %s twice", from)
		case slices.Contains(f.drop, from):
			return nil, usagef("--rename and --drop both name the property %s", from)
		case slices.Contains(slices.Collect(maps.Values(o.Rename)), to):
			return nil, usagef("--rename gives two properties the name %s", to)
		}
		o.Rename[from] = to
	}
	for _, name := range f.drop {
		if !isProperty(name) {
			return nil, usagef("--drop has %q, which is not a property name", name)
		}
	}
	if !f.given() {
		return nil, nil
	}
	m, err := rowmap.New(o)
	if err != nil {
		return nil, job.Hint(usagef("--map %w", err), "see jq's manual; --dry-run shows the rows before and after --map changes them")
	}
	return m, nil
}

func isProperty(name string) bool {
	return storage.IsPropertyName(name) && !slices.Contains([]string{odata.PartitionKey, odata.RowKey, "Timestamp"}, name)
}

// preview is a row before and after the map, as JSON.
type preview struct {
	Before json.RawMessage   `json:"before"`
	After  []json.RawMessage `json:"after"`
	Error  string            `json:"error,omitempty"`
}

// show prints the first rows before and after the map, side by side.
func (f *mapFlags) show(r *call, o job.Options, asJSON bool) error {
	shown := 0
	err := job.Preview(r.ctx, o, previewed, func(before storage.Entity, after []storage.Entity, err error) error {
		shown++
		l := newListing(r.Out, asJSON)
		if asJSON {
			p := preview{Before: before.AppendJSON(nil), After: []json.RawMessage{}}
			for _, row := range after {
				p.After = append(p.After, row.AppendJSON(nil))
			}
			if err != nil {
				p.Error = err.Error()
			}
			l.add(p)
			return l.end()
		}
		head := []string{"", "before"}
		switch {
		case err != nil:
			head = append(head, "fails: "+err.Error())
		case len(after) == 0:
			head = append(head, "no row")
		}
		for range after {
			head = append(head, "after")
		}
		l.add(nil, head...)
		all := append([]storage.Entity{before}, after...)
		for _, name := range namesOf(all) {
			columns := []string{name}
			for _, row := range all {
				columns = append(columns, cellOf(row, name))
			}
			l.add(nil, columns...)
		}
		l.add(nil, "")
		return l.end()
	})
	if err == nil && shown == 0 {
		r.announce("note", "there is no row to show")
	}
	return err
}

// namesOf returns the names of the rows' keys and properties, each name once.
func namesOf(rows []storage.Entity) []string {
	names := []string{odata.PartitionKey, odata.RowKey}
	for _, row := range rows {
		for _, p := range row.Properties {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// cellOf returns the text that a preview shows for a value. The text includes the type if the JSON value does not show the type.
func cellOf(row storage.Entity, name string) string {
	const most = 60
	text := ""
	switch name {
	case odata.PartitionKey:
		text = fmt.Sprintf("%q", row.Key.Partition)
	case odata.RowKey:
		text = fmt.Sprintf("%q", row.Key.Row)
	}
	for _, p := range row.Properties {
		if p.Name == name {
			if text = string(p.Value); p.Type != odata.Implied(p.Value) {
				text += " " + strings.TrimPrefix(p.Type.String(), "Edm.")
			}
		}
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return cmp.Or(text, "-")
}

// csvFlags are the flags about CSV.
type csvFlags struct {
	types     []string
	delimiter string
	format    string // the format of stdin or stdout
}

func (f *csvFlags) options() []option {
	return []option{
		{"types", fixed, &f.types, nil, "types for CSV columns that have no types in the file, as Name:Edm.Int32,…"},
		{"delimiter", fixed, &f.delimiter, ",", "delimiter between the cells of CSV"},
	}
}

// formatOption returns the option --format for stdin and stdout, which have no file name that shows the format.
func (f *csvFlags) formatOption() option {
	return choose("format", fixed, &f.format, "format of stdin and stdout: jsonl or csv", "jsonl or csv", "jsonl", "csv")
}

// isCSV reports whether a place contains CSV.
func (f *csvFlags) isCSV(kind place.Kind, path string) bool {
	return kind == place.KindFile && place.IsCSV(path) || kind == place.KindStream && f.format == "csv"
}

// records returns the form of the CSV file at the path, which contains records of a catalog. If the file is not CSV,
// the flags about CSV cause an error.
func (f *csvFlags) records(r *call, path string) (place.CSV, error) {
	form, err := f.form(func(name string) bool { return name != "" })
	switch {
	case err != nil:
		return place.CSV{}, err
	case !load.IsCSV(path) && (len(f.types) > 0 || f.delimiter != ","):
		return place.CSV{}, usagef("--types and --delimiter are for CSV, but the file's name does not end with .csv")
	}
	form.Mixed = func(text string) { r.Meter.Print("types", text) }
	return *form, nil
}

// forRows returns the form of CSV files that contain rows of a table.
func (f *csvFlags) forRows() (*place.CSV, error) { return f.form(isProperty) }

// form returns the form of CSV that the flags choose. The function isName decides which names are valid in --types.
func (f *csvFlags) form(isName func(string) bool) (*place.CSV, error) {
	d := strings.ReplaceAll(f.delimiter, `\t`, "\t")
	if err := place.CheckDelimiter(d); err != nil {
		return nil, usagef("--delimiter %w", err)
	}
	form := &place.CSV{Delimiter: d[0], Types: map[string]storage.Type{}}
	for _, one := range f.types {
		name, text, _ := strings.Cut(one, ":")
		t, known := odata.ParseType("Edm." + strings.TrimPrefix(text, "Edm."))
		if !known || !isName(name) {
			return nil, usagef("--types has %q; it must be a name and a type of the Table service, such as Name:Edm.Int32", one)
		}
		form.Types[name] = t
	}
	return form, nil
}
