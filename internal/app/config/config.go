// Package config reads the app's settings from the environment.
package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/scans"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task/memory"
)

// Setting describes one setting. A test checks that docs/settings.md contains the same name, default and meaning.
type Setting struct{ Name, Default, Meaning string }

// DeploymentContainer is the setting with the URL of the blob container that contains the deployed app.
const DeploymentContainer = "TABLESWEEP_DEPLOYMENT_CONTAINER"

// schedulesSetting is the setting with the schedules.
const schedulesSetting = "TABLESWEEP_SCHEDULES"

// DefaultStateTable is the default name of the state table.
const DefaultStateTable = "tablesweep"

// Settings lists every setting that the handler reads.
var Settings = []Setting{
	{storage.HostConnection, "", "The app's own storage: a connection string. To use an identity instead, set one or more settings, each with the name `AzureWebJobsStorage` plus one of these endings. For the account: `__accountName`, or one or more of `__tableServiceUri`, `__queueServiceUri`, `__blobServiceUri` and `__serviceUri`. For a user-assigned managed identity: `__credential` with the value `managedidentity`, and `__clientId` or `__managedIdentityResourceId`. For an identity in development: `__tenantId`, `__clientId` and `__clientSecret`"},
	{"TABLESWEEP_CONNECTIONS", storage.HostConnection, "The names of settings, separated by commas. Scans may use only the connections in these settings"},
	{"TABLESWEEP_STATE_TABLE", DefaultStateTable, "The table that records the scans and their steps"},
	{"TABLESWEEP_SCAN_RETENTION", "90", "How many days a scan is kept after its end. The minimum is 8 days. A failed or canceled scan can be retried while it is kept"},
	{schedulesSetting, "", "Scheduled scans, as JSON: `[{\"name\":\"nightly\",\"cron\":\"0 0 3 * * *\",\"request\":{…},\"keep\":{\"daily\":14,\"monthly\":12}}]`. See [backup.md](backup.md)"},
	{"TABLESWEEP_PRICE", "0.00036", "The price in dollars of 10,000 storage requests, for the costs of scans, estimates and dry runs"},
	{"TABLESWEEP_LOG_TABLE", logtail.DefaultTable, "The table of the streams"},
	{"TABLESWEEP_LOG_RETENTION", logtail.Forever, "How long events are kept, such as `30d`, `2w` or `12h`"},
	{"TABLESWEEP_LOG_STREAMS", "", "For each stream that needs its own settings: the number of shards and the retention, as JSON: `{\"orders\":{\"shards\":4,\"retention\":\"7d\"}}`"},
	{"TABLE_CATALOG_NAME", "", "The index table of the catalog at `/api/catalog/records`. Without this setting, the address has no catalog"},
	{"TABLE_CATALOG_INDEX_KEYS", "", "The fields by which this catalog's records are found, such as `eid,npi,ssn:digits`"},
	{"TABLE_CATALOG_ROW_KEY", "", "The field that sorts this catalog's records, such as `lastname` or `timestamp:newest`"},
	{"TABLE_CATALOG_WAL_NAME", "", "The table of this catalog's log; by default the index table's name plus `WAL`"},
	{CatalogConnection, "", "The catalogs' account; by default the account in `AzureWebJobsStorage`"},
	{"TABLESWEEP_CATALOGS", "", "More catalogs, as JSON: `{\"people\":{\"table\":\"People\",\"indexKeys\":\"eid,npi\",\"rowKey\":\"lastname\"}}`. Optional: `wal` (the log's table), `changes` (how long changes are kept, such as `30d`) and `connection` (the name of a setting with a connection)"},
	{DeploymentContainer, "", "The URL of the blob container that contains the deployed app, `https://ACCOUNT.blob.core.windows.net/CONTAINER`. No scan may export into this container. `infra/` sets the URL"},
	{"TABLESWEEP_SEGMENTS_PER_INVOCATION", "", "How many queries one invocation may make, 1 to 24. The default is 16 for an export or a comparison, 4 for a count, and 1 for other scans"},
	{memory.Setting, "", "An instance's memory in MB, which determines the app's memory budget. The default is the platform's limit. If the platform has no limit, the default is the control group's limit. If the control group has no limit either, the default is 2048. See [deploy.md](deploy.md)"},
	{"TABLESWEEP_CONSOLE", "on", "`off` removes the console at `/api/console/`"},
	{"TABLESWEEP_LOG_LEVEL", "info", "`trace`, `debug`, `info`, `warn` or `error`"},
}

