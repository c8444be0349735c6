// Package demo lets the app copy a table on one machine. It loads real rows into embedded storage, and starts a local
// Functions host with several handler processes, which copy the rows. Afterwards, package demo verifies the copy,
// and lets the app count the rows once with each strategy.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/demo/debian"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/host"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

const (
	sourceTable      = "packages"
	destinationTable = "packagescopy"
	statusInterval   = 250 * time.Millisecond
	// polling is shorter than host.json's 5 s, because requests cost nothing here.
	polling = "00:00:02"
)

// Options configure the demonstration.
type Options struct {
	Root       string    // the app's directory
	Executable string    // the handler program
	Instances  int       // the number of handler processes
	Connection string    // connection string of the account to use; embedded storage if empty
	Progress   io.Writer // gets the progress, line by line
	// If Watch is not nil, it is called after the demonstration, and the app runs until Watch returns. With Watch, the
	// app also has a console, a catalog and a stream of events.
	Watch func(Report)
}

// Report is the result of the demonstration. Times are in seconds.
type Report struct {
	Rows       int               `json:"rows"`
	Partitions int               `json:"partitions"`
	Processes  []int             `json:"processes"` // ids of the handler processes
	Copy       Figures           `json:"copy"`
	Verified   bool              `json:"verified"` // the copy equals the source, including types
	Strategies []StrategyFigures `json:"strategies"`
}

// Figures holds the numbers of a scan.
type Figures struct {
	ID           string  `json:"id"`
	Rows         int64   `json:"rows"`
	Steps        int64   `json:"steps"`
	Queries      int64   `json:"queries"`
	Transactions int64   `json:"transactions"` // the storage requests of the handlers
	Seconds      float64 `json:"seconds"`
}

// StrategyFigures are the figures of one strategy. The demo counts all rows with each strategy, to compare the strategies.
type StrategyFigures struct {
	Name string `json:"name"`
	Figures
	// QueriesPerOptimum is the number of queries divided by the minimum, which is one query per thousand rows.
	QueriesPerOptimum float64 `json:"queriesPerOptimum"`
}

type demo struct {
	Options
	account *storage.Account
	host    *host.Host
	report  Report

	// For tests:
	most int               // maximum number of loaded rows; 0 for all
	more map[string]string // additional app settings
}

// Run runs the demonstration. An error means that the demonstration failed, for example because a
// copy differs from its source.
func Run(ctx context.Context, o Options) (Report, error) {
	return (&demo{Options: o}).run(ctx)
}

func (d *demo) run(ctx context.Context) (Report, error) {
	stop, err := d.start(ctx)
	if err != nil {
		return d.report, err
	}
	defer stop()
	if d.Watch != nil {
		d.print("watch it at %s/api/console/", d.host.URL())
		if err := d.furnish(ctx); err != nil {
			return d.report, err
		}
	}
	if err := d.copy(ctx); err != nil {
		return d.report, err
	}
	for _, name := range strategy.Names {
		if err := d.count(ctx, name); err != nil {
			return d.report, fmt.Errorf("the count with the strategy %s failed: %w", name, err)
		}
	}
	if d.Watch != nil {
		d.print("the app keeps running until an interrupt; its console is at %s/api/console/", d.host.URL())
		d.Watch(d.report)
	}
	return d.report, nil
}

func (d *demo) start(ctx context.Context) (stop func(), err error) {
	stopStorage := func() {}
	if d.Connection == "" {
		if stopStorage, err = d.embed(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			stopStorage()
		}
	}()
	c, err := storage.ParseConnection(d.Connection)
	if err != nil {
		return nil, err
	}
	if d.account, err = storage.Open(c, storage.Options{Patience: 10 * time.Second, Unproven: true}); err != nil {
		return nil, err
	}
	if err := d.load(ctx); err != nil {
		return nil, fmt.Errorf("load the rows: %w", err)
	}
	d.host, err = host.Start(ctx, host.Options{
		Root: d.Root, Executable: d.Executable, Addr: "127.0.0.1:0", Instances: d.Instances,
		Settings: d.settings(),
	})
	if err != nil {
		return nil, fmt.Errorf("start the app: %w", err)
	}
	d.report.Processes = d.host.PIDs()
	d.print("app at %s with handler processes %v", d.host.URL(), d.report.Processes)
	return func() { d.host.Close(); stopStorage() }, nil
}

func (d *demo) print(format string, args ...any) { fmt.Fprintf(d.Progress, format+"\n", args...) }

func (d *demo) settings() map[string]string {
	s := map[string]string{storage.HostConnection: d.Connection, "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": polling}
	if d.Watch != nil {
		maps.Copy(s, catalogSettings)
	}
	maps.Copy(s, d.more)
	return s
}

func (d *demo) embed(ctx context.Context) (stop func(), err error) {
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		return nil, err
	}
	server, err := e.Serve(ctx, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.Connection = server.ConnectionString()
	return func() { server.Close() }, nil
}

