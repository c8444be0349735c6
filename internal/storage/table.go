package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/task/memory"
)

// PageRows is the service's maximum number of rows in a query's answer. (Microsoft Learn, "Query
// timeout and pagination")
const PageRows = 1000

var tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{2,62}$`)

// CheckTableName returns an error unless a table's name is legal.
func CheckTableName(name string) error {
	if !tableName.MatchString(name) || strings.EqualFold(name, "tables") {
		return fmt.Errorf("table name %s must have 3 to 63 letters and digits, start with a letter, and not be \"tables\"", secret.Name(name))
	}
	return nil
}

// hostTables lists the prefixes, in lower case, by which [OfHost] identifies a Functions host's own tables. These tables contain
// logs, a local host's leases, diagnostic events and scale metrics. (azure-functions-host,
// DiagnosticEventTableStorageRepository.cs and TableStorageScaleMetricsRepository.cs; azure-webjobs-sdk, LogFactory.cs)
var hostTables = []string{"azurewebjobshost", "azurefunctionsdiagnosticevents", "azurefunctionsscalemetrics"}

// OfHost reports whether the name belongs to one of the Functions host's own tables.
func OfHost(name string) bool {
	return slices.ContainsFunc(hostTables, func(begin string) bool { return strings.HasPrefix(strings.ToLower(name), begin) })
}

// Table gives access to one table.
type Table struct {
	account *Account
	name    string
	options RequestOptions
}

// Table returns access to a table, which need not exist.
func (a *Account) Table(name string) *Table {
	return &Table{account: a, name: name}
}

// With returns a copy of t whose requests use the options.
func (t *Table) With(o RequestOptions) *Table {
	with := *t
	with.options = o
	return &with
}

// Name returns the table's name.
func (t *Table) Name() string { return t.name }

// Address returns the table's URL, which identifies it.
func (t *Table) Address() string { return t.account.connection.tableURL + "/" + t.name }

// String returns the account's name and the table's, without secrets.
func (t *Table) String() string { return t.account.connection.String() + "/" + t.name }

// Same reports whether t and other are the same table of the same account.
func (t *Table) Same(other *Table) bool {
	return strings.EqualFold(t.name, other.name) && t.account.connection.Same(other.account.connection)
}

// Cosmos reports whether the table is in Cosmos DB. Cosmos DB has the same protocol, but its filters cannot compare Timestamps.
func (t *Table) Cosmos() bool { return ofCosmos(t.account.connection.tableURL) }

func ofCosmos(endpoint string) bool {
	return strings.Contains(strings.ToLower(hostOf(endpoint)), ".table.cosmos")
}

// errNotWritten is the error of a write to Cosmos DB, whose answers to transactions do not show what was written.
var errNotWritten = errors.New("the account is in Azure Cosmos DB, which this program does not support; use Cosmos DB's own tools to write to the account")

// Create creates the table unless it exists. It refuses tables in Cosmos DB. Callers must call Create or
// [Table.MayWrite] before they write rows.
func (t *Table) Create(ctx context.Context) error {
	if t.Cosmos() {
		return fmt.Errorf("create table %s: %w", t.name, errNotWritten)
	}
	x := newExchange(t.options, createTable)
	x.creates = true
	_, err := t.account.tables.CreateTable(x.attach(ctx), t.name, nil)
	if err = wrap("create table "+t.name, x, err); Conflict(err) {
		return nil
	}
	return err
}

// TableNames calls fn with the names of all tables of the account, in order.
func (a *Account) TableNames(ctx context.Context, fn func(name string) error) error {
	x := newExchange(RequestOptions{}, listTables)
	for pager := a.tables.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(x.attach(ctx))
		if err != nil {
			return wrap("list tables", x, err)
		}
		for _, t := range page.Tables {
			if err := fn(deref(t.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete removes the table if it exists. It may take a minute until a table of that name can be created again.
func (t *Table) Delete(ctx context.Context) error {
	x := newExchange(t.options, deleteTable)
	_, err := t.account.tables.DeleteTable(x.attach(ctx), t.name, nil)
	if err = wrap("delete table "+t.name, x, err); NotFound(err) {
		return nil
	}
	return err
}

// Query selects one page of a table.
type Query struct {
	Range  key.Range
	Filter string   // OData filter, combined with Range; "" for all rows of the range
	Select []string // properties to return, nil for all properties; keys are always returned
	Top    int      // maximum number of rows; 0 means PageRows
	Token  *key.Token
}

// These constants give the memory that a page needs until all transactions with the page's rows have been answered. With concurrent pages, a row of 158
// bytes needed 1,400 bytes of memory, a row of 228 bytes needed 1,500 bytes, and a row of 548 bytes needed 3,600 bytes. Large rows, with 30,000 characters
// per property or with 252 properties, needed 2.1 to 2.7 bytes for each byte of the answer.
const (
	pageWeight = 3      // bytes of memory for each byte of the answer
	rowWeight  = 3 << 9 // bytes of memory for each row
)

// MemoryOf returns how many bytes of memory a page needs. The argument `text` is the size of the page's text in bytes.
func MemoryOf(text, rows int) int64 { return pageWeight*int64(text) + rowWeight*int64(rows) }

// pageBytes is the size, in bytes, that a page's text should not exceed. It allows a thousand rows of 4 KB, including
// the members that the service adds.
const pageBytes = 9 << 19

// Top computes a page's maximum number of rows from the size of the previous page, so that each page of a scan has
// about 4 MiB of text. The zero value limits nothing.
type Top struct{ rows int }

// Limit returns how many rows to request, at most the given number.
func (t Top) Limit(most int) int {
	if t.rows == 0 {
		return most
	}
	return min(most, t.rows)
}

// Learn notes a page's size. If the page was too large, or contained all requested rows, Learn limits the next page to
// the number of rows that fit. A page may consist of several answers of about 4 MiB. If the page came from memory, `bytes`
// is 0, and Learn changes nothing.
func (t *Top) Learn(requested, rows, bytes, answers int) {
	if most := answers * pageBytes; rows > 0 && bytes > 0 && (bytes > most || rows >= requested) {
		if t.rows = max(1, rows*most/bytes); t.rows >= PageRows {
			t.rows = 0
		}
	}
}

// Page is a query's answer.
type Page struct {
	Rows  []Row
	Next  *key.Token // token of the next page; nil after the last page
	Date  time.Time  // time of the answer by the service's clock, in whole seconds
	Bytes int        // size of the answer's text
}

// Keys returns the keys of the page's rows.
func (p Page) Keys() []key.Key {
	keys := make([]key.Key, len(p.Rows))
	for i, row := range p.Rows {
		keys[i] = row.Key
	}
	return keys
}

// Entities returns the page's rows with their properties. Each call decodes the rows again.
func (p Page) Entities() []Entity {
	entities := make([]Entity, len(p.Rows))
	for i, row := range p.Rows {
		entities[i] = row.Entity()
	}
	return entities
}

// Query reads one page. Even a short or empty page may have a Next.
func (t *Table) Query(ctx context.Context, q Query) (Page, error) {
	var p Page
	var unreadable error
	x := newRowExchange(t.options, operation{tableService, []int{http.StatusOK}, func(h http.Header, body []byte) (err error) {
		unreadable = nil
		if err = needJSON(h); err == nil {
			p.Rows, err = parsePage(body)
		}
		if err == nil {
			err = q.inOrder(p.Rows)
		}
		if errors.As(err, new(*unreadableRow)) || errors.Is(err, errUnsorted) && t.Cosmos() {
			unreadable, err = err, nil // do not repeat the query, because the repeated query would have the same error
		}
		return err
	}}, &pageBuffers)
	defer x.release()
	x.weight = pageWeight
	x.rows = x.options.Rows.Expects(cmp.Or(q.Top, PageRows))
	header, err := t.send(ctx, x, "query table ", request{method: http.MethodGet, url: "/" + t.name + "()?" + q.parameters()})
	if err == nil && !x.charge(int64(len(p.Rows))*rowWeight) {
		err = fmt.Errorf("query table %s: %w", t.name, memory.ErrFull)
	}
	if err != nil {
		x.charge(-x.charged)
		return Page{}, err
	}
	if unreadable != nil {
		return Page{}, fmt.Errorf("query table %s: %w", t.name, x.redact(unreadable))
	}
	x.options.Rows.observe(len(p.Rows), x.rows*float64(x.tries))
	p.Bytes = len(x.answer)
	if np, nr := header.Get(nextPartition), header.Get(nextRow); np != "" || nr != "" {
		p.Next = &key.Token{Partition: np, Row: nr, After: q.lastKey(p.Rows)}
	}
	p.Date, _ = http.ParseTime(header.Get("Date"))
	return p, nil
}

// errUnsorted is the error of rows that are not in ascending key order. Cosmos DB does not promise this order. (Microsoft Learn, "Frequently
// asked questions about Azure Cosmos DB for Table")
var errUnsorted = errors.New("its rows are not in the order of their keys, although Azure Table storage sorts rows by key")

// inOrder returns an error unless the keys of a page ascend, lie in the query's range, and follow the keys of the earlier pages.
func (q Query) inOrder(rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	first, last := rows[0].Key, rows[len(rows)-1].Key
	unsorted := func(k key.Key) error {
		return fmt.Errorf("%w: PartitionKey %q RowKey %q comes after a greater key", errUnsorted, k.Partition, k.Row)
	}
	if q.Token != nil && q.Token.After != nil && q.Token.After.Compare(first) >= 0 {
		return unsorted(first)
	}
	for i := 1; i < len(rows); i++ {
		if rows[i-1].Key.Compare(rows[i].Key) >= 0 {
			return unsorted(rows[i].Key)
		}
	}
	for _, k := range []key.Key{first, last} {
		if !q.Range.Contains(k) {
			return fmt.Errorf("PartitionKey %q RowKey %q is not in the range of the query", k.Partition, k.Row)
		}
	}
	return nil
}

// lastKey returns the key of the last row in rows or, if `rows` is empty, the key of the last row of the earlier pages.
// If the key is unknown, lastKey returns nil.
func (q Query) lastKey(rows []Row) *key.Key {
	switch {
	case len(rows) > 0:
		last := rows[len(rows)-1].Key
		return &last
	case q.Token != nil:
		return q.Token.After
	}
	return nil
}

// The headers with the token of a query's next page.
const (
	nextPartition = "X-Ms-Continuation-Nextpartitionkey"
	nextRow       = "X-Ms-Continuation-Nextrowkey"
)

// parameters returns the query's parameters as part of a URL.
func (q Query) parameters() string {
	p := "%24top=" + strconv.Itoa(cmp.Or(q.Top, PageRows))
	if f := CombineFilters(RangeFilter(q.Range), q.Filter); f != "" {
		p += "&%24filter=" + escape(f)
	}
	if q.Select != nil {
		others := slices.DeleteFunc(slices.Clone(q.Select), func(name string) bool { return name == "PartitionKey" || name == "RowKey" })
		p += "&%24select=" + escape(strings.Join(append([]string{"PartitionKey", "RowKey"}, others...), ","))
	}
	if q.Token != nil {
		p += "&NextPartitionKey=" + escape(q.Token.Partition)
		if q.Token.Row != "" {
			p += "&NextRowKey=" + escape(q.Token.Row)
		}
	}
	return p
}

// All calls fn with each page of the query, from the first to the last.
func (t *Table) All(ctx context.Context, q Query, fn func(Page) error) error {
	for {
		p, err := t.Query(ctx, q)
		if err != nil {
			return err
		}
		if err := fn(p); err != nil {
			return err
		}
		if p.Next == nil {
			return nil
		}
		q.Token = p.Next
	}
}

// Get reads one row. It reads only the given columns, or all columns if none is given. `found` is false if the row does not exist.
func (t *Table) Get(ctx context.Context, k key.Key, columns ...string) (e Entity, found bool, err error) {
	at := &key.Bound{Key: k.Row}
	err = t.All(ctx, Query{Range: key.Range{Partition: &k.Partition, Low: at, High: at}, Select: columns, Top: 1}, func(p Page) error {
		if len(p.Rows) > 0 {
			e, found = p.Rows[0].Entity(), true
		}
		return nil
	})
	return e, found, err
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
