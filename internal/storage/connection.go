package storage

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// HostConnection is the setting with the connection of a function app's own account, as in the Functions host.
const HostConnection = "AzureWebJobsStorage"

// developmentConnection is the short connection string for an emulator at its default addresses.
const developmentConnection = "UseDevelopmentStorage=true"

// The public account and key of every storage emulator. (Microsoft Learn, "Connect to emulator account")
const (
	devAccount = "devstoreaccount1"
	devKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Connection names a storage account and the way to sign in. It contains secrets, but is printed without them.
type Connection struct {
	tableURL, queueURL string
	blobURL            string // "" if unknown
	account            string // "" for a URL whose host does not contain the account's name
	key                string // shared key, base64
	sas                string // shared access signature, without '?'
	identity           *identity
}

// identity is the Entra ID identity that signs in. The zero value means the managed identity in Azure, and the
// developer's sign-in on a laptop.
type identity struct {
	Managed    bool   // only the managed identity is allowed
	ClientID   string // the client id of a user-assigned managed identity
	ResourceID string // the resource id of a user-assigned managed identity, instead of ClientID

	// If both are set, ClientID is the id of an application, which signs in with ClientSecret.
	TenantID, ClientSecret string
}

// SignsIn describes the identity that signs in, in a few words without secrets.
func (c Connection) SignsIn() string {
	id := c.identity
	switch {
	case c.key != "":
		return "its key"
	case id == nil:
		return "a shared access signature"
	case id.TenantID != "":
		return "the application " + id.ClientID
	case id.ClientID != "" || id.ResourceID != "":
		return "the managed identity " + cmp.Or(id.ClientID, id.ResourceID)
	case id.Managed:
		return "the managed identity of the app"
	}
	return "this environment's identity: the app's in Azure, the developer's elsewhere"
}

// Entra reports whether the connection signs in with an identity of Entra ID, which needs roles.
func (c Connection) Entra() bool { return c.identity != nil }

// Managed reports whether only a managed identity may sign in. A managed identity exists only in Azure.
func (c Connection) Managed() bool {
	id := c.identity
	return id != nil && id.TenantID == "" && (id.Managed || id.ClientID != "" || id.ResourceID != "")
}

// String names the account without its secrets.
func (c Connection) String() string {
	if c.account != "" {
		return c.account
	}
	return c.tableURL
}

// Format implements [fmt.Formatter]: every verb writes what [Connection.String] returns.
func (c Connection) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Same reports whether both connections have the same table endpoint or the same blob endpoint, and so the same
// account. The scheme does not matter. Same ignores queue endpoints, because they may be wrong: if an emulator's
// connection string has no queue endpoint, addEndpoints adds the endpoint of the Azure account with the same name.
func (c Connection) Same(other Connection) bool {
	return locationOf(c.tableURL) == locationOf(other.tableURL) || c.blobURL != "" && locationOf(c.blobURL) == locationOf(other.blobURL)
}

// locationOf returns the parts of an endpoint that identify an account: the host, the port and the path. It leaves out the host's final dot and
// the scheme's default port. localhost becomes 127.0.0.1.
func locationOf(endpoint string) string {
	u, err := url.Parse(strings.ToLower(endpoint))
	if err != nil {
		return endpoint
	}
	host, port := strings.TrimSuffix(u.Hostname(), "."), u.Port()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if port != "" && !(u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80") {
		host = net.JoinHostPort(host, port)
	}
	return host + strings.TrimSuffix(u.Path, "/")
}

// hostOf returns an endpoint's host, with its port if the URL has one.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	return u.Host
}

