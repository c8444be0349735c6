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
	"tablesweep/internal/logtail"
	"tablesweep/internal/storage"
)

// catalogStorage is the setting that holds the catalogs' account, unless it is not
// set or a catalog names another.
const catalogStorage = "AZURE_STORAGE_CONNECTION_STRING"

// Catalog holds the settings of one catalog.
type Catalog struct {
	// Name is the one in addresses, "" for the catalog of the settings TABLE_CATALOG_….
	Name       string
	Table, WAL string
	Schema     index.Schema
	// Setting is the name of the one that holds the connection.
	Setting     string
	Connection  storage.Connection // set by [Load] only
	KeepChanges time.Duration      // 0 means the catalog's default
}

// Title is what messages call the catalog.
func (c Catalog) Title() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Table
}

// SchemaSettings names where the index keys and the row key are set.
func (c Catalog) SchemaSettings() string {
	if c.Name != "" {
		return inCatalogs(c.Name)("indexKeys") + " and rowKey"
	}
	return inEnvironment("indexKeys") + " and " + inEnvironment("rowKey")
}

// catalogSettings are a catalog's settings as they are given.
type catalogSettings struct {
	Table      string `json:"table"`
	IndexKeys  string `json:"indexKeys"`
	RowKey     string `json:"rowKey"`
	WAL        string `json:"wal"`
	Connection string `json:"connection"` // name of a setting
	Changes    string `json:"changes"`
}

// inEnvironment returns what a setting of the default catalog is called.
func inEnvironment(field string) string {
	return "setting " + map[string]string{
		"table": "TABLE_CATALOG_NAME", "indexKeys": "TABLE_CATALOG_INDEX_KEYS", "rowKey": "TABLE_CATALOG_ROW_KEY", "wal": "TABLE_CATALOG_WAL_NAME",
	}[field]
}

// inCatalogs returns a function that says what a setting of the named catalog is called.
func inCatalogs(name string) func(field string) string {
	return func(field string) string { return fmt.Sprintf("setting TABLESWEEP_CATALOGS: %s: %s", name, field) }
}

// catalogName admits what needs no escaping in an address.
var catalogName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

// LoadCatalogs reads the settings of all catalogs, but for their connections: the
// default one's, if it is set, and those of TABLESWEEP_CATALOGS by name. With an
// error, which tells all that is wrong, it returns those that are right.
func LoadCatalogs(getenv func(string) string) ([]Catalog, error) {
	standard := storage.HostConnection
	if getenv(catalogStorage) != "" {
		standard = catalogStorage
	}
	var all []Catalog
	var errs []error
	add := func(name string, s catalogSettings, label func(string) string) {
		c, err := s.catalog(name, standard, label)
		if err != nil {
			errs = append(errs, err)
			return
		}
		all = append(all, c)
	}
	if table := getenv("TABLE_CATALOG_NAME"); table != "" {
		add("", catalogSettings{
			Table: table, WAL: getenv("TABLE_CATALOG_WAL_NAME"),
			IndexKeys: getenv("TABLE_CATALOG_INDEX_KEYS"), RowKey: getenv("TABLE_CATALOG_ROW_KEY"),
		}, inEnvironment)
	}
	named := map[string]catalogSettings{}
	if text := getenv("TABLESWEEP_CATALOGS"); text != "" {
		if err := input.JSON([]byte(text), &named); err != nil {
			errs = append(errs, fmt.Errorf(`setting TABLESWEEP_CATALOGS must be JSON such as {"people":{"table":"People","indexKeys":"eid,npi","rowKey":"lastname"}}: %w`, err))
			named = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		// Addresses tell catalogs from records and changes whatever the case.
		if !catalogName.MatchString(name) || strings.EqualFold(name, "records") || strings.EqualFold(name, "changes") {
			errs = append(errs, fmt.Errorf("setting TABLESWEEP_CATALOGS: %q can't be a catalog's name: it must be 1 to 63 letters, digits, - and _, start with a letter, and be neither records nor changes in any case", name))
			continue
		}
		add(name, named[name], inCatalogs(name))
	}
	return all, errors.Join(errs...)
}

// catalog checks the settings of one catalog. label says what each is called.
func (s catalogSettings) catalog(name, standard string, label func(string) string) (Catalog, error) {
	c := Catalog{Name: name, Table: s.Table, WAL: s.WAL, Setting: s.Connection}
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(label(field)+": "+format, args...))
	}
	if c.WAL == "" {
		c.WAL = c.Table + "WAL"
	}
	if err := storage.CheckTableName(c.Table); err != nil {
		wrong("table", "%w", err)
	} else if err := storage.CheckTableName(c.WAL); err != nil {
		wrong("wal", "%w", err)
	} else if strings.EqualFold(c.Table, c.WAL) {
		wrong("wal", "the table %s is that of %s; give each its own", c.WAL, label("table"))
	}
	var err error
	switch {
	case s.IndexKeys == "":
		wrong("indexKeys", "is missing: name the fields by which records are found, such as eid,npi,ssn:digits")
	case s.RowKey == "":
		wrong("rowKey", "is missing: name the field that sorts records, such as lastname or timestamp:newest")
	default:
		if c.Schema, err = index.Parse(s.IndexKeys, s.RowKey); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.SchemaSettings(), err))
		}
	}
	switch {
	case c.Setting == "":
		c.Setting = standard
	case !settingName.MatchString(c.Setting): // it may be a secret
		wrong("connection", "must be the name of a setting, not a connection itself")
	}
	if s.Changes != "" {
		if c.KeepChanges, err = logtail.ParseRetention(s.Changes); err != nil || c.KeepChanges == 0 {
			wrong("changes", "%q must be a time such as 30d or 12h", s.Changes)
		}
	}
	return c, errors.Join(errs...)
}

// loadCatalogs reads the settings of catalogs. connect returns the connection that
// a setting holds, the zero one if it is bad and was reported.
func (c *Config) loadCatalogs(getenv func(string) string, connect func(string) storage.Connection) error {
	var err error
	c.Catalogs, err = LoadCatalogs(getenv)
	for i := range c.Catalogs {
		c.Catalogs[i].Connection = connect(c.Catalogs[i].Setting)
	}
	return errors.Join(err, c.checkTables())
}

// checkTables reports tables that a catalog would share with something else.
func (c *Config) checkTables() error {
	type use struct {
		setting, table string
		account        storage.Connection
	}
	uses := []use{{"setting TABLESWEEP_STATE_TABLE", c.StateTable, c.Own}, {"setting TABLESWEEP_LOG_TABLE", c.LogTable, c.Own}}
	var errs []error
	for _, cat := range c.Catalogs {
		label := inEnvironment
		if cat.Name != "" {
			label = inCatalogs(cat.Name)
		}
		for _, u := range []use{{label("table"), cat.Table, cat.Connection}, {label("wal"), cat.WAL, cat.Connection}} {
			for _, other := range uses {
				if u.account != (storage.Connection{}) && u.account.Same(other.account) && strings.EqualFold(u.table, other.table) {
					errs = append(errs, fmt.Errorf("%s: the table %s is that of %s; give each its own", u.setting, u.table, other.setting))
				}
			}
			uses = append(uses, u)
		}
	}
	return errors.Join(errs...)
}