// Config contains the settings. Its connections print without secrets.
type Config struct {
	Own storage.Connection
	// Connections contains the connections that scans may use, by the names of their settings.
	Connections           map[string]storage.Connection
	StateTable            string
	ScanRetention         time.Duration
	Schedules             []schedule.Schedule
	SchedulesErr          error   // the mistakes in invalid schedules; Schedules contains only valid ones
	Price                 float64 // price of 10,000 storage requests, in dollars
	LogTable              string
	LogRetention          time.Duration                     // 0 means forever
	LogStreams            map[string]logtail.StreamSettings // settings of single streams, by name
	Catalogs              []CatalogSettings
	Packages              Container // container with the deployed app; the zero value if not set
	SegmentsPerInvocation int       // 0 means that the number depends on the action
	Memory                memory.Instance
	LogLevel              zerolog.Level
	Console               bool // whether the console is served; Load sets Console even if other settings are invalid
}

// Container is a container in an account.
type Container struct {
	Account storage.Connection
	Name    string
}

const (
	minRetention = 8 // in days; queues keep messages for 7 days
	maxRetention = 36_500
	maxPrice     = 1000
)

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Load reads the settings. The error lists the names of all invalid settings.
func Load(settings storage.Settings) (Config, error) {
	value := func(name string) string { return valueOf(name, settings) }
	c := Config{Connections: map[string]storage.Connection{}}
	var errs []error
	for _, s := range Settings {
		if s.Name != storage.HostConnection && s.Name != CatalogConnection { // SettingConnection checks these two
			errs = append(errs, settings.CheckSpelling(s.Name))
		}
	}
	var err error
	read := map[string]storage.Connection{} // the connection of each setting that was read, so that an invalid setting is reported only once
	connect := func(name string) storage.Connection {
		if _, ok := read[name]; !ok {
			var err error
			if read[name], err = storage.SettingConnection(name, settings); err != nil {
				errs = append(errs, err)
			}
		}
		return read[name]
	}
	c.Own = connect(storage.HostConnection)
	for name := range strings.SplitSeq(value("TABLESWEEP_CONNECTIONS"), ",") {
		name = strings.TrimSpace(name)
		if !settingName.MatchString(name) {
			// The name may be a connection string, so the message does not repeat it.
			errs = append(errs, errors.New("setting TABLESWEEP_CONNECTIONS must list names of settings, separated by commas; put each connection into its own setting"))
			continue
		}
		c.Connections[name] = connect(name)
	}
	c.StateTable = value("TABLESWEEP_STATE_TABLE")
	if err := storage.CheckTableName(c.StateTable); err != nil {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_STATE_TABLE: %w", err))
	}
	if days, err := strconv.Atoi(value("TABLESWEEP_SCAN_RETENTION")); err != nil || days < minRetention || days > maxRetention {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_SCAN_RETENTION must be a number of days from %[1]d to %[2]d; the minimum is %[1]d, because a scan's messages exist for up to 7 days", minRetention, maxRetention))
	} else {
		c.ScanRetention = time.Duration(days) * 24 * time.Hour
	}
	if v := value(schedulesSetting); v != "" {
		if c.Schedules, err = schedule.ParseSchedules(v); err != nil {
			c.SchedulesErr = NameSchedules(err)
		}
	}
	c.Price, err = Price(settings)
	errs = append(errs, err, c.loadLog(value))
	catalogsErr := c.loadCatalogs(settings, connect) // called before the append below, because the function `connect` may change errs
	errs = append(errs, catalogsErr)
	if v := value(DeploymentContainer); v != "" {
		if c.Packages.Account, c.Packages.Name, err = storage.BlobURL(v, c.Own); err != nil || storage.CheckContainerName(c.Packages.Name) != nil {
			errs = append(errs, errors.New("setting "+DeploymentContainer+" must be a container's URL, such as https://ACCOUNT.blob.core.windows.net/CONTAINER"))
		}
	}
	if v := value("TABLESWEEP_SEGMENTS_PER_INVOCATION"); v == "" {
	} else if c.SegmentsPerInvocation, err = strconv.Atoi(v); err != nil || c.SegmentsPerInvocation < 1 || c.SegmentsPerInvocation > scans.MaxSegments {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_SEGMENTS_PER_INVOCATION must be a number from 1 to %d", scans.MaxSegments))
	}
	if c.Memory, err = memory.InstanceOf(settings.Get); err != nil {
		errs = append(errs, err)
	}
	if v := value("TABLESWEEP_CONSOLE"); v != "on" && v != "off" {
		errs = append(errs, errors.New(`setting TABLESWEEP_CONSOLE must be "on" or "off"`))
	} else {
		c.Console = v == "on"
	}
	if c.LogLevel, err = zerolog.ParseLevel(value("TABLESWEEP_LOG_LEVEL")); err != nil {
		errs = append(errs, errors.New("setting TABLESWEEP_LOG_LEVEL must be trace, debug, info, warn or error"))
		c.LogLevel = zerolog.InfoLevel // to log this error
	}
	return c, errors.Join(errs...)
}