// BlobURL reads a URL of blobs: https://ACCOUNT.blob.core.windows.net/PATH, or an emulator's
// http://127.0.0.1:PORT/ACCOUNT/PATH, where PATH is CONTAINER/PREFIX. If the URL has a SAS, the connection c signs in
// with it. If the URL has no SAS, and `known` is a connection to the URL's account, BlobURL returns `known`. Any
// other URL without a SAS needs Entra ID. Errors never repeat the URL.
func BlobURL(s string, known Connection) (c Connection, path string, err error) {
	const want = "a blob URL must be https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX, with or without ?SAS at its end; for an account with another host, give blob:CONTAINER/PREFIX and a connection with its BlobEndpoint"
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return c, "", errors.New(want)
	}
	if strings.Contains(strings.ToLower(s), "&amp;") {
		return c, "", errEscaped
	}
	c.sas, path = u.RawQuery, strings.TrimPrefix(u.Path, "/")
	account, service, suffix, ok := splitHost(u.Host)
	switch {
	case ok && service == "blob":
		c.account = account
		c.addEndpoints(u.Scheme, suffix)
	case u.Hostname() == "localhost" || net.ParseIP(u.Hostname()) != nil:
		c.account, path, _ = strings.Cut(path, "/")
		c.blobURL = u.Scheme + "://" + u.Host + "/" + c.account
		c.tableURL = c.blobURL // not used
	}
	if !accountName.MatchString(c.account) {
		return c, "", errors.New(want)
	}
	switch {
	case c.sas != "":
	case locationOf(c.blobURL) == locationOf(known.blobURL):
		return known, path, nil
	case u.Scheme != "https":
		return c, "", errors.New("this blob URL has no SAS, and Entra ID needs https; use https, add a SAS, or name a connection to the same account")
	case !slices.Contains(clouds, strings.TrimSuffix(strings.ToLower(suffix), ":443")):
		return c, "", errors.New("this blob URL has no SAS, and Entra ID signs in only to accounts in Azure's own clouds; add a SAS, or use blob:CONTAINER/PREFIX with a connection to the account")
	default:
		c.identity = &identity{}
	}
	return c, path, nil
}

// ParseConnection reads a connection string, UseDevelopmentStorage=true, or the https URL of an account's table or
// queue endpoint. For a URL, the connection signs in with Entra ID. Quotes around the text are ignored, because Docker
// keeps the quotes of env files. Errors never repeat the input, which may contain a secret.
func ParseConnection(s string) (Connection, error) {
	s = strings.TrimSpace(s)
	if n := len(s); n > 1 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		s = strings.TrimSpace(s[1 : n-1])
	}
	switch low := strings.ToLower(s); {
	case strings.Contains(low, "@microsoft.keyvault("), strings.Contains(low, "@microsoft.appconfiguration("):
		return Connection{}, errors.New("the connection is a reference to Key Vault or App Configuration, and Azure has not replaced the reference by its value; in Azure, the setting must contain only the reference, and the app's identity must be allowed to read the value; elsewhere, use the connection string itself")
	case strings.Contains(low, "&amp;"):
		return Connection{}, errEscaped
	case strings.ContainsAny(s, `"'“”‘’`):
		return Connection{}, errors.New("the connection has quotes in it; remove them, because names and values are written without quotes")
	case strings.HasPrefix(low, "https://") || strings.HasPrefix(low, "http://"):
		return parseEndpoint(s)
	}
	fields, err := parseFields(s)
	if err != nil {
		return Connection{}, err
	}
	if fields["usedevelopmentstorage"] != "" {
		return Connection{
			tableURL: "http://127.0.0.1:10002/" + devAccount,
			queueURL: "http://127.0.0.1:10001/" + devAccount,
			blobURL:  "http://127.0.0.1:10000/" + devAccount,
			account:  devAccount,
			key:      devKey,
		}, nil
	}
	return connectionFromFields(fields)
}

var errEscaped = errors.New("the connection has &amp; in it, as in HTML or XML; replace it by &")

