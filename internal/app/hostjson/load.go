package hostjson

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Load reads host.json in the root directory fsys. `lookup` returns the value of a setting, or "". The error lists all mistakes, with file and field.
func Load(fsys fs.FS, lookup func(name string) string) (App, error) {
	p := &problems{}
	x := expander{setting: lookup, problems: p}
	data, err := fs.ReadFile(fsys, "host.json")
	if err != nil {
		return App{}, fmt.Errorf("not the root of a function app: %w", err)
	}
	var a App
	a.readHost(data, x, p)
	return a, errors.Join(p.errs...)
}

// LocalSettings reads the values of local.settings.json. If the file is missing, there are no values.
func LocalSettings(fsys fs.FS) (map[string]string, error) {
	const file = "local.settings.json"
	data, err := fs.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &problems{}
	o := parseObject(file, data, p)
	if o.flag("IsEncrypted", false) {
		p.addf("%s is encrypted; decrypt it by \"func settings decrypt\"", file)
	}
	var values map[string]string
	o.take("Values", "an object whose values are strings", &values)
	o.ignore("Host", "ConnectionStrings", "$schema")
	o.done()
	spelled := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if other, twice := spelled[strings.ToLower(name)]; twice {
			p.addf("%s: %s and %s differ only in upper and lower case; remove one", file, other, name)
		}
		spelled[strings.ToLower(name)] = name
	}
	return values, errors.Join(p.errs...)
}

// expander replaces %NAME% with the setting NAME.
type expander struct {
	setting  func(name string) string
	problems *problems
}

var percent = regexp.MustCompile(`%([^%]+)%`)

func (x expander) expand(place, s string) string {
	return percent.ReplaceAllStringFunc(s, func(ref string) string {
		v := x.setting(strings.Trim(ref, "%"))
		if v == "" {
			x.problems.addf("%s: setting %s is missing", place, strings.Trim(ref, "%"))
		}
		return v
	})
}
