package storage

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

// Options tune an [Account]. The zero value is what production uses.
type Options struct {
	// Connections is the number of connections to each host, busy and idle;
	// requests beyond it wait for one. Default 256: a step uses the tables of
	// two accounts, which stay below the 600 that a Functions instance may have open. (Microsoft
	// Learn, "Manage connections in Azure Functions")
	Connections int
	// Name is what errors and outages call the account: the setting that its connection is from.
	// Default: the host of each endpoint.
	Name string
	// Patience is how long a request waits for a host that gives no good answer. Default
	// [DefaultPatience]. The request's own deadline may end it before.
	Patience time.Duration
	// Unproven means that the connection may be a typing error: a request that can't reach a host
	// which has never answered fails at once, and one that gets no answer after 15 s.
	Unproven bool
	// AwaitDeletion means that a request which makes a table, queue or container is repeated while one of its name is being
	// deleted, for as long as Patience.
	AwaitDeletion bool
	// Transport replaces the network, in tests.
	Transport policy.Transporter
}

// Account gives access to one storage account. It is safe for concurrent use; a
// process opens each account once.
type Account struct {
	connection Connection
	tables     *aztables.ServiceClient
	rows       runtime.Pipeline       // of requests for rows
	queues     *azqueue.ServiceClient // nil if the connection names no queue endpoint
	blobs      runtime.Pipeline       // of requests for blobs; empty if the connection names no blob endpoint
	retries    []*retries             // of each endpoint
	clock      clock
}

// Open makes an account's clients. It sends nothing.
func Open(c Connection, o Options) (*Account, error) {
	if o.Transport == nil {
		o.Transport = newTransport(o.Connections)
	}
	a := &Account{connection: c}
	byTables, byOthers, err := c.signers(o.Transport)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", c, err)
	}
	r := a.newRetries(c.tableURL, o)
	tables := aztables.ClientOptions{ClientOptions: clientOptions(r, o, byTables)}
	if a.tables, err = aztables.NewServiceClientWithNoCredential(c.withSAS(c.tableURL), &tables); err != nil {
		return nil, fmt.Errorf("open tables of %s: %w", c, withoutURL(err))
	}
	a.rows = newWay(r, o, byTables)
	if c.queueURL != "" {
		r := a.newRetries(c.queueURL, o)
		queues := azqueue.ClientOptions{ClientOptions: clientOptions(r, o, byOthers)}
		if a.queues, err = azqueue.NewServiceClientWithNoCredential(c.withSAS(c.queueURL), &queues); err != nil {
			return nil, fmt.Errorf("open queues of %s: %w", c, withoutURL(err))
		}
	}
	if c.blobURL != "" {
		r := a.newRetries(c.blobURL, o)
		a.blobs = newWay(r, o, byOthers)
	}
	return a, nil
}

// String returns the account's name, without secrets.
func (a *Account) String() string { return a.connection.String() }

// Same reports whether both are one account; see [Connection.Same].
func (a *Account) Same(other *Account) bool { return a.connection.Same(other.connection) }

// Outages returns the account's connections that have given no good answer since they were last
// asked for one, each by its name once.
func (a *Account) Outages() []Outage {
	var all []Outage
	for _, r := range a.retries {
		o, ok := r.outage()
		if ok && !slices.ContainsFunc(all, func(other Outage) bool { return other.Connection == o.Connection }) {
			all = append(all, o)
		}
	}
	return all
}

// transport is the network. The service sends no redirections, so this does without
// [http.Client] and its work for them.
type transport struct{ *http.Transport }

func (t transport) Do(r *http.Request) (*http.Response, error) { return t.RoundTrip(r) }

func newTransport(connections int) transport {
	if connections == 0 {
		connections = 256
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // a small answer could take any amount of memory
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, connections, connections
	return transport{t}
}

// newRetries returns the retries of an endpoint, which all clients for it share.
func (a *Account) newRetries(endpoint string, o Options) *retries {
	r := newRetries(cmp.Or(o.Name, hostOf(endpoint)), o)
	r.clock, r.endpoint.cosmos = &a.clock, ofCosmos(endpoint)
	if id := a.connection.identity; id != nil {
		r.clientSecret = id.ClientSecret
	}
	if t, ok := o.Transport.(interface{ CloseIdleConnections() }); ok {
		r.closeIdle = t.CloseIdleConnections
	}
	a.retries = append(a.retries, r)
	return r
}

// clientOptions returns fresh options for a client, whose requests sign signs, if it is not nil. The SDK appends to the
// policies of its options, so two clients must not share them.
func clientOptions(r *retries, o Options, sign policy.Policy) azcore.ClientOptions {
	return azcore.ClientOptions{
		Transport:        o.Transport,
		Retry:            policy.RetryOptions{MaxRetries: -1},
		Telemetry:        policy.TelemetryOptions{ApplicationID: "tablesweep"},
		PerCallPolicies:  []policy.Policy{r},
		PerRetryPolicies: eachTry(sign),
	}
}

// eachTry returns the policies of a try whose request sign signs, if it is not nil.
func eachTry(sign policy.Policy) []policy.Policy {
	if sign == nil {
		return []policy.Policy{captureAnswer{}}
	}
	return []policy.Policy{captureAnswer{}, sign} // behind all that set headers
}

// newWay returns the way of requests for rows or blobs: this package's policies, of which the last one sends. Those that
// azcore puts behind it do nothing here.
func newWay(r *retries, o Options, sign policy.Policy) runtime.Pipeline {
	policies := append([]policy.Policy{r}, eachTry(sign)...)
	return runtime.NewPipeline("", "", runtime.PipelineOptions{}, &azcore.ClientOptions{
		Telemetry:       policy.TelemetryOptions{Disabled: true},
		PerCallPolicies: append(policies, sending{o.Transport}),
	})
}

// sending is a policy that passes a request on to nobody but the network.
type sending struct{ policy.Transporter }

// Do implements [policy.Policy]. A token's policy calls it again if the service wants another token.
func (s sending) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	if r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	return s.Transporter.Do(r)
}