// fieldNames lists the names that a connection string may contain. (Microsoft Learn, "Configure Azure Storage connection
// strings")
var fieldNames = []string{
	"DefaultEndpointsProtocol", "AccountName", "AccountKey", "SharedAccessSignature", "EndpointSuffix", "UseDevelopmentStorage",
	"BlobEndpoint", "QueueEndpoint", "TableEndpoint", "FileEndpoint",
	"BlobSecondaryEndpoint", "QueueSecondaryEndpoint", "TableSecondaryEndpoint", "FileSecondaryEndpoint",
}

// parseFields returns the values of a connection string, by their names in lower case.
func parseFields(s string) (map[string]string, error) {
	fields := map[string]string{}
	for part := range strings.SplitSeq(s, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("a connection string consists of Name=value pairs separated by ';', and one pair has no '='; %s", connectionForms)
		}
		low := strings.ToLower(strings.TrimSpace(name))
		at := slices.IndexFunc(fieldNames, func(known string) bool { return strings.ToLower(known) == low })
		switch _, twice := fields[low]; {
		case low == "developmentstorageproxyuri":
			return nil, errors.New("the connection string has a DevelopmentStorageProxyUri, which is not supported; give the emulator's addresses as TableEndpoint, QueueEndpoint and BlobEndpoint")
		case at < 0:
			return nil, fmt.Errorf("the connection string has an unknown name before a '='; the most similar known name is %s. The unknown name is not shown, because it may be an account key", nearest(low))
		case twice:
			return nil, fmt.Errorf("the connection string has %s twice; remove one", fieldNames[at])
		}
		fields[low] = strings.TrimSpace(value)
	}
	switch use, given := fields["usedevelopmentstorage"]; {
	case given && !strings.EqualFold(use, "true"):
		return nil, errors.New("the connection string's UseDevelopmentStorage must be true, or be left out")
	case given && len(fields) > 1:
		return nil, fmt.Errorf("%[1]s is already a complete connection string; to use an emulator on this machine, remove all other parts; to use an account, remove %[1]s", developmentConnection)
	}
	return fields, nil
}

// nearest returns the known name that differs from the given name in the fewest letters.
func nearest(name string) string {
	distance := func(known string) int {
		row := make([]int, len(known)+1) // row[i] is the edit distance between known[:i] and the part of name that the loop below has compared
		for i := range row {
			row[i] = i
		}
		for i := range len(name) {
			before := row[0]
			row[0] = i + 1
			for j := range len(known) {
				change := before
				if name[i] != known[j]|0x20 { // 0x20 changes the known letter to lower case
					change++
				}
				before = row[j+1]
				row[j+1] = min(change, before+1, row[j]+1)
			}
		}
		return row[len(known)]
	}
	return slices.MinFunc(fieldNames, func(a, b string) int { return distance(a) - distance(b) })
}

const connectionForms = "give a connection string, " + developmentConnection + ", or https://ACCOUNT.table.core.windows.net"

func connectionFromFields(fields map[string]string) (Connection, error) {
	c := Connection{
		account:  fields["accountname"],
		key:      fields["accountkey"],
		sas:      strings.TrimPrefix(fields["sharedaccesssignature"], "?"),
		tableURL: strings.TrimSuffix(fields["tableendpoint"], "/"),
		queueURL: strings.TrimSuffix(fields["queueendpoint"], "/"),
		blobURL:  strings.TrimSuffix(fields["blobendpoint"], "/"),
	}
	if c.account == "" && c.tableURL == "" {
		return Connection{}, fmt.Errorf("the connection string has neither AccountName nor TableEndpoint; %s", connectionForms)
	}
	if c.account != "" && !accountName.MatchString(c.account) {
		return Connection{}, fmt.Errorf("the connection string's AccountName must be %s", accountNameForm)
	}
	if strings.ContainsFunc(c.sas, unicode.IsControl) {
		return Connection{}, fmt.Errorf("the connection string's SharedAccessSignature must be one line")
	}
	if c.key == "" && c.sas == "" {
		return Connection{}, fmt.Errorf("the connection string has neither AccountKey nor SharedAccessSignature; to sign in with Entra ID, give the account's URL instead")
	}
	if c.key != "" {
		if c.account == "" {
			return Connection{}, fmt.Errorf("the connection string has an AccountKey but no AccountName")
		}
		if _, err := base64.StdEncoding.DecodeString(c.key); err != nil {
			return Connection{}, fmt.Errorf("the connection string's AccountKey is not base64; copy it again, with the '=' at its end")
		}
	}
	c.addEndpoints(cmp.Or(fields["defaultendpointsprotocol"], "https"), cmp.Or(fields["endpointsuffix"], defaultSuffix))
	for _, endpoint := range []string{c.tableURL, c.queueURL, c.blobURL} {
		if endpoint != "" && !isEndpoint(endpoint) {
			return Connection{}, fmt.Errorf("the connection string's endpoints must be URLs such as https://ACCOUNT.table.core.windows.net; a SAS belongs in SharedAccessSignature")
		}
	}
	return c, nil
}

