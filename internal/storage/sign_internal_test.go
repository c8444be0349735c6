package storage

import (
	"context"
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// refusing is a credential without a token.
type refusing struct{ error }

func (r refusing) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, r.error
}

// TestNotSignedIn: if no sign-in works, the error is one line, with the message of Azure CLI.
func TestNotSignedIn(t *testing.T) {
	const advice = "no sign-in to Azure was found: run az login, or, in Azure, give the app a managed identity"
	for text, want := range map[string]string{
		"DefaultAzureCredential: failed to acquire a token.\nAttempted credentials:\n\tEnvironmentCredential: missing environment variable AZURE_TENANT_ID\n\tAzureCLICredential: Azure CLI not found on path\n": advice + "; Azure CLI says: Azure CLI not found on path",
		"ManagedIdentityCredential authentication failed.\nGET http://169.254.169.254": advice,
	} {
		cause := errors.New(text)
		if _, err := (anySignIn{refusing{cause}}).GetToken(t.Context(), policy.TokenRequestOptions{}); err == nil || err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (anySignIn{refusing{context.Canceled}}).GetToken(ended, policy.TokenRequestOptions{}); err != context.Canceled {
		t.Errorf("got error %v of a canceled call", err)
	}
}
