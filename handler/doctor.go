package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/function/health"
	"tablesweep/internal/host/app"
)

func doctorCommand() *cobra.Command {
	var d health.Doctor
	var key string
	var asJSON bool
	return command("doctor", "Tell what works and what is missing", optionTable{
		{"url", perRun, &d.URL, nil, "the app's address, such as https://APP.azurewebsites.net"},
		{"key", perRun, &key, "TABLESWEEP_KEY", "name of the environment variable with a function key"},
		{"json", perRun, &asJSON, nil, "print the report as JSON"},
	}, func(r *call) error {
		if !isSetting(key) {
			return usagef("--key takes the name of an environment variable, not the key itself")
		}
		d.Root, d.Web = os.DirFS("."), http.DefaultClient
		local, err := app.LocalSettings(d.Root)
		if err != nil {
			return err
		}
		d.Settings = environment()
		for name, v := range local {
			if d.Settings.Get(name) == "" {
				d.Settings.Set(name, v)
			}
		}
		d.Key = d.Settings.Get(key)
		report := health.NewReport(time.Now(), d.Check(r.ctx))
		text := ""
		for _, check := range report.Checks {
			text += fmt.Sprintf("%-8s %s: %s\n", check.State, check.Name, check.Detail)
		}
		if err := r.print(asJSON, report, "%s", text); err != nil {
			return err
		}
		if report.Status == health.Failed {
			return errors.New("not all is well; the lines that begin with failed tell what to change")
		}
		return nil
	})
}