// valueOf returns a setting's value, or its default.
func valueOf(name string, settings storage.Settings) string {
	if v := settings.Get(name); v != "" {
		return v
	}
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Name == name })
	return Settings[i].Default
}

// NameSchedules adds the setting's name to an error about schedules.
func NameSchedules(err error) error { return fmt.Errorf("setting %s: %w", schedulesSetting, err) }

// Price reads the price of 10,000 storage requests, in dollars. The command calls Price to
// compute costs, because it does not need the other settings that [Load] checks.
func Price(settings storage.Settings) (float64, error) {
	const name = "TABLESWEEP_PRICE"
	dollars, err := strconv.ParseFloat(valueOf(name, settings), 64)
	if err != nil || !(dollars >= 0 && dollars <= maxPrice) {
		return 0, errors.New("setting " + name + " must be the price in dollars of 10,000 storage requests, such as 0.00036")
	}
	return dollars, nil
}

// loadLog reads the settings of event streams.
func (c *Config) loadLog(value func(name string) string) error {
	var errs []error
	var err error
	c.LogTable = value("TABLESWEEP_LOG_TABLE")
	if err := storage.CheckTableName(c.LogTable); err != nil {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_LOG_TABLE: %w", err))
	} else if strings.EqualFold(c.LogTable, c.StateTable) {
		errs = append(errs, errors.New("setting TABLESWEEP_LOG_TABLE must not name the same table as TABLESWEEP_STATE_TABLE"))
	}
	if c.LogRetention, err = logtail.ParseRetention(value("TABLESWEEP_LOG_RETENTION")); err != nil {
		errs = append(errs, fmt.Errorf("setting TABLESWEEP_LOG_RETENTION: %w", err))
	}
	if text := value("TABLESWEEP_LOG_STREAMS"); text != "" {
		if c.LogStreams, err = logtail.ParseStreams(text); err != nil {
			errs = append(errs, fmt.Errorf("setting TABLESWEEP_LOG_STREAMS: %w", err))
		}
	}
	return errors.Join(errs...)
}
