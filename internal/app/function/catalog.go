package function

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// catalogRoute is a route that three functions share, each with its own methods.
const catalogRoute = "catalog/{*path}"

// Catalogs maps the names of catalogs, as in URLs, to the catalogs. The records of the catalog "people" are at /api/catalog/people/records. The
// records of the catalog "" are at /api/catalog/records.
type Catalogs map[string]*catalog.Catalog

// resource is a path that every catalog has, such as "records", with a method and its handler.
type resource struct {
	method, path string
	holds        memoryNeed
	serve        func(*catalog.Catalog, http.ResponseWriter, *http.Request) error
}

// oneRecord is the pattern of the path of a record. In the answer to a POST, PUT or PATCH of one record, the header
// Location contains the record's path.
const oneRecord = "records/{id:[0-9a-f]{64}}"

// catalogCalls returns the calls for resources of every catalog. A call waits until its catalog's storage is ready, but at most for
// [awayTime]. If a person must act before the storage can be ready, the call fails immediately.
func (a App) catalogCalls(resources ...resource) (calls []call) {
	for _, one := range resources {
		behind := func(r *http.Request) error {
			name := r.PathValue("name")
			if _, err := a.Catalogs.byName(name); err != nil {
				return err
			}
			return a.Gates.Catalogs[name].Pass(r.Context(), awayTime)
		}
		serve := func(w http.ResponseWriter, r *http.Request) error {
			return one.serve(a.Catalogs[r.PathValue("name")], w, r)
		}
		for _, path := range []string{"catalog/" + one.path, "catalog/{name}/" + one.path} {
			calls = append(calls, call{one.method, path, one.holds, behind, serve})
		}
	}
	return calls
}

// CatalogInfo is a catalog's name and schema, from the settings.
type CatalogInfo struct {
	Name      string   `json:"name"` // "" for the catalog at /api/catalog/records
	IndexKeys []string `json:"indexKeys"`
	RowKey    string   `json:"rowKey"`
}

// Describe returns a catalog's entry in the list of catalogs.
func Describe(name string, s index.Schema) CatalogInfo {
	info := CatalogInfo{Name: name, RowKey: s.Sort.String()}
	for _, k := range s.Keys {
		info.IndexKeys = append(info.IndexKeys, k.String())
	}
	return info
}

func (c Catalogs) list(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	all := []CatalogInfo{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, Describe(name, c[name].Schema))
	}
	return answer(w, r, map[string]any{"catalogs": all}, nil)
}

// byName returns the catalog with a name. The error lists the names of all catalogs.
func (c Catalogs) byName(name string) (*catalog.Catalog, error) {
	if found := c[name]; found != nil {
		return found, nil
	}
	p := problem.NotFoundf("", "this call needs the setting TABLE_CATALOG_NAME, which is not set; set it, or name a catalog in the path")
	if name != "" {
		p.Detail = fmt.Sprintf("there is no catalog %s; to create it, add it to the setting TABLESWEEP_CATALOGS", secret.Name(name))
	}
	if name != "" && len(c) > 0 {
		p.Detail += fmt.Sprintf("; there are %q", slices.Sorted(maps.Keys(c)))
	}
	return nil, p
}

func insertRecord(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	once, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	for _, name := range []string{ifMatch, ifNoneMatch} {
		if r.Header.Get(name) != "" {
			return problem.Invalidf(name, "is only for PUT, PATCH and DELETE; leave it out, because POST never changes an existing record")
		}
	}
	body, err := readBody(r, jsonLines)
	if err != nil {
		return err
	}
	texts, several, err := split(body, inLines(r), "record")
	if err != nil {
		return err
	}
	if several {
		return insertRecords(c, texts, once, w, r)
	}
	sent, err := record.Parse(texts[0])
	if err != nil {
		return err
	}
	done, err := c.Insert(r.Context(), sent, once)
	return writeRecord(w, r, done, err)
}

func replaceRecord(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	q, on, err := readSelector(c.Schema, r)
	if err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	sent, err := record.Parse(body)
	if err != nil {
		return err
	}
	if q.ID == "" && len(q.Keys) == 0 && q.RowFrom == "" && q.RowTo == "" {
		done, err := c.Put(r.Context(), sent, on)
		return writeRecord(w, r, done, err)
	}
	done, err := c.Replace(r.Context(), sent, q, on)
	return writeRecord(w, r, done, err)
}

func patchRecord(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	q, on, err := readSelector(c.Schema, r)
	if err != nil {
		return err
	}
	w.Header().Set("Accept-Patch", mergePatch)
	patch, err := readBody(r, mergePatch)
	if err != nil {
		return err
	}
	done, err := c.Patch(r.Context(), patch, q, on)
	return writeRecord(w, r, done, err)
}

