package job

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/place"
)

// Option is an option of a command, with the value that the caller has given.
type Option struct {
	jobrecord.Option
	Kind Kind
	SAS  bool // the option's place has a SAS, which Value omits
}

// Kind is the kind of an option's value.
type Kind int

// The kinds of values.
const (
	Plain       Kind = iota
	AConnection      // a connection, or the name of a setting that contains one
	APlace           // see [Place]
	AProgram         // the text of a program, or @FILE
)

// IsSetting reports whether a connection is the name of a setting, and therefore not secret.
func IsSetting(connection string) bool { return !strings.ContainsAny(connection, "=:/") }

// Checkpoint opens, makes and describes the checkpoint from which a command can be resumed.
type Checkpoint struct {
	Command     string         // the command's name, which the record must contain
	New, Resume string         // New is the file to create. Resume is the file to resume from, or its directory. Either may be ""
	In          string         // the file's name if New is a directory; otherwise ""
	Export      place.ExportID // the id of the command's export of many tables; "" for other commands
	File        *journal.File
	Record      jobrecord.Record
}

// Open opens the checkpoint to resume from. It returns the recorded values of the options that are not given.
func (p *Checkpoint) Open(options []Option) (set map[string]string, err error) {
	path, export := p.Resume, false
	if IsDirectory(path) {
		path, export = journalIn(path)
	}
	switch p.File, err = journal.Read(path); {
	case errors.Is(err, fs.ErrNotExist) && export:
		return nil, withoutJournal(p.Resume)
	case err != nil:
		return nil, BadCheckpoint(err)
	}
	if p.Record, err = jobrecord.Parse(p.File.Job(), p.Command); err == nil {
		p.Export = place.ExportID(p.Record.Export)
		set, err = p.restore(options, export)
	}
	if err != nil {
		return nil, Refuse("resume", " %s: %w", p.Resume, err)
	}
	return set, nil
}

// journalIn returns the path of the journal in a directory. If the directory contains an export of one table, complete or
// unfinished, the result `export` is true. Otherwise, the journal is the journal of a command that processes many tables.
func journalIn(dir string) (path string, export bool) {
	for _, name := range []string{place.JournalName, place.ClaimName} {
		export = export || IsThere(filepath.Join(dir, name))
	}
	if export {
		return filepath.Join(dir, place.JournalName), true
	}
	return filepath.Join(dir, TablesJournal), false
}

// withoutJournal returns the error for a directory with an export that cannot be resumed.
func withoutJournal(dir string) error {
	if IsThere(filepath.Join(dir, place.ManifestName)) {
		return Refuse("resume", ": %s is a complete export; nothing is left to do", dir)
	}
	return Hint(Refuse("resume", ": %s has no %s: the file was removed, or another version of this program has begun the export", dir, place.JournalName), "export to another directory")
}

// restore returns the recorded values of the options that are not given. An export's record omits the export's path, because the export may have been
// moved.
func (p *Checkpoint) restore(options []Option, export bool) (map[string]string, error) {
	home, values := homeOf(p.Resume), map[string]string{}
	for _, o := range options {
		kept, ok := p.Record.Flags[o.Name]
		if !ok {
			continue
		}
		if values[o.Name], ok = o.fromRecord(kept, home); !ok {
			delete(p.Record.Flags, o.Name)
			p.Record.Again = append(p.Record.Again, o.Name)
		}
	}
	if export {
		to := p.Resume
		if kind, err := place.KindOf(to); err != nil || kind != place.KindExport {
			to = strings.TrimRight(to, "/") + "/"
		}
		values["to"] = to
		p.Record.Flags["to"], _ = relativeTo(home, to)
	}
	set, err := p.Record.Restore(recordForms(options, home))
	for name := range set {
		set[name] = values[name]
	}
	return set, err
}

// recordForms returns the options in the form in which a record stores them. The argument `home` is the directory of the record's file.
func recordForms(options []Option, home string) (all []jobrecord.Option) {
	for _, o := range options {
		switch {
		case o.Value == o.Default:
		case o.SAS || o.leadsElsewhere(o.Value):
			o.Again = true
		case o.isPath(o.Value):
			rel, ok := relativeTo(home, o.Value)
			if o.Again = !ok; ok {
				o.Value = rel
			}
		}
		all = append(all, o.Option)
	}
	return all
}

