package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/app/config"
	"tablesweep/internal/proof"
)

func TestLoad(t *testing.T) {
	c, err := config.Load(map[string]string{
		"AzureWebJobsStorage":    "UseDevelopmentStorage=true",
		"TABLESWEEP_CONNECTIONS": "AzureWebJobsStorage, OTHER",
		"OTHER__accountName":     "other",
	})
	proof.Must(t, err)
	if len(c.Connections) != 2 || c.Connections["OTHER"].String() != "other" {
		t.Errorf("connections %v", c.Connections)
	}
	if c.StateTable != "tablesweep" || c.SegmentsPerInvocation != 0 || c.LogLevel.String() != "info" || c.ScanRetention != 90*24*time.Hour || c.Price != 0.00036 {
		t.Errorf("defaults %+v", c)
	}
}

func TestLoadReportsAllErrors(t *testing.T) {
	const secret = "AccountName=a;AccountKey=c2VjcmV0"
	_, err := config.Load(map[string]string{
		"AzureWebJobsStorage":                "AccountName=a",
		"TABLESWEEP_CONNECTIONS":             "MISSING," + secret,
		"TABLESWEEP_STATE_TABLE":             "my_state",
		"TableSweep_State_Table":             "mystate",
		"TABLESWEEP_SEGMENTS_PER_INVOCATION": "25",
		"TABLESWEEP_SCAN_RETENTION":          "7",
		"TABLESWEEP_PRICE":                   "-1",
		"TABLESWEEP_LOG_LEVEL":               "loud",
		"TABLESWEEP_LOG_TABLE":               "my_log",
		"TABLESWEEP_LOG_RETENTION":           "a while",
		"TABLESWEEP_LOG_STREAMS":             `{"orders":{"shards":0}}`,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"AzureWebJobsStorage", "MISSING", "TABLESWEEP_CONNECTIONS", "TABLESWEEP_STATE_TABLE", "TABLESWEEP_SEGMENTS_PER_INVOCATION", "TABLESWEEP_SCAN_RETENTION", "TABLESWEEP_PRICE", "TABLESWEEP_LOG_LEVEL", "TABLESWEEP_LOG_TABLE", "TABLESWEEP_LOG_RETENTION", "TABLESWEEP_LOG_STREAMS"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s:\n%v", name, err)
		}
	}
	if want := "settings TABLESWEEP_STATE_TABLE and TableSweep_State_Table differ only in upper and lower case"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error lacks %q:\n%v", want, err)
	}
	if strings.Contains(err.Error(), "c2VjcmV0") {
		t.Errorf("the error repeats a secret:\n%v", err)
	}
}

// The documents' table lists the settings as the program has them.
func TestDocumentsListTheSettings(t *testing.T) {
	table, err := os.ReadFile("../../../docs/settings.md")
	proof.Must(t, err)
	for _, s := range config.Settings {
		value := "—"
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |", s.Name, value, s.Meaning); !strings.Contains(string(table), row) {
			t.Errorf("docs/settings.md lacks the row\n%s", row)
		}
	}
	for _, prefix := range []string{"TABLESWEEP_", "TABLE_CATALOG_"} {
		want := 0
		for _, s := range config.Settings {
			if strings.HasPrefix(s.Name, prefix) {
				want++
			}
		}
		if got := strings.Count(string(table), "\n| `"+prefix); got != want {
			t.Errorf("docs/settings.md lists %d settings named %s…, want %d", got, prefix, want)
		}
	}
}

// TestConsole: the console can be removed even if another setting is invalid.
func TestConsole(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want bool
		bad  bool
	}{
		{"by default", map[string]string{"AzureWebJobsStorage": development}, true, false},
		{"on", map[string]string{"AzureWebJobsStorage": development, "TABLESWEEP_CONSOLE": "on"}, true, false},
		{"off", map[string]string{"AzureWebJobsStorage": development, "TABLESWEEP_CONSOLE": "off"}, false, false},
		{"neither", map[string]string{"AzureWebJobsStorage": development, "TABLESWEEP_CONSOLE": "false"}, false, true},
		{"off, and no storage", map[string]string{"TABLESWEEP_CONSOLE": "off"}, false, true},
		{"no storage", nil, true, true},
	} {
		if c, err := config.Load(tt.env); c.Console != tt.want || (err != nil) != tt.bad {
			t.Errorf("TABLESWEEP_CONSOLE=%s: console %v, error %v; want console %v, an error: %v", tt.name, c.Console, err, tt.want, tt.bad)
		}
	}
}
