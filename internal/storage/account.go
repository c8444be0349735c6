package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
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
	// Impatient callers are told at once if nobody listens at an address, instead
	// of trying again until their time is up: for commands, whose user waits.
	Impatient bool
	// Transport replaces the network, in tests.
	Transport policy.Transporter
}

// Account gives access to one storage account. It is safe for concurrent use; a
// process opens each account once.
type Account struct {
	connection Connection
	tables     *aztables.ServiceClient
	queues     *azqueue.ServiceClient // nil if the connection names no queue endpoint
}

// Retries: the service asks callers to back off when it is busy, so an account
// that throttles slows its callers down until their own deadline. The try
// timeout lies above the service's 30 s limit. (Microsoft Learn, "Setting
// timeouts for Table service operations")
const (
	maxRetries    = 40
	retryDelay    = 250 * time.Millisecond
	maxRetryDelay = time.Minute // no less than a Retry-After, or the SDK gives up
	tryTimeout    = 40 * time.Second
)

// Open makes an account's clients. It sends nothing.
func Open(c Connection, o Options) (*Account, error) {
	if o.Transport == nil {
		o.Transport = newTransport(o.Connections)
	}
	tables, err := openTables(c, o)
	if err != nil {
		return nil, fmt.Errorf("open tables of %s: %w", c, withoutURL(err))
	}
	a := &Account{connection: c, tables: tables}
	if c.queueURL != "" {
		if a.queues, err = openQueues(c, o); err != nil {
			return nil, fmt.Errorf("open queues of %s: %w", c, withoutURL(err))
		}
	}
	return a, nil
}

// Connection returns what the account was opened with.
func (a *Account) Connection() Connection { return a.connection }

func newTransport(connections int) *http.Client {
	if connections == 0 {
		connections = 256
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, connections, connections
	return &http.Client{Transport: t}
}

// clientOptions returns fresh options: the SDK appends to the policies of those
// it is given, so that two clients must not share them.
func clientOptions(o Options) azcore.ClientOptions {
	return azcore.ClientOptions{
		Transport: o.Transport,
		Retry: policy.RetryOptions{
			MaxRetries: maxRetries, RetryDelay: retryDelay, MaxRetryDelay: maxRetryDelay, TryTimeout: tryTimeout,
			ShouldRetry: func(resp *http.Response, err error) bool { return shouldRetry(resp, err, o.Impatient) },
		},
		Telemetry:        policy.TelemetryOptions{ApplicationID: "tablesweep"},
		PerCallPolicies:  []policy.Policy{replaceBody{}},
		PerRetryPolicies: []policy.Policy{captureAnswer{}},
	}
}

// Once returns a context whose requests are sent once each: for those who try again by
// themselves, and must notice soon that the service is back.
func Once(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1, TryTimeout: tryTimeout})
}

// shouldRetry repeats what may pass: a busy service, a time-out, a broken
// connection. A host that does not exist is a mistake in the connection, and is told
// at once.
func shouldRetry(resp *http.Response, err error, impatient bool) bool {
	if err != nil {
		var dns *net.DNSError
		return !(errors.As(err, &dns) && dns.IsNotFound) && !(impatient && errors.Is(err, syscall.ECONNREFUSED)) && !errors.Is(err, context.Canceled)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func openTables(c Connection, options Options) (*aztables.ServiceClient, error) {
	o := &aztables.ClientOptions{ClientOptions: clientOptions(options)}
	switch {
	case c.identity != nil:
		cred, err := credential(*c.identity, options.Transport)
		if err != nil {
			return nil, err
		}
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

func openQueues(c Connection, options Options) (*azqueue.ServiceClient, error) {
	o := &azqueue.ClientOptions{ClientOptions: clientOptions(options)}
	switch {
	case c.identity != nil:
		cred, err := credential(*c.identity, options.Transport)
		if err != nil {
			return nil, err
		}
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
// laptop by whatever the developer is signed in with.
func credential(id Identity, transport policy.Transporter) (azcore.TokenCredential, error) {
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
