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

const doctorHelp = `Tell what works and what is missing, one line each: settings, accounts, roles, tables,
queues, the clock, host.json, when Maintain last ran, and the app itself by its URL.

The settings are the environment's and, behind them, those of local.settings.json here:
"func azure functionapp fetch-app-settings APP --decrypt" writes an app's there. Roles are tried by writes
that can't change anything. With --url, the app is asked with the function key that
an environment variable holds.

Each line begins with ok, warning, failed or unknown. Unknown is what can't be checked
from here. A warning leaves the exit status 0.

`

func doctorCommand() *cobra.Command {
	var d health.Doctor
	var key string
	var asJSON jsonFlag
	const examples = `  handler doctor
  TABLESWEEP_KEY=... handler doctor --url https://APP.azurewebsites.net`
	c := command("doctor", "Tell what works and what is missing", doctorHelp+exitHelp, examples, func(c *cobra.Command) error {
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
		report := health.NewReport(time.Now(), d.Check(c.Context()))
		text := ""
		for _, check := range report.Checks {
			text += fmt.Sprintf("%-8s %s: %s\n", check.State, check.Name, check.Detail)
		}
		if err := asJSON.print(c, report, "%s", text); err != nil {
			return err
		}
		if report.Status == health.Failed {
			return errors.New("not all is well; the lines that begin with failed tell what to change")
		}
		return nil
	})
	flags := c.Flags()
	flags.StringVar(&d.URL, "url", "", "the app's address, such as https://APP.azurewebsites.net")
	flags.StringVar(&key, "key", "TABLESWEEP_KEY", "name of the environment variable with a function key")
	asJSON.add(c, "print the report as JSON")
	return c
}
