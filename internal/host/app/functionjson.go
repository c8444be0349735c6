package app

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/storage"
)

var (
	// functionName and bindingName are the host's own rules (Utility of azure-functions-host).
	functionName = regexp.MustCompile(`(?i)^[a-z][a-z0-9_-]{0,127}$`)
	bindingName  = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9]{0,127}|\$return)$`)
)

// readFunction reads FUNCTION/function.json and reports whether the function is
// enabled.
func readFunction(name string, data []byte, x expander, p *problems) (Function, bool) {
	place := name + "/function.json"
	f := Function{Name: name}
	if !functionName.MatchString(name) || strings.EqualFold(name, "host") {
		p.addf("%s: %q can't be a function's name: a letter, then letters, digits, _ and -", place, name)
	}
	o := parseObject(place, data, p)
	var list []json.RawMessage
	o.take("bindings", "a list", &list)
	output := ""
	for i, raw := range list {
		b := parseObject(fmt.Sprintf("%s: bindings[%d]", place, i), raw, p)
		if name, kind := f.readBinding(b, x); kind == "http" {
			output = name
		}
	}
	switch {
	case f.Queue == nil && f.Timer == nil && f.HTTP == nil:
		p.addf("%s: bindings has no trigger", place)
	case f.HTTP != nil:
		f.HTTP.Output = output
	case output != "":
		p.addf("%s: bindings: an http output needs an httpTrigger", place)
	}
	disabled := o.flag("disabled", false) || strings.EqualFold(x.setting("AzureWebJobs."+name+".Disabled"), "true")
	o.ignore("$schema", "scriptFile", "entryPoint", "language", "configurationSource", "generatedBy", "excluded")
	o.done()
	return f, !disabled
}

// readBinding reads one binding into f and returns its name and type.
func (f *Function) readBinding(o *object, x expander) (name, kind string) {
	name, kind = o.text("name", ""), strings.ToLower(o.text("type", ""))
	if !bindingName.MatchString(name) {
		o.problems.addf("%s %q must be a letter followed by letters and digits", o.at("name"), name)
	}
	direction := "in"
	if kind == "http" {
		direction = "out"
	} else if f.Binding != "" {
		o.problems.addf("%s: a second trigger; a function has one", o.at("type"))
	} else {
		f.Binding = name
	}
	if got := o.text("direction", ""); !strings.EqualFold(got, direction) {
		o.problems.addf("%s must be %q, not %q", o.at("direction"), direction, got)
	}
	switch kind {
	case "http":
	case "queuetrigger":
		f.Queue = readQueueTrigger(o, x)
	case "timertrigger":
		f.Timer = readTimerTrigger(o, x)
	case "httptrigger":
		f.HTTP = readHTTPTrigger(o, f.Name, x)
	default:
		o.problems.addf("%s: %q is not supported by the local host: queueTrigger, timerTrigger, httpTrigger and http are", o.at("type"), kind)
		return name, kind
	}
	o.ignore("dataType", "$schema")
	o.done()
	return name, kind
}

func readQueueTrigger(o *object, x expander) *QueueTrigger {
	t := &QueueTrigger{
		Queue:      x.expand(o.at("queueName"), o.text("queueName", "")),
		Connection: x.expand(o.at("connection"), o.text("connection", "")),
	}
	if err := storage.CheckQueueName(t.Queue); err != nil {
		o.problems.addf("%s: %v", o.at("queueName"), err)
	}
	if t.Connection == "" {
		t.Connection = storage.HostConnection
	}
	return t
}

func readTimerTrigger(o *object, x expander) *TimerTrigger {
	t := &TimerTrigger{RunOnStartup: o.flag("runOnStartup", false), UseMonitor: o.flag("useMonitor", true)}
	schedule, err := ParseSchedule(x.expand(o.at("schedule"), o.text("schedule", "")))
	if err != nil {
		o.problems.addf("%s: %v", o.at("schedule"), err)
		return t
	}
	t.Schedule = schedule
	t.UseMonitor = t.UseMonitor && schedule.monitored(time.Now())
	return t
}

func readHTTPTrigger(o *object, function string, x expander) *HTTPTrigger {
	t := &HTTPTrigger{AuthLevel: AuthLevel(strings.ToLower(o.text("authLevel", string(FunctionLevel))))}
	route, err := ParseRoute(x.expand(o.at("route"), o.text("route", function)))
	if err != nil {
		o.problems.addf("%s: %v", o.at("route"), err)
	}
	t.Route = route
	for _, m := range o.texts("methods") {
		t.Methods = append(t.Methods, strings.ToUpper(m))
	}
	if !slices.Contains([]AuthLevel{Anonymous, FunctionLevel, Admin}, t.AuthLevel) {
		o.problems.addf("%s must be anonymous, function or admin, not %q", o.at("authLevel"), t.AuthLevel)
	}
	o.ignore("webHookType")
	return t
}
