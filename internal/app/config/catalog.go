package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/input"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// CatalogConnection is the name of a setting. If a catalog's own settings contain no connection, the catalog uses the connection in this setting.
// If this setting is also empty, the catalog uses the app's own storage.
const CatalogConnection = "AZURE_STORAGE_CONNECTION_STRING"

// CatalogSettings are the settings of one catalog.
type CatalogSettings struct {
	// Name is the catalog's name in URLs. It is "" for the default catalog.
	Name       string
	Table, WAL string
	Schema     index.Schema
	// Setting is the name of the setting that contains the connection.
	Setting     string
	Connection  storage.Connection // set only by [Load]
	KeepChanges time.Duration      // 0 means the catalog's default
}

// Title returns c.Name or, if it is empty, c.Table.
func (c CatalogSettings) Title() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Table
}

// SchemaSettings returns the names of the settings that contain the index keys and the row key, as error messages show them.
func (c CatalogSettings) SchemaSettings() string {
	if c.Name != "" {
		return settingOf(c.Name, "indexKeys") + " and rowKey"
	}
	return settingOf("", "indexKeys") + " and " + settingOf("", "rowKey")
}

// catalogText is the unchecked text of a catalog's settings.
type catalogText struct {
	Table      string `json:"table"`
	IndexKeys  string `json:"indexKeys"`
	RowKey     string `json:"rowKey"`
	WAL        string `json:"wal"`
	Connection string `json:"connection"` // name of a setting
	Changes    string `json:"changes"`
}

// settingOf returns the name of a catalog's setting, as error messages show it.
func settingOf(catalog, field string) string {
	if catalog != "" {
		return fmt.Sprintf("setting TABLESWEEP_CATALOGS: %s: %s", catalog, field)
	}
	return "setting " + map[string]string{
		"table": "TABLE_CATALOG_NAME", "indexKeys": "TABLE_CATALOG_INDEX_KEYS", "rowKey": "TABLE_CATALOG_ROW_KEY", "wal": "TABLE_CATALOG_WAL_NAME",
	}[field]
}

// catalogName matches names that need no escaping in a URL.
var catalogName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

// LoadCatalogs reads the settings of all catalogs, but not their connections. If TABLE_CATALOG_NAME is set, the first catalog is the default catalog.
// The catalogs of TABLESWEEP_CATALOGS follow, sorted by name. The error lists all mistakes. Even with an error, the result contains the valid
// catalogs.
func LoadCatalogs(settings storage.Settings) ([]CatalogSettings, error) {
	standard := storage.HostConnection
	if settings.Get(CatalogConnection) != "" {
		standard = CatalogConnection
	}
	var all []CatalogSettings
	var errs []error
	add := func(name string, s catalogText) {
		c, err := s.catalog(name, standard)
		if err != nil {
			errs = append(errs, err)
			return
		}
		all = append(all, c)
	}
	if table := settings.Get("TABLE_CATALOG_NAME"); table != "" {
		add("", catalogText{
			Table: table, WAL: settings.Get("TABLE_CATALOG_WAL_NAME"),
			IndexKeys: settings.Get("TABLE_CATALOG_INDEX_KEYS"), RowKey: settings.Get("TABLE_CATALOG_ROW_KEY"),
		})
	}
	named := map[string]catalogText{}
	if text := settings.Get("TABLESWEEP_CATALOGS"); text != "" {
		if err := input.JSON([]byte(text), &named); err != nil {
			errs = append(errs, fmt.Errorf(`setting TABLESWEEP_CATALOGS must be JSON such as {"people":{"table":"People","indexKeys":"eid,npi","rowKey":"lastname"}}: %w`, err))
			named = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		// In URLs, "records" and "changes" match without regard to case, so no catalog may have these names.
		if !catalogName.MatchString(name) || strings.EqualFold(name, "records") || strings.EqualFold(name, "changes") {
			errs = append(errs, fmt.Errorf("setting TABLESWEEP_CATALOGS: %q cannot be a catalog's name; use 1 to 63 letters, digits, \"-\" and \"_\", and begin with a letter; the names \"records\" and \"changes\", in upper or lower case, are not allowed", name))
			continue
		}
		add(name, named[name])
	}
	return all, errors.Join(errs...)
}

func (s catalogText) catalog(name, standard string) (CatalogSettings, error) {
	c := CatalogSettings{Name: name, Table: s.Table, WAL: s.WAL, Setting: s.Connection}
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(settingOf(name, field)+": "+format, args...))
	}
	if c.WAL == "" {
		c.WAL = c.Table + "WAL"
	}
	if err := storage.CheckTableName(c.Table); err != nil {
		wrong("table", "%w", err)
	} else if err := storage.CheckTableName(c.WAL); err != nil {
		wrong("wal", "%w", err)
	} else if strings.EqualFold(c.Table, c.WAL) {
		wrong("wal", "the table %s is also used by %s; set different tables", c.WAL, settingOf(name, "table"))
	}
	var err error
	switch {
	case s.IndexKeys == "":
		wrong("indexKeys", "is missing: set it to the fields by which records are found, such as eid,npi,ssn:digits")
	case s.RowKey == "":
		wrong("rowKey", "is missing: set it to the field that sorts records, such as lastname or timestamp:newest")
	default:
		if c.Schema, err = index.Parse(s.IndexKeys, s.RowKey); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.SchemaSettings(), err))
		}
	}
	switch {
	case c.Setting == "":
		c.Setting = standard
	case !settingName.MatchString(c.Setting): // the error omits the value, which may be a secret
		wrong("connection", "must be the name of a setting, not a connection itself")
	}
	if s.Changes != "" {
		if c.KeepChanges, err = logtail.ParseRetention(s.Changes); err != nil || c.KeepChanges == 0 {
			wrong("changes", "%q must be a time such as 30d or 12h", s.Changes)
		}
	}
	return c, errors.Join(errs...)
}

// loadCatalogs reads the settings and connections of all catalogs. The function `connect` returns the connection in a setting. If the connection is
// invalid, connect records an error and returns the zero value.
func (c *Config) loadCatalogs(settings storage.Settings, connect func(string) storage.Connection) error {
	var err error
	c.Catalogs, err = LoadCatalogs(settings)
	for i := range c.Catalogs {
		c.Catalogs[i].Connection = connect(c.Catalogs[i].Setting)
	}
	return errors.Join(err, c.checkTables())
}

// checkTables reports tables that a catalog shares with another catalog or with the app.
func (c *Config) checkTables() error {
	type use struct {
		setting, table string
		account        storage.Connection
	}
	uses := []use{{"setting TABLESWEEP_STATE_TABLE", c.StateTable, c.Own}, {"setting TABLESWEEP_LOG_TABLE", c.LogTable, c.Own}}
	var errs []error
	for _, cat := range c.Catalogs {
		for _, u := range []use{{settingOf(cat.Name, "table"), cat.Table, cat.Connection}, {settingOf(cat.Name, "wal"), cat.WAL, cat.Connection}} {
			for _, other := range uses {
				if u.account != (storage.Connection{}) && u.account.Same(other.account) && strings.EqualFold(u.table, other.table) {
					errs = append(errs, fmt.Errorf("%s: the table %s is also used by %s; use another table for one of them", u.setting, u.table, other.setting))
				}
			}
			uses = append(uses, u)
		}
	}
	return errors.Join(errs...)
}
