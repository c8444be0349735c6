package hostjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// problems collects all mistakes in the app's files.
type problems struct{ errs []error }

func (p *problems) addf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// object reads a JSON object field by field. It reports each field with a wrong type and, at the end, each field that was not read. Names match
// without regard to case, as in the host's configuration.
type object struct {
	place    string // for example host.json: extensions.queues
	fields   map[string]json.RawMessage
	names    map[string]string // names as in the file, by the lower-case name
	problems *problems
	// setting returns the value of the setting that replaces a field, or "". The function may be nil.
	setting func(name string) string
}

func parseObject(place string, data []byte, p *problems) *object {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		p.addf("%s: not a JSON object: %v", place, err)
	}
	o := &object{place: place, fields: map[string]json.RawMessage{}, names: map[string]string{}, problems: p}
	for name, v := range raw {
		o.fields[strings.ToLower(name)] = v
		o.names[strings.ToLower(name)] = name
	}
	return o
}

// overridePrefix is the prefix of settings that replace fields of host.json, such as
// AzureFunctionsJobHost__extensions__queues__batchSize. (Microsoft Learn, "host.json reference for Azure Functions", Override
// host.json values)
const overridePrefix = "AzureFunctionsJobHost__"

// override returns the value of the setting that replaces a field of host.json. The argument `name` is the field's
// name. The value is JSON, which the caller decodes into v. If no setting replaces the field, the second result is
// false.
func (o *object) override(name string, v any) (json.RawMessage, bool) {
	if o.setting == nil {
		return nil, false
	}
	place := strings.TrimPrefix(strings.TrimPrefix(o.at(name), "host.json"), ": ")
	text := o.setting(overridePrefix + strings.ReplaceAll(place, ".", "__"))
	if _, isText := v.(*string); isText && text != "" {
		return json.RawMessage(strconv.Quote(text)), true
	}
	return json.RawMessage(text), text != ""
}

// take decodes a field into v, and reports whether it was present and valid.
func (o *object) take(name, want string, v any) bool {
	raw, ok := o.fields[strings.ToLower(name)]
	if text, replaced := o.override(name, v); replaced {
		raw, ok = text, true
	}
	delete(o.fields, strings.ToLower(name))
	if !ok || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		o.problems.addf("%s must be %s, not %s", o.at(name), want, raw)
		return false
	}
	return true
}

func (o *object) at(name string) string {
	if strings.HasSuffix(o.place, ".json") {
		return o.place + ": " + name
	}
	return o.place + "." + name
}

func (o *object) text(name, fallback string) string {
	o.take(name, "a string", &fallback)
	return fallback
}

func (o *object) texts(name string) (list []string) {
	o.take(name, "a list of strings", &list)
	return list
}

func (o *object) flag(name string, fallback bool) bool {
	o.take(name, "true or false", &fallback)
	return fallback
}

func (o *object) number(name string, fallback, low, high int) int {
	n := fallback
	if o.take(name, "a whole number", &n) && (n < low || n > high) {
		o.problems.addf("%s must be %d to %d, not %d", o.at(name), low, high, n)
		return fallback
	}
	return n
}

func (o *object) span(name string, fallback, low, high time.Duration) time.Duration {
	var s string
	if !o.take(name, `a time span such as "00:00:30"`, &s) {
		return fallback
	}
	d, err := parseTimeSpan(s)
	if err == nil && (d < low || d > high) {
		err = fmt.Errorf("must be %s to %s, not %q", formatTimeSpan(low), formatTimeSpan(high), s)
	}
	if err != nil {
		o.problems.addf("%s: %v", o.at(name), err)
		return fallback
	}
	return d
}

// object returns the object in a field, or an empty one.
func (o *object) object(name string) *object {
	var raw json.RawMessage
	if !o.take(name, "an object", &raw) {
		raw = json.RawMessage("{}")
	}
	child := parseObject(o.at(name), raw, o.problems)
	child.setting = o.setting
	return child
}

// ignore marks fields that have no effect here, so that o.done does not report them.
func (o *object) ignore(names ...string) {
	for _, name := range names {
		delete(o.fields, strings.ToLower(name))
	}
}

// done reports the remaining fields, which are misspelled or unsupported.
func (o *object) done() {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		o.problems.addf("%s is unknown, or the local host does not support it", o.at(o.names[name]))
	}
}