func writeRecord(w http.ResponseWriter, r *http.Request, done catalog.Written, err error) error {
	if err != nil {
		return err
	}
	status := http.StatusOK
	if done.Outcome == catalog.Created {
		status = http.StatusCreated
	}
	w.Header().Set("Location", locationOf(r, done.ID))
	w.Header().Set("ETag", done.ETag)
	if prefersMinimal(w, r) {
		if status == http.StatusOK {
			status = http.StatusNoContent
		}
		w.WriteHeader(status)
		return nil
	}
	writeJSON(w, r, status, done.Record)
	return nil
}

func locationOf(r *http.Request, id string) string {
	path := "/api/catalog/"
	if name := r.PathValue("name"); name != "" {
		path += url.PathEscape(name) + "/"
	}
	return path + "records/" + id
}

// getRecord answers with the record that has the id in the request's path.
func getRecord(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	on, err := readCondition(r)
	if err != nil {
		return err
	}
	found, meta, err := c.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", meta.ETag)
	if slices.Contains(on.Differ, meta.ETag) || slices.Contains(on.Differ, catalog.AnyETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return answer(w, r, found, nil)
}

func findRecords(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(c.Schema, r, "row_from", "row_to", "row_prefix", "top", "cursor", "select")
	if err != nil {
		return err
	}
	read := c.Find
	if len(q.Keys) == 0 {
		read = c.List
	}
	found, err := read(r.Context(), q)
	if err != nil {
		return err
	}
	records := found.Records()
	if fields := r.URL.Query().Get("select"); fields != "" {
		records = func(yield func(record.Record) bool) {
			for one := range found.Records() {
				if !yield(one.Select(strings.Split(fields, ","))) {
					return
				}
			}
		}
	}
	linkNext(w, r, found.Cursor)
	writeList(w, r, "records", textsOf(records), struct {
		Meta   []catalog.Meta `json:"meta"`
		Cursor string         `json:"cursor,omitempty"`
	}{found.Meta, found.Cursor})
	return nil
}

func countRecords(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(c.Schema, r, "row_from", "row_to", "row_prefix", "cursor")
	if err != nil {
		return err
	}
	total, err := c.Count(r.Context(), q)
	linkNext(w, r, total.Cursor)
	return answer(w, r, total, err)
}

// followChanges answers with the changes after the position in the parameter "after".
func followChanges(c *catalog.Catalog, given url.Values, top int, w http.ResponseWriter, r *http.Request) error {
	if err := checkAfter(given); err != nil {
		return err
	}
	changes := newList(r)
	next, err := c.ChangesAfter(r.Context(), given.Get("after"), top, func(one catalog.Change) { changes.add(one) })
	if err := changes.check(err); err != nil {
		return err
	}
	writeList(w, r, "changes", changes.texts(), next)
	return nil
}

// readSince returns the time in the parameter "since". Without the parameter, it returns the zero time. If the
// parameter contains a duration, the time is that long before the service's current time.
func readSince(ctx context.Context, c *catalog.Catalog, given url.Values) (time.Time, error) {
	if !given.Has("since") {
		return time.Time{}, nil
	}
	if t, err := logtail.KeyTime(given.Get("since")); err == nil { // a change's id
		return t, nil
	}
	now, err := c.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	t, err := logtail.ParseTime(given.Get("since"), now)
	if err != nil {
		return t, problem.Invalidf("since", "%v; escape the + of a time zone as %%2B", err)
	}
	return t, nil
}

func deleteRecords(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	q, on, err := readSelector(c.Schema, r)
	if err != nil {
		return err
	}
	on.Invocation = invocationID(r)
	deleted, err := c.Delete(r.Context(), q, on, nil)
	if summary := deleted.Summary(); err != nil && summary != "" {
		p := *problemOf(err)
		p.Detail = summary + ": " + p.Detail
		return &p
	}
	return answer(w, r, deleted, err)
}

func listChanges(c *catalog.Catalog, w http.ResponseWriter, r *http.Request) error {
	given, err := parameters(r, "top", "cursor", "since", "after")
	if err != nil {
		return err
	}
	top, err := readTop(given, catalog.DefaultTop, storage.PageRows)
	if err != nil {
		return err
	}
	if given.Has("after") {
		return followChanges(c, given, top, w, r)
	}
	since, err := readSince(r.Context(), c, given)
	if err != nil {
		return err
	}
	changes := newList(r)
	next, err := c.Changes(r.Context(), top, given.Get("cursor"), since, func(one catalog.Change) bool { return changes.offer(one) })
	if err := changes.check(err); err != nil {
		return err
	}
	writeCursored(w, r, "changes", changes, next)
	return nil
}

// idempotencyKey returns the request's Idempotency-Key, or "".
func idempotencyKey(r *http.Request) (string, error) {
	const name, maxLength = "Idempotency-Key", 255
	given := r.Header.Values(name)
	if len(given) == 0 {
		return "", nil
	}
	invisible := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(given) > 1 || given[0] == "" || len(given[0]) > maxLength || strings.ContainsFunc(given[0], invisible) {
		return "", problem.Invalidf(name, "must be given once, with 1 to %d visible ASCII characters", maxLength)
	}
	return given[0], nil
}

// Headers of conditional requests (RFC 9110, section 13).
const ifMatch, ifNoneMatch = "If-Match", "If-None-Match"

// entityTags matches a list of entity tags, perhaps with empty elements (RFC 9110, section 5.6.1).
var (
	entityTags = regexp.MustCompile(`^[ \t,]*((W/)?"[^"\x00-\x20\x7f]*"[ \t]*(,[ \t,]*|$))+$`)
	entityTag  = regexp.MustCompile(`(W/)?"[^"]*"`)
)

func readCondition(r *http.Request) (catalog.Condition, error) {
	match, matchErr := readTags(r, ifMatch)
	differ, differErr := readTags(r, ifNoneMatch)
	// A proxy that compresses an answer makes the answer's tag weak. A weak tag can match in If-None-Match only (section
	// 8.8.3.2).
	for i, tag := range differ {
		differ[i] = strings.TrimPrefix(tag, "W/")
	}
	return catalog.Condition{Match: match, Differ: differ}, errors.Join(matchErr, differErr)
}

func readTags(r *http.Request, name string) ([]string, error) {
	given := r.Header.Values(name)
	switch all := strings.Join(given, ","); {
	case len(given) == 0:
		return nil, nil
	case strings.TrimSpace(all) == catalog.AnyETag:
		return []string{catalog.AnyETag}, nil
	case entityTags.MatchString(all):
		return entityTag.FindAllString(all, -1), nil
	}
	return nil, problem.Invalidf(name, "must be * or entity tags such as \"17\", separated by commas")
}

// readSelector reads which records a call changes, and under which conditions. If the path contains an id, the id selects a record. Otherwise, the
// query selects records.
func readSelector(s index.Schema, r *http.Request) (catalog.Lookup, catalog.Condition, error) {
	var queryErr, onceErr error
	q := catalog.Lookup{ID: r.PathValue("id")}
	if q.ID != "" {
		_, queryErr = parameters(r)
	} else {
		q, queryErr = readQuery(s, r, "row_from", "row_to", "row_prefix")
	}
	for field := range q.Or {
		queryErr = errors.Join(queryErr, problem.Invalidf(field, "is given several times, which only GET accepts; give one value"))
	}
	on, conditionErr := readCondition(r)
	on.Once, onceErr = idempotencyKey(r)
	return q, on, errors.Join(queryErr, conditionErr, onceErr)
}

// maxValues is the maximum number of values for one index key in a query, because each value costs a request.
const maxValues = 100

// readQuery reads the query string: values of index keys, and the allowed parameters. Possible parameters are row_from, row_to, row_prefix, top and
// cursor.
func readQuery(s index.Schema, r *http.Request, allowed ...string) (catalog.Lookup, error) {
	var takes []input.Parameter
	for _, k := range s.Keys {
		takes = append(takes, input.Parameter{Name: k.Field, Many: true})
	}
	given, err := input.Query(r.URL.RawQuery, append(takes, input.Once(allowed...)...))
	if err != nil {
		return catalog.Lookup{}, err
	}
	q := catalog.Lookup{Keys: map[string]string{}, Or: map[string][]string{}, RowFrom: given.Get("row_from"), RowTo: given.Get("row_to"), Cursor: given.Get("cursor")}
	for _, k := range s.Keys {
		if given.Has(k.Field) {
			q.Keys[k.Field] = given.Get(k.Field)
			if more := given[k.Field][1:]; len(more) >= maxValues {
				return q, problem.Invalidf(k.Field, "has %d values, but at most %d are allowed; send several requests", len(more)+1, maxValues)
			} else if len(more) > 0 {
				q.Or[k.Field] = more
			}
		}
	}
	if given.Has("row_prefix") {
		if given.Has("row_from") || given.Has("row_to") {
			return q, problem.Invalidf("row_prefix", "cannot be combined with row_from or row_to; remove these two, or remove row_prefix")
		}
		q.RowFrom, q.RowTo = given.Get("row_prefix"), given.Get("row_prefix")
		if _, err := s.Window(q.RowFrom, q.RowTo); err != nil {
			return q, problem.Invalidf("row_prefix", "%s", problem.Of(err).Detail)
		}
	}
	q.Top, err = readTop(given, 0, storage.PageRows)
	return q, err
}
