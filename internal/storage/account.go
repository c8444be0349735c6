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

// Options tune an [Account]. The zero value stands for the defaults.
type Options struct {
	// Connections is the maximum number of connections to each host, busy and idle. The default is 256. A step uses the
	// tables of two accounts, and so at most 512 connections. A Functions instance may have 600 connections open.
	// (Microsoft Learn, "Manage connections in Azure Functions")
	Connections int
	// Name is the account's name in errors and outages. Usually, it is the name of the connection's setting. If
	// Name is empty, errors and outages contain the endpoint's host instead.
	Name string
	// Patience is how long a request waits for a good answer from its host. The default is [DefaultPatience]. The request's own
	// deadline may be earlier.
	Patience time.Duration
	// If Unproven is true, the connection may contain a typing error. So a request to a host that has never answered
	// fails after 15 s, or immediately if the host is unreachable.
	Unproven bool
	// A table, queue or container cannot be created while the service deletes an earlier one with the same name. If
	// AwaitDeletion is set, the creation is repeated, at most for Patience.
	AwaitDeletion bool
	// Transport replaces the network, in tests.
	Transport policy.Transporter
}

// Account gives access to one storage account. It is safe for concurrent use. A
// process opens each account once.
type Account struct {
	connection Connection
	tables     *aztables.ServiceClient
	rows       runtime.Pipeline       // for requests for rows
	queues     *azqueue.ServiceClient // nil if the connection names no queue endpoint
	blobs      runtime.Pipeline       // for requests for blobs; empty if the connection names no blob endpoint
	retries    []*retries             // one for each endpoint
	clock      clock
}

// Open creates an account's clients, without a request.
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
		return nil, fmt.Errorf("open the tables of %s: %w", c, withoutURL(err))
	}
	a.rows = newPipeline(r, o, byTables)
	if c.queueURL != "" {
		r := a.newRetries(c.queueURL, o)
		queues := azqueue.ClientOptions{ClientOptions: clientOptions(r, o, byOthers)}
		if a.queues, err = azqueue.NewServiceClientWithNoCredential(c.withSAS(c.queueURL), &queues); err != nil {
			return nil, fmt.Errorf("open the queues of %s: %w", c, withoutURL(err))
		}
	}
	if c.blobURL != "" {
		r := a.newRetries(c.blobURL, o)
		a.blobs = newPipeline(r, o, byOthers)
	}
	return a, nil
}

// String returns the account's name, without secrets.
func (a *Account) String() string { return a.connection.String() }

// Same reports whether a and other are the same account; see [Connection.Same].
func (a *Account) Same(other *Account) bool { return a.connection.Same(other.connection) }

// Outages returns the outages of the account's connections, at most one for each name.
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

// transport sends requests over the network. The service sends no redirects, so transport avoids the cost of an
// [http.Client].
type transport struct{ *http.Transport }

func (t transport) Do(r *http.Request) (*http.Response, error) { return t.RoundTrip(r) }

func newTransport(connections int) transport {
	if connections == 0 {
		connections = 256
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // a small compressed answer could take any amount of memory
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, connections, connections
	return transport{t}
}

// newRetries returns the retry policy that all clients of an endpoint share.
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

// clientOptions returns new options for a client. The policy `sign` may be nil. Two clients must not share options,
// because the SDK appends policies to them.
func clientOptions(r *retries, o Options, sign policy.Policy) azcore.ClientOptions {
	return azcore.ClientOptions{
		Transport:        o.Transport,
		Retry:            policy.RetryOptions{MaxRetries: -1},
		Telemetry:        policy.TelemetryOptions{ApplicationID: "tablesweep"},
		PerCallPolicies:  []policy.Policy{r},
		PerRetryPolicies: eachTry(sign),
	}
}

// eachTry returns the policies that run for each try. The policy `sign` may be nil.
func eachTry(sign policy.Policy) []policy.Policy {
	if sign == nil {
		return []policy.Policy{captureAnswer{}}
	}
	return []policy.Policy{captureAnswer{}, sign} // signing comes after all policies that set headers
}

// newPipeline returns the pipeline of requests for rows or blobs. A [sender] comes before azcore's own policies and
// sends the request, so these policies never run.
func newPipeline(r *retries, o Options, sign policy.Policy) runtime.Pipeline {
	policies := append([]policy.Policy{r}, eachTry(sign)...)
	return runtime.NewPipeline("", "", runtime.PipelineOptions{}, &azcore.ClientOptions{
		Telemetry:       policy.TelemetryOptions{Disabled: true},
		PerCallPolicies: append(policies, sender{o.Transport}),
	})
}

// sender is the last policy that runs. It sends the request.
type sender struct{ policy.Transporter }

// Do implements [policy.Policy]. Do may run twice in one try: if the service requires another token, the policy that
// adds a token calls Do again.
func (s sender) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	if r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	return s.Transporter.Do(r)
}
