package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"tablesweep/internal/local/demo/debian"
)

// catalogSettings configure a catalog of packages, and enable the console.
var catalogSettings = map[string]string{
	"TABLESWEEP_CONSOLE": "on",
	"TABLE_CATALOG_NAME": "PackageCatalog", "TABLE_CATALOG_INDEX_KEYS": "package,source,section", "TABLE_CATALOG_ROW_KEY": "version",
}

// furnished is the number of packages in the catalog.
const furnished = 300

// furnish creates records and events for the console.
func (d *demo) furnish(ctx context.Context) error {
	packages, err := debian.Packages()
	if err != nil {
		return err
	}
	var records []map[string]any
	for i := range furnished {
		p := packages[i*len(packages)/furnished]
		records = append(records, map[string]any{
			"package": p.Name, "source": p.Source, "section": p.Section, "version": p.Version, "architecture": p.Architecture, "bytes": p.Bytes,
		})
	}
	var answer json.RawMessage
	if err := d.call(ctx, http.MethodPost, "/api/catalog/records", records, http.StatusOK, &answer); err != nil {
		return fmt.Errorf("fill the catalog: %w", err)
	}
	events := []map[string]any{{"event": "loaded", "table": sourceTable, "rows": d.report.Rows}, {"event": "indexed", "catalog": catalogSettings["TABLE_CATALOG_NAME"], "records": furnished}}
	return d.call(ctx, http.MethodPost, "/api/log/demo", events, http.StatusCreated, &answer)
}