// load creates the source table with all packages, and deletes the destination of an earlier run.
func (d *demo) load(ctx context.Context) error {
	packages, err := debian.Packages()
	if err != nil {
		return err
	}
	if d.most > 0 {
		packages = packages[:d.most]
	}
	rows := make([]storage.Entity, len(packages))
	partitions := map[string]bool{}
	for i, p := range packages {
		partitions[p.Source] = true
		rows[i] = storage.Entity{Key: p.Key(), Properties: []storage.Property{
			storage.StringProperty("Package", p.Name),
			storage.StringProperty("Version", p.Version),
			storage.StringProperty("Architecture", p.Architecture),
			storage.StringProperty("Section", p.Section),
			storage.Int64Property("SizeBytes", p.Bytes),
		}}
	}
	d.report.Rows, d.report.Partitions = len(rows), len(partitions)
	d.print("loading %d packages of Debian, in %d partitions by source package", len(rows), len(partitions))
	source := d.account.Table(sourceTable)
	if err := d.account.Table(destinationTable).Delete(ctx); err != nil {
		return err
	}
	if err := source.Create(ctx); err != nil {
		return err
	}
	loaded := 0
	for part := range slices.Chunk(rows, 10_000) {
		if _, err := (action.Copy{Destination: source}).Copy(ctx, storage.Rows(part)); err != nil {
			return err
		}
		loaded += len(part)
		d.print("loaded %d of %d", loaded, len(rows))
	}
	return nil
}

// copy lets the app copy the table, and verifies the copy.
func (d *demo) copy(ctx context.Context) error {
	d.print("POST /api/scans: copy table %s to %s", sourceTable, destinationTable)
	s, err := d.scan(ctx, scans.Request{
		Source: scans.TableRef{Table: sourceTable},
		Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: destinationTable}},
	})
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	d.report.Copy = s
	if s.Rows != int64(d.report.Rows) {
		return fmt.Errorf("the copy counted %d rows, but the table has %d", s.Rows, d.report.Rows)
	}
	if err := d.verify(ctx); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

func (d *demo) count(ctx context.Context, strategy string) error {
	d.print("POST /api/scans: count by strategy %s", strategy)
	s, err := d.scan(ctx, scans.Request{
		Source: scans.TableRef{Table: sourceTable}, Action: scans.Action{Type: scans.Count}, Strategy: strategy,
		SegmentsPerInvocation: 1, // so that the number of steps shows how the strategy divides the table
	})
	if err == nil && s.Rows != int64(d.report.Rows) {
		err = fmt.Errorf("the scan counted %d rows, but the table has %d", s.Rows, d.report.Rows)
	}
	optimum := (d.report.Rows + storage.PageRows - 1) / storage.PageRows
	d.report.Strategies = append(d.report.Strategies, StrategyFigures{Name: strategy, Figures: s, QueriesPerOptimum: float64(s.Queries) / float64(optimum)})
	return err
}

// scan starts a scan over HTTP and follows it to its end.
func (d *demo) scan(ctx context.Context, r scans.Request) (Figures, error) {
	start := time.Now()
	var started struct{ ID string }
	if err := d.call(ctx, "POST", "/api/scans", r, http.StatusAccepted, &started); err != nil {
		return Figures{}, err
	}
	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()
	printedAt := time.Now()
	for {
		var s status.Status
		if err := d.call(ctx, "GET", "/api/scans/"+started.ID, nil, http.StatusOK, &s); err != nil {
			return Figures{}, err
		}
		if s.State == ledger.Running && time.Since(printedAt) < 2*time.Second {
			select {
			case <-ctx.Done():
				return Figures{}, ctx.Err()
			case <-ticker.C:
			}
			continue
		}
		printedAt = time.Now()
		d.print("  %-9s %6d rows, %4d steps done, %3d pending, %5.1f s", s.State, s.Rows.Scanned, s.Steps.Done, s.Steps.Pending, time.Since(start).Seconds())
		switch s.State {
		case ledger.Running:
			continue
		case ledger.Succeeded:
			return Figures{string(s.ID), s.Rows.Scanned, s.Steps.Done, s.Queries, s.Transactions, time.Since(start).Seconds()}, nil
		}
		return Figures{}, fmt.Errorf("scan %s: %s", s.State, s.Error)
	}
}

// call sends a request with v as its JSON body, or with no body if v is nil. It decodes the response's JSON into `answer`.
func (d *demo) call(ctx context.Context, method, path string, v any, want int, answer any) error {
	var body []byte
	if v != nil {
		var err error
		if body, err = json.Marshal(v); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, d.host.URL()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, b)
	}
	return json.Unmarshal(b, answer)
}

func (d *demo) verify(ctx context.Context) error {
	r, err := verify.Compare(ctx, sweep.Spec{Source: d.account.Table(sourceTable)}, d.account.Table(destinationTable), verify.Options{})
	if err != nil {
		return err
	}
	if n := r.Differences(); n > 0 || r.Rows != int64(d.report.Rows) {
		return fmt.Errorf("%d of %d rows of %s were compared, and %d differ: %v", r.Rows, d.report.Rows, sourceTable, n, r.List)
	}
	d.report.Verified = true
	d.print("verified: both tables hold the same %d rows, every value and type", r.Rows)
	return nil
}
