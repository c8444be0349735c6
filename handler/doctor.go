package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"tablesweep/internal/app/health"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/job"
)

type doctorOptions struct {
	health.Doctor
	key  string
	json bool
}

func (o *doctorOptions) options() []option {
	return []option{
		{"url", perRun, &o.URL, nil, "the app's address, such as https://APP.azurewebsites.net"},
		{"key", perRun, &o.key, "TABLESWEEP_KEY", "name of the environment variable that contains a function key"},
		{"json", perRun, &o.json, nil, "print the report as JSON"},
	}
}

func (o *doctorOptions) run(r *call) error {
	if !job.IsSetting(o.key) {
		return usagef("--key takes the name of an environment variable, not the key itself")
	}
	o.Root, o.Web = os.DirFS("."), http.DefaultClient
	local, err := hostjson.LocalSettings(o.Root)
	if err != nil {
		return err
	}
	o.Settings = environment()
	for name, v := range local {
		if o.Settings.Get(name) == "" {
			o.Settings.Set(name, v)
		}
	}
	o.Key = o.Settings.Get(o.key)
	report := health.NewReport(time.Now(), o.Check(r.ctx))
	text := ""
	for _, check := range report.Checks {
		text += fmt.Sprintf("%-8s %s: %s\n", check.State, check.Name, check.Detail)
	}
	if err := r.print(o.json, report, "%s", text); err != nil {
		return err
	}
	if report.Status == health.Failed {
		return errors.New("some checks failed; the lines that begin with \"failed\" show what to change")
	}
	return nil
}