// homeOf returns the directory to which the paths in a record are relative: the parent of the checkpoint's file or directory.
func homeOf(path string) string {
	if path = filepath.Clean(path); strings.HasSuffix(path, ".") { // filepath.Dir does not return the parent of "." or ".."
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	return filepath.Dir(path)
}

// relativeTo returns the path of a file relative to a directory. The path begins with ./, so it is never mistaken for a table's name. ok is false
// if the file is outside the directory.
func relativeTo(home, path string) (rel string, ok bool) {
	from, err := filepath.Abs(home)
	to, toErr := filepath.Abs(path)
	rel, relErr := filepath.Rel(from, to)
	return "./" + filepath.ToSlash(rel), errors.Join(err, toErr, relErr) == nil && rel != "." && filepath.IsLocal(rel)
}

// InResumedDirectory reports whether a file is within the directory of the resumed checkpoint. A resumed command accepts a recorded path only if the
// file is in this directory.
func (p *Checkpoint) InResumedDirectory(path string) bool {
	_, ok := relativeTo(homeOf(p.Resume), path)
	return ok
}

// fromRecord converts the recorded form of an option to the option's value. ok is false if a record must not choose this value, because the
// value may lead to another account or to a file outside the directory home.
func (o Option) fromRecord(kept, home string) (value string, ok bool) {
	switch {
	case o.leadsElsewhere(kept), o.Kind == AProgram && strings.HasPrefix(kept, "@"): // the record must not choose a file whose content would be run as a program
		return "", false
	case !o.isPath(kept):
		return kept, true
	case !filepath.IsLocal(filepath.FromSlash(kept)) || file.ByLink(home, kept):
		return "", false
	}
	value = filepath.Join(home, filepath.FromSlash(kept))
	if !o.isPath(value) {
		value = "./" + value
	}
	return value, true
}

// leadsElsewhere reports whether a value is a connection or a URL, which may lead to any account. For the name of a setting, the result
// is false.
func (o Option) leadsElsewhere(value string) bool {
	return o.Kind == AConnection && !IsSetting(value) || o.Kind == APlace && place.IsURL(value)
}

// isPath reports whether a value is the path of a file or a directory. It checks only the text of the value. The names of tables and blobs are not
// paths, and "-" is not a path.
func (o Option) isPath(value string) bool {
	if o.Kind == APlace && !place.InBlobs(value) {
		kind, _ := place.KindOf(value)
		return kind == place.KindExport || kind == place.KindFile
	}
	return o.Keep == jobrecord.File || o.Keep == jobrecord.AnyFile
}

// Begin makes a new checkpoint of a job if one was requested, or continues the open checkpoint.
func (p *Checkpoint) Begin(options []Option, facts Facts) (r Record, err error) {
	if p.File != nil {
		if err := p.Record.CheckPlaces(facts.Places); err != nil {
			return r, Refusal{Err: err}
		}
		return Record{Journal: p.File}, nil
	}
	home, path := "", p.New
	if path != "" {
		home, path = homeOf(path), filepath.Join(path, p.In)
	}
	p.Record = jobrecord.New(p.Command, recordForms(options, home), facts.Places, facts.Digest)
	p.Record.Export = string(p.Export)
	r.Request = p.Record.JSON()
	if path == "" {
		return r, nil
	}
	p.File, err = journal.New(path, r.Request)
	switch {
	case errors.Is(err, fs.ErrExist):
		return r, Hint(Refuse("", "checkpoint %w", err), "--resume continues from this checkpoint; remove the checkpoint to start over")
	case err != nil && IsDirectory(path):
		return r, Hint(Refuse("checkpoint", ": %s is a directory", path), "name a file in it")
	case errors.Is(err, file.ErrNotRegular):
		return r, Hint(Refuse("", "checkpoint %w", err), "a command can resume only from a regular file; name a regular file, or leave --checkpoint out")
	case err != nil:
		return r, Refuse("", "checkpoint %w", err)
	}
	r.Journal = p.File
	return r, nil
}

// ResumeOptions returns the options that a user must give to resume from the checkpoint: --resume, and the options that [jobrecord.Record.Required]
// names.
func (p *Checkpoint) ResumeOptions(options []Option) string {
	text := " --resume " + cmp.Or(p.Resume, p.New)
	required := p.Record.Required(recordForms(options, ""))
	for _, o := range options {
		switch _, found := slices.BinarySearch(required, o.Name); {
		case !found:
			continue
		case o.SAS:
			o.Value += "?SAS"
		case o.Kind == AConnection && !IsSetting(o.Value):
			o.Value = "CONNECTION" // the connection may be secret
		}
		text += " --" + o.Name + " " + o.Value
	}
	return text
}
