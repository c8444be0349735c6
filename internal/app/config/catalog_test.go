package config_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/config"
	"tablesweep/internal/proof"
)

const development = "UseDevelopmentStorage=true"

// people returns the settings of the default catalog, and the given ones.
func people(more map[string]string) map[string]string {
	env := map[string]string{
		"AzureWebJobsStorage":      development,
		"TABLE_CATALOG_NAME":       "People",
		"TABLE_CATALOG_INDEX_KEYS": "eid,ssn:digits",
		"TABLE_CATALOG_ROW_KEY":    "lastname",
	}
	maps.Copy(env, more)
	return env
}

func TestCatalogs(t *testing.T) {
	c, err := config.Load(people(map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=c2VjcmV0",
		"THIRD__accountName":              "third",
		"TABLESWEEP_CATALOGS": `{"visits":{"table":"Visits","indexKeys":"eid","rowKey":"at:newest","wal":"VisitLog","connection":"THIRD","changes":"7d"},
			"bare":{"table":"Bare","indexKeys":"a,b","rowKey":"c"}}`,
	}))
	proof.Must(t, err)
	type catalog struct {
		Name, Table, WAL, Schema, Setting, Connection string
		KeepChanges                                   time.Duration
	}
	var got []catalog
	for _, c := range c.Catalogs {
		got = append(got, catalog{c.Name, c.Table, c.WAL, c.Schema.String(), c.Setting, c.Connection.String(), c.KeepChanges})
	}
	want := []catalog{
		{"", "People", "PeopleWAL", "eid:lower,ssn:digits;lastname:text", "AZURE_STORAGE_CONNECTION_STRING", "other", 0},
		{"bare", "Bare", "BareWAL", "a:lower,b:lower;c:text", "AZURE_STORAGE_CONNECTION_STRING", "other", 0},
		{"visits", "Visits", "VisitLog", "eid:lower;at:newest", "THIRD", "third", 7 * 24 * time.Hour},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalogs (-want +got)\n%s", diff)
	}
	c, err = config.Load(map[string]string{"AzureWebJobsStorage__accountName": "own", "TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "n", "TABLE_CATALOG_WAL_NAME": "Log"})
	if err != nil || c.Catalogs[0].Connection.String() != "own" || c.Catalogs[0].WAL != "Log" {
		t.Errorf("got catalogs %+v, error %v; want the app's own account, and the table Log for the log", c.Catalogs, err)
	}
	if c, err := config.Load(map[string]string{"AzureWebJobsStorage": development}); err != nil || len(c.Catalogs) > 0 {
		t.Errorf("got catalogs %+v, error %v; want no catalog", c.Catalogs, err)
	}
}

func TestInvalidCatalogs(t *testing.T) {
	const secret = "c2VjcmV0"
	named := func(settings string) map[string]string { return map[string]string{"TABLESWEEP_CATALOGS": settings} }
	for _, tt := range []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"table", map[string]string{"TABLE_CATALOG_NAME": "my_table"}, []string{"setting TABLE_CATALOG_NAME: table name"}},
		{"log table", map[string]string{"TABLE_CATALOG_WAL_NAME": "people_wal"}, []string{"setting TABLE_CATALOG_WAL_NAME: table name"}},
		{"no keys", map[string]string{"TABLE_CATALOG_INDEX_KEYS": ""}, []string{"setting TABLE_CATALOG_INDEX_KEYS: is missing"}},
		{"no row key", map[string]string{"TABLE_CATALOG_ROW_KEY": ""}, []string{"setting TABLE_CATALOG_ROW_KEY: is missing"}},
		{"normaliser", map[string]string{"TABLE_CATALOG_INDEX_KEYS": "eid,ssn:digit"}, []string{"TABLE_CATALOG_INDEX_KEYS and setting TABLE_CATALOG_ROW_KEY", "ssn:digit", "lower, digits, exact"}},
		{"its log is its index", map[string]string{"TABLE_CATALOG_WAL_NAME": "PEOPLE"}, []string{"setting TABLE_CATALOG_WAL_NAME: the table PEOPLE is also used by setting TABLE_CATALOG_NAME"}},
		{"state table", map[string]string{"TABLE_CATALOG_NAME": "TableSweep"}, []string{"TABLE_CATALOG_NAME: the table TableSweep is also used by setting TABLESWEEP_STATE_TABLE"}},
		{"connection", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=" + secret}, []string{"setting AZURE_STORAGE_CONNECTION_STRING"}},
		{"not JSON", named(`people`), []string{"setting TABLESWEEP_CATALOGS must be JSON such as"}},
		{"unknown field", named(`{"a":{"tabel":"A"}}`), []string{"TABLESWEEP_CATALOGS", "a.tabel: is not a field"}},
		{"twice", named(`{"a":{"table":"AAA","indexKeys":"x","rowKey":"y"},"a":{"table":"BBB","indexKeys":"x","rowKey":"y"}}`), []string{"TABLESWEEP_CATALOGS", "a: is given twice"}},
		{"names", named(`{"a/b":{},"records":{},"Records":{},"CHANGES":{}}`), []string{`"a/b" cannot be a catalog's name`, `"records" cannot be`, `"Records" cannot be`, `"CHANGES" cannot be`}},
		{"shared", named(`{"a":{"table":"people","indexKeys":"x","rowKey":"y"}}`), []string{"TABLESWEEP_CATALOGS: a: table: the table people is also used by setting TABLE_CATALOG_NAME"}},
		{"secret", named(`{"a":{"table":"A12","indexKeys":"x","rowKey":"y","connection":"AccountKey=` + secret + `"}}`), []string{"a: connection: must be the name of a setting"}},
		{"no such setting", named(`{"a":{"table":"A12","indexKeys":"x","rowKey":"y","connection":"NOWHERE"}}`), []string{"setting NOWHERE is missing"}},
		{"changes", named(`{"a":{"table":"A12","indexKeys":"x","rowKey":"y","changes":"forever"}}`), []string{`a: changes: "forever" must be a time`}},
		{"several", map[string]string{"TABLE_CATALOG_INDEX_KEYS": "", "TABLESWEEP_STATE_TABLE": "a_b", "TABLESWEEP_CATALOGS": `{"a":{"table":"A_1","indexKeys":"x","rowKey":"y:z"},"b":{"table":"B12","indexKeys":"x","rowKey":"y","connection":"NOWHERE"}}`},
			[]string{"TABLE_CATALOG_INDEX_KEYS", "TABLESWEEP_STATE_TABLE", "a: table", "a: indexKeys and rowKey", "NOWHERE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(people(tt.env))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %s:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats a secret:\n%v", err)
			}
		})
	}
	if c, err := config.LoadCatalogs(people(nil)); err != nil || len(c) != 1 {
		t.Errorf("got catalogs %v, error %v; want only the valid catalog", c, err)
	}
}

// Tables of the same name in different accounts are different tables. Two connections may lead to the same account.
func TestCatalogsInTwoAccounts(t *testing.T) {
	for account, shared := range map[string]bool{"other": false, "own": true} {
		_, err := config.Load(people(map[string]string{
			"AzureWebJobsStorage": "AccountName=own;AccountKey=c2VjcmV0",
			"OTHER__accountName":  account,
			"TABLESWEEP_CATALOGS": `{"a":{"table":"People","indexKeys":"x","rowKey":"y","connection":"OTHER"}}`,
		}))
		if (err != nil) != shared || shared && !strings.Contains(err.Error(), "the table People is also used by setting TABLE_CATALOG_NAME") {
			t.Errorf("account %s: error %v", account, err)
		}
	}
}
