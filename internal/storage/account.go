package storage

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
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
	// Patience is how long requests wait for a host that gives no good answer. Commands
	// set it, because their user waits. Until a host has answered for the first time, a
	// request that can't reach it fails at once. With 0, a request is retried until its
	// own deadline.
	Patience time.Duration
	// TryTimeout limits one try of a request. Default 40 s. Negative means no limit, for
	// virtual time: a bubble keeps a stopped timer, and with it all memory of its request,
	// until the timer would have fired.
	TryTimeout time.Duration
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
	retries    []*retries             // of each endpoint
}

// Open makes an account's clients. It sends nothing.
func Open(c Connection, o Options) (*Account, error) {
	if o.Transport == nil {
		o.Transport = newTransport(o.Connections)
	}
	a := &Account{connection: c}
	cred, err := credential(c.identity, o.Transport)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", c, err)
	}
	r := a.newRetries(c.tableURL, o)
	if a.tables, err = openTables(c, cred, clientOptions(r, o)); err != nil {
		return nil, fmt.Errorf("open tables of %s: %w", c, withoutURL(err))
	}
	if a.rows, err = openRows(c, cred, clientOptions(r, o)); err != nil {
		return nil, fmt.Errorf("open tables of %s: %w", c, withoutURL(err))
	}
	if c.queueURL != "" {
		if a.queues, err = openQueues(c, cred, clientOptions(a.newRetries(c.queueURL, o), o)); err != nil {
			return nil, fmt.Errorf("open queues of %s: %w", c, withoutURL(err))
		}
	}
	return a, nil
}

// Outages returns the account's hosts that give no good answer, while requests wait
// for one.
func (a *Account) Outages() []Outage {
	var all []Outage
	for _, r := range a.retries {
		if o, ok := r.outage(); ok {
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
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, connections, connections
	return transport{t}
}

// newRetries returns the retries of an endpoint, which all clients for it share.
func (a *Account) newRetries(endpoint string, o Options) *retries {
	r := newRetries(hostOf(endpoint), o.Patience)
	a.retries = append(a.retries, r)
	return r
}

// clientOptions returns fresh options for a client. The SDK appends to the policies of
// its options, so two clients must not share them.
func clientOptions(r *retries, o Options) azcore.ClientOptions {
	return azcore.ClientOptions{
		Transport:        o.Transport,
		Retry:            policy.RetryOptions{MaxRetries: -1, TryTimeout: max(0, cmp.Or(o.TryTimeout, tryTimeout))},
		Telemetry:        policy.TelemetryOptions{ApplicationID: "tablesweep"},
		PerCallPolicies:  []policy.Policy{r},
		PerRetryPolicies: []policy.Policy{captureAnswer{}},
	}
}

func openTables(c Connection, cred azcore.TokenCredential, options azcore.ClientOptions) (*aztables.ServiceClient, error) {
	o := &aztables.ClientOptions{ClientOptions: options}
	switch {
	case cred != nil:
		return aztables.NewServiceClient(c.tableURL, cred, o)
	case c.key != "":
		cred, err := aztables.NewSharedKeyCredential(c.account, c.key)
		if err != nil {
			return nil, err
		}
		return aztables.NewServiceClientWithSharedKey(c.tableURL, cred, o)
	}
	return aztables.NewServiceClientWithNoCredential(c.tableURL+"?"+c.sas, o)
}

func openQueues(c Connection, cred azcore.TokenCredential, options azcore.ClientOptions) (*azqueue.ServiceClient, error) {
	o := &azqueue.ClientOptions{ClientOptions: options}
	switch {
	case cred != nil:
		return azqueue.NewServiceClient(c.queueURL, cred, o)
	case c.key != "":
		cred, err := azqueue.NewSharedKeyCredential(c.account, c.key)
		if err != nil {
			return nil, err
		}
		return azqueue.NewServiceClientWithSharedKeyCredential(c.queueURL, cred, o)
	}
	return azqueue.NewServiceClientWithNoCredential(c.queueURL+"?"+c.sas, o)
}

// credential signs in with Entra ID: in Azure by the managed identity, on a
// laptop by the developer's own sign-in. It is nil without an identity.
func credential(id *identity, transport policy.Transporter) (azcore.TokenCredential, error) {
	if id == nil {
		return nil, nil
	}
	o := azcore.ClientOptions{Transport: transport}
	if id.Managed || id.ClientID != "" || id.ResourceID != "" {
		mo := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: o}
		switch {
		case id.ClientID != "":
			mo.ID = azidentity.ClientID(id.ClientID)
		case id.ResourceID != "":
			mo.ID = azidentity.ResourceID(id.ResourceID)
		}
		return azidentity.NewManagedIdentityCredential(mo)
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o})
}
