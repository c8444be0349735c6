// Package config reads the app's settings from the environment.
package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/storage"
)

// HostStorage is the setting that holds the app's own storage: the one with the
// queues and the state table.
const HostStorage = "AzureWebJobsStorage"

// Setting describes one setting, for the README's table and its test.
type Setting struct{ Name, Default, Meaning string }

// Settings lists every setting that the handler reads for itself.
var Settings = []Setting{
	{HostStorage, "", "The app's own storage: a connection string, or its identity form (`__accountName`, `__tableServiceUri`, `__queueServiceUri`, `__credential`, `__clientId`)"},
	{"TABLESWEEP_CONNECTIONS", HostStorage, "Names of the settings that hold the connections scans may use, separated by commas"},
	{"TABLESWEEP_STATE_TABLE", "tablesweep", "The table that keeps the ledger of scans"},
	{"TABLESWEEP_SEGMENTS_PER_INVOCATION", "1", "Queries that one invocation may make, 1 to 24"},
	{"TABLESWEEP_LOG_LEVEL", "info", "`trace`, `debug`, `info`, `warn` or `error`"},
}

// Config holds the settings. It prints no secrets.
type Config struct {
	// Own is the app's own storage.
	Own storage.Connection
	// Connections holds the connections that scans may use, by setting name.
	Connections           map[string]storage.Connection
	StateTable            string
	SegmentsPerInvocation int
	LogLevel              zerolog.Level
}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Load reads the settings. All that are bad are reported together, by name.
func Load(getenv func(string) string) (Config, error) {
	value := func(name string) string {
		if v := getenv(name); v != "" {
			return v
		}
		i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Name == name })
		return Settings[i].Default
	}
	c := Config{Connections: map[string]storage.Connection{}}
	var errs []error
	var err error
	if c.Own, err = storage.SettingConnection(HostStorage, getenv); err != nil {
		errs = append(errs, err)
	}
	for name := range strings.SplitSeq(value("TABLESWEEP_CONNECTIONS"), ",") {
		name = strings.TrimSpace(name)
		if !settingName.MatchString(name) {
			// It may be a connection string, so it must not be repeated.
			errs = append(errs, errors.New("setting TABLESWEEP_CONNECTIONS must list names of settings, separated by commas, not connections themselves"))
			continue
		}
		c.Connections[name] = c.Own
		if name == HostStorage {
			continue
		}
		if c.Connections[name], err = storage.SettingConnection(name, getenv); err != nil {
			errs = append(errs, err)
		}
	}
	c.StateTable = value("TABLESWEEP_STATE_TABLE")
	if err := storage.CheckTableName(c.StateTable); err != nil {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_STATE_TABLE: %w", err))
	}
	if c.SegmentsPerInvocation, err = strconv.Atoi(value("TABLESWEEP_SEGMENTS_PER_INVOCATION")); err != nil || c.SegmentsPerInvocation < 1 || c.SegmentsPerInvocation > engine.MaxSegments {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_SEGMENTS_PER_INVOCATION must be a number from 1 to %d", engine.MaxSegments))
	}
	if c.LogLevel, err = zerolog.ParseLevel(value("TABLESWEEP_LOG_LEVEL")); err != nil {
		errs = append(errs, errors.New("setting TABLESWEEP_LOG_LEVEL must be trace, debug, info, warn or error"))
	}
	return c, errors.Join(errs...)
}