// defaultSuffix is the end of the public cloud's endpoints.
const defaultSuffix = "core.windows.net"

// clouds lists the domains of the endpoints in Azure's clouds. (Microsoft Learn, "Azure Government developer guide",
// "Azure China developer guide")
var clouds = []string{defaultSuffix, "core.usgovcloudapi.net", "core.chinacloudapi.cn"}

// addEndpoints adds the missing endpoints, which it derives from the account's name.
func (c *Connection) addEndpoints(scheme, suffix string) {
	if c.account != "" {
		c.tableURL = cmp.Or(c.tableURL, fmt.Sprintf("%s://%s.table.%s", scheme, c.account, suffix))
		c.queueURL = cmp.Or(c.queueURL, fmt.Sprintf("%s://%s.queue.%s", scheme, c.account, suffix))
		if _, _, _, ok := splitHost(hostOf(c.tableURL)); ok { // not for an emulator, because its blob endpoint has another form
			c.blobURL = cmp.Or(c.blobURL, fmt.Sprintf("%s://%s.blob.%s", scheme, c.account, suffix))
		}
	}
}

// splitHost splits the host of a service's endpoint, ACCOUNT.SERVICE.SUFFIX. ok is false for
// every other host.
func splitHost(host string) (account, service, suffix string, ok bool) {
	account, rest, _ := strings.Cut(host, ".")
	service, suffix, _ = strings.Cut(rest, ".")
	return account, service, suffix, slices.Contains([]string{"blob", "queue", "table"}, service) && account != "" && suffix != ""
}

// accountName matches names of accounts. The program prints names, so a URL with a secret must not match.
var accountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)

const accountNameForm = "the account's name alone, letters, digits and hyphens"

// isEndpoint reports whether a URL consists only of scheme, host and path. Other URLs must not be printed, because they
// may contain a SAS.
func isEndpoint(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && !strings.ContainsAny(endpoint, "?#") && !strings.ContainsAny(u.Path, "?=")
}

func parseEndpoint(s string) (Connection, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Connection{}, fmt.Errorf("the connection is not a valid URL; %s", connectionForms)
	}
	sas := u.RawQuery
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	if !isEndpoint(u.String()) {
		return Connection{}, fmt.Errorf("the connection is not a valid URL; %s", connectionForms)
	}
	if u.Scheme != "https" && sas == "" {
		return Connection{}, fmt.Errorf("the URL has no SAS, and Entra ID needs https; for an emulator, give its connection string")
	}
	c := Connection{sas: sas}
	if sas == "" {
		c.identity = &identity{}
	}
	if account, _, suffix, ok := splitHost(u.Host); ok {
		c.account = account
		c.addEndpoints(u.Scheme, suffix)
	} else {
		c.tableURL = strings.TrimSuffix(u.String(), "/")
	}
	return c, nil
}
