package storage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Settings are a function app's settings, or a process's environment, by name. As in the Functions host, whose settings
// are .NET configuration keys, the case of a name does not matter.
type Settings map[string]string

// SettingsOf returns the settings in environ, a list in the form that [os.Environ] returns.
func SettingsOf(environ []string) Settings {
	s := Settings{}
	for _, e := range environ {
		if name, v, ok := strings.Cut(e, "="); ok {
			s[name] = v
		}
	}
	return s
}

// Get returns a setting's value, or "" if it is not set.
func (s Settings) Get(name string) string {
	if v, ok := s[name]; ok {
		return v
	}
	for _, n := range s.spellings(name) {
		return s[n]
	}
	return ""
}

// Set sets a setting, and removes all other spellings of its name.
func (s Settings) Set(name, value string) {
	for _, n := range s.spellings(name) {
		delete(s, n)
	}
	s[name] = value
}

// CheckSpelling returns an error if a name is set in several spellings that differ only in case, because it is unknown
// which spelling the host uses.
func (s Settings) CheckSpelling(name string) error {
	if n := s.spellings(name); len(n) > 1 {
		return fmt.Errorf("settings %s differ only in upper and lower case; remove all but one", strings.Join(n, " and "))
	}
	return nil
}

// spellings returns the existing spellings of the name, in order.
func (s Settings) spellings(name string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for n := range s {
			if strings.EqualFold(n, name) && !yield(n) {
				return
			}
		}
	})
}

// In the identity form, several settings describe a connection. The name of each setting consists of the connection's
// name, "__" and a part: one of these, or one of serviceParts. (Microsoft Learn, "Guidance for developing Azure Functions",
// identity-based connections)
const (
	accountPart    = "accountName"
	servicePart    = "serviceUri"
	credentialPart = "credential"
	clientPart     = "clientId"
	resourcePart   = "managedIdentityResourceId"
	tenantPart     = "tenantId"
	secretPart     = "clientSecret"
)

// serviceParts maps each service to the part that contains the service's address. For example, NAME__blobServiceUri is the address of
// the Blob service.
var serviceParts = map[string]string{"blob": "blobServiceUri", "queue": "queueServiceUri", "table": "tableServiceUri"}

// SettingConnection reads the connection of a setting, in any form that the Functions host accepts: the setting's
// value, or the identity form. In the identity form, the setting NAME__accountName, or a setting with a service's
// address, names the account, and settings such as NAME__clientId name the identity. Errors name the setting to
// change, and do not repeat values.
func SettingConnection(name string, settings Settings) (Connection, error) {
	if err := settings.CheckSpelling(name); err != nil {
		return Connection{}, err
	}
	if v := settings.Get(name); v != "" {
		c, err := ParseConnection(v)
		if err != nil {
			return Connection{}, fmt.Errorf("setting %s: %w", name, err)
		}
		return c, nil
	}
	parts := map[string]string{}
	for _, part := range append(slices.Collect(maps.Values(serviceParts)), accountPart, servicePart, credentialPart, clientPart, resourcePart, tenantPart, secretPart) {
		if err := settings.CheckSpelling(name + "__" + part); err != nil {
			return Connection{}, err
		}
		parts[part] = settings.Get(name + "__" + part)
	}
	c, err := connectionFromParts(parts)
	if err == nil {
		c.identity, err = identityFromParts(parts)
	}
	switch {
	case errors.Is(err, errNoAddress):
		return Connection{}, fmt.Errorf("setting %s is %w: set it to a connection string, or set %s__%s to sign in with Entra ID", name, ErrNoConnection, name, accountPart)
	case err != nil:
		return Connection{}, fmt.Errorf("setting %s__%w", name, err)
	}
	return c, nil
}

// ErrNoConnection is the error if the setting of a connection is missing.
var ErrNoConnection = errors.New("missing")

var errNoAddress = errors.New("none of its parts names the account")

// connectionFromParts makes a connection from the identity form's settings. The argument `parts` maps the name of each
// part, such as accountName, to the part's value. Errors, except errNoAddress, begin with the name of the part to
// change.
func connectionFromParts(parts map[string]string) (Connection, error) {
	c := Connection{account: parts[accountPart]}
	if c.account != "" && !accountName.MatchString(c.account) {
		return c, fmt.Errorf("%s must be %s", accountPart, accountNameForm)
	}
	endpoints, suffix := map[string]string{}, defaultSuffix
	for _, service := range []string{"table", "queue", "blob", ""} {
		part := cmp.Or(serviceParts[service], servicePart)
		endpoint := strings.TrimSuffix(parts[part], "/")
		if endpoint == "" {
			continue
		}
		if !strings.HasPrefix(endpoint, "https://") || !isEndpoint(endpoint) {
			return c, fmt.Errorf("%s must be an https URL without a query", part)
		}
		u, _ := url.Parse(endpoint) // isEndpoint has already parsed this URL
		account, of, hostSuffix, ok := splitHost(u.Host)
		switch {
		case ok && service != "" && of != service:
			return c, fmt.Errorf("%s must be the address of the account's %ss, not of its %ss", part, service, of)
		case ok && c.account != "" && !strings.EqualFold(c.account, account):
			return c, fmt.Errorf("%s does not name the same account as the setting's other parts", part)
		case ok:
			c.account, suffix = account, hostSuffix
		}
		switch {
		case service != "":
			endpoints[service] = endpoint
		case !ok: // the address does not name an account, so the address itself is the endpoint
			endpoints["table"] = cmp.Or(endpoints["table"], endpoint)
			endpoints["queue"] = cmp.Or(endpoints["queue"], endpoint)
		}
	}
	c.tableURL, c.queueURL, c.blobURL = endpoints["table"], endpoints["queue"], endpoints["blob"]
	if c.account == "" && len(endpoints) == 0 {
		return c, errNoAddress
	}
	c.addEndpoints("https", suffix)
	if c.tableURL == "" {
		return c, fmt.Errorf("%s is missing: set it to https://ACCOUNT.table.core.windows.net", serviceParts["table"])
	}
	return c, nil
}

// identityFromParts returns the identity that signs in. Its errors begin with the name of the part to change.
func identityFromParts(parts map[string]string) (*identity, error) {
	id := &identity{ClientID: parts[clientPart], ResourceID: parts[resourcePart], TenantID: parts[tenantPart], ClientSecret: parts[secretPart]}
	switch v := parts[credentialPart]; {
	case v == "":
	case strings.EqualFold(v, "managedidentity"):
		id.Managed = true
	default:
		return nil, fmt.Errorf("%s must be managedidentity, or be left out", credentialPart)
	}
	application := id.TenantID != "" || id.ClientSecret != ""
	switch {
	case id.ClientID != "" && id.ResourceID != "":
		return nil, fmt.Errorf("%s and %s name the same identity in two ways; remove one", clientPart, resourcePart)
	case application && id.Managed:
		return nil, fmt.Errorf("%[1]s is managedidentity, which cannot be combined with %[2]s and %[3]s; remove %[1]s, or remove the other two", credentialPart, tenantPart, secretPart)
	case application && (id.TenantID == "" || id.ClientSecret == "" || id.ClientID == ""):
		return nil, fmt.Errorf("%s, %s and %s are needed together, but one of them is missing", tenantPart, clientPart, secretPart)
	}
	return id, nil
}
