package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// Errors of Core Tools and the deployment service about a new app, from the issues that report them.
const (
	// azure-functions-core-tools #1616 and #1766: Resource Graph does not list the app yet.
	notFound = "Can't find app with name \"app\"\n"
	// azure-functions-core-tools #4346: the app's identity may not write to the package's container yet.
	forbidden = "Received Token using system assigned identity\n" +
		"Failed to upload because Azure Storage responded with Forbidden : Response status code does not indicate success: 403 (This request is not authorized to perform this operation.)..\n" +
		"The deployment failed, Please check the printed logs.\n"
	// azure-dev #8026: the same error with a newer text.
	inaccessible = "InaccessibleStorageException: Failed to access storage account for deployment: BlobUploadFailedException: Failed to upload blob to storage account: " +
		"Response status code does not indicate success: 403 (This request is not authorized to perform this operation using this permission.)\n"
	// PerformFlexDeployment: the package was uploaded, but the host's keys cannot be read yet.
	unhealthy = "Deployment was successful but the app appears to be unhealthy, please check the app logs.\n"
)

func TestPublish(t *testing.T) {
	tests := []struct {
		name     string
		failures []string          // the output of func before it succeeds
		late     map[string]string // the times at which the app is listed, returns its keys and works
		tries    int               // the number of calls of func
		waited   int               // in seconds
		output   string
	}{
		{"at the first try", nil, nil, 1, 0, ""},
		{"Core Tools do not find the app", []string{notFound, notFound}, nil, 3, 60, "Core Tools do not find app yet"},
		{"the identity's role is new", []string{forbidden, forbidden}, nil, 3, 60, "new roles take up to ten minutes"},
		{"the role is new, with a newer text", []string{inaccessible}, nil, 2, 30, "new roles take up to ten minutes"},
		{"one after the other", []string{notFound, forbidden, inaccessible}, nil, 4, 90, "waiting: "},
		{"published, but its keys cannot be read", []string{unhealthy}, map[string]string{"keys": "1000090", "works": "1000180"}, 1, 180, "returns no keys yet: ERROR: Encountered an error (InternalServerError)"},
		{"the app has no storage yet", nil, map[string]string{"works": "1000060"}, 1, 60, `https://app.example/api/health does not confirm that scans work, but answers 503 "detail":"storage is not ready"`},
		{"the app lacks a role", nil, map[string]string{"works": "1000060", "answer": `{"checks":[{"name":"clock","state":"ok","detail":"1s"},{"name":"state table","state":"failed","detail":"no role"}]}`}, 1, 60, `health does not confirm that scans work, but answers 503 "name":"state table","state":"failed","detail":"no role"` + "\n"},
		{"a page with status 200 does not prove health", nil, map[string]string{"works": "1000060", "answer": "<html>Your Functions 4.0 app is up and running", "answer-status": "200"}, 1, 60, "https://app.example/api/health does not confirm that scans work, but answers 200"},
		{"an answer that repeats the key", nil, map[string]string{"works": "1000060", "answer": `{"detail":"not MARKED-SECRET"}`}, 1, 60, `health does not confirm that scans work, but answers 503 "detail":"not …"`},
		{"the app is not listed yet", nil, map[string]string{"visible": "1000120"}, 1, 120, "there is no function app app in the subscription " + subscription},
	}
	for _, test := range tests[:testsize.Of(6, len(tests))] {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := play(t)
			for i, f := range test.failures {
				p.write("publish."+string(rune('1'+i)), f)
			}
			if strings.HasPrefix(test.name, "published") {
				proof.Must(t, os.Remove(filepath.Join(p.dir, "publish.9.ok")))
			}
			for name, when := range test.late {
				p.write(name, when)
			}
			out, code := p.publish([]string{"AZURE_SUBSCRIPTION_ID=" + subscription}, "app")
			if code != 0 || !strings.Contains(out, test.output) || !strings.Contains(out, "app works.") {
				t.Errorf("exit code %d, want 0, with %q and that the app works in the output:\n%s", code, test.output, out)
			}
			if n := p.calls("func azure functionapp publish app --custom --subscription " + subscription); n != test.tries {
				t.Errorf("published %d times to the subscription, want %d; calls:\n%s", n, test.tries, p.read("calls"))
			}
			if p.waited() != test.waited {
				t.Errorf("waited %d s, want %d", p.waited(), test.waited)
			}
		})
	}
}

// An error that waiting does not remove ends publish.sh immediately, with the reason.
func TestPublishEndsImmediately(t *testing.T) {
	for _, failure := range []string{
		"Response status code does not indicate success: 403 (Forbidden).", // the publisher lacks a permission: core-tools #2301
		"Deployment was cancelled, another deployment in progress.",
		"Failed to upload because Azure Storage responded with NotFound : Response status code does not indicate success: 404 (The specified container does not exist.)..",
		"Your app has an unknown FUNCTIONS_WORKER_RUNTIME defined 'go'.",
	} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			p := play(t)
			p.write("publish.1", failure+"\n")
			out, code := p.publish(nil, "app")
			if code != 1 || !strings.Contains(out, failure) || strings.Contains(out, "works.") {
				t.Errorf("exit code %d, want 1 and the reason in the output:\n%s", code, out)
			}
			if p.calls("func") != 1 || p.waited() != 0 {
				t.Errorf("published %d times in %d s, want once and immediately", p.calls("func"), p.waited())
			}
		})
	}
}

// A missing permission also ends publish.sh immediately.
func TestPublishWithoutPermission(t *testing.T) {
	const why = "ERROR: (AuthorizationFailed) The client does not have authorization"
	for name, app := range map[string]string{"to find the app": "refused", "to list its keys": "app"} {
		t.Run(name, func(t *testing.T) {
			p := play(t)
			p.write("keys", "9999999")
			p.write("no-keys", why+"\n")
			out, code := p.publish(nil, app)
			if code != 1 || !strings.Contains(out, why) || p.waited() != 0 {
				t.Errorf("exit code %d after %d s, want 1 immediately and the reason in the output:\n%s", code, p.waited(), out)
			}
		})
	}
}

// Waiting ends after 15 minutes, and the output names what is still missing.
func TestPublishGivesUp(t *testing.T) {
	const never = "9999999"
	for name, prepare := range map[string]func(*playground){
		"Core Tools do not find app yet":                                                   func(p *playground) { p.write("publish.1", notFound); p.write("publish.2", notFound) },
		"may not use the package's container yet":                                          func(p *playground) { p.write("publish.1", forbidden) },
		"the host of app returns no keys yet":                                              func(p *playground) { p.write("keys", never) },
		"https://app.example/api/health does not confirm that scans work, but answers 503": func(p *playground) { p.write("works", never) },
		"there is no function app app in the subscr":                                       func(p *playground) { p.write("visible", never) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := play(t)
			p.write("pace", "5")
			prepare(p)
			if p.read("publish.1") != "" {
				proof.Must(t, os.Remove(filepath.Join(p.dir, "publish.9.ok")))
			}
			out, code := p.publish(nil, "app")
			if last := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]; code != 1 || !strings.HasPrefix(last, "publish.sh: gave up after 15 minutes: ") || !strings.Contains(last, name) {
				t.Errorf("exit code %d, want 1 and, at the end of the output, what is missing:\n%s", code, out)
			}
			if p.waited() != 15*60 {
				t.Errorf("waited %d s, want 15 minutes", p.waited())
			}
		})
	}
}

// publish.sh checks everything that it needs before it starts, and lists all that is missing.
func TestPublishNamesWhatIsMissing(t *testing.T) {
	tests := []struct {
		name    string
		remove  string // the programs that are not installed
		write   [2]string
		args    string
		env     string
		missing []string
	}{
		{"nothing installed", "func az go curl", [2]string{}, "app", "", []string{"curl", "Core Tools 4", "Go, to build", "Azure CLI"}},
		{"not signed in", "", [2]string{"signed-in"}, "app", "", []string{"az login: Core Tools sign in with az; azd auth login is not enough"}},
		{"not signed in to the subscription", "", [2]string{"signed-in"}, "app", subscription, []string{"az login, to an account with the subscription " + subscription}},
		{"old Core Tools", "", [2]string{"func-version", "3.0.3442\n"}, "app", "", []string{"Core Tools 4"}},
		{"old azd", "", [2]string{"azd", "azd version 1.9.11 (commit 0)\n"}, "app", "", []string{"azd 1.24.1 or later, not 1.9.11: in older versions, azd down also deletes the resource groups of your data accounts"}},
		{"the last azd that is too old", "", [2]string{"azd", "azd version 1.24.0 (commit 0)\n"}, "app", "", []string{"azd 1.24.1 or later, not 1.24.0"}},
		{"no right to assign roles", "", [2]string{"may-assign", "0\n"}, "--check", "", []string{"the right to assign roles in the subscription " + subscription + ": be its Owner, or Contributor and User Access Administrator"}},
		{"several", "go", [2]string{"signed-in"}, "--check", "", []string{"Go, to build", "az login"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := play(t)
			for name := range strings.FieldsSeq(test.remove) {
				proof.Must(t, os.Remove(filepath.Join(p.path, name)))
			}
			if name, text := test.write[0], test.write[1]; text != "" {
				p.write(name, text)
			} else if name != "" {
				proof.Must(t, os.Remove(filepath.Join(p.dir, name)))
			}
			out, code := p.publish([]string{"AZURE_SUBSCRIPTION_ID=" + test.env}, test.args)
			if code != 1 || strings.Count(out, "\n") != 1+len(test.missing) {
				t.Errorf("exit code %d, want 1 and %d missing things in the output:\n%s", code, len(test.missing), out)
			}
			for _, m := range test.missing {
				if !strings.Contains(out, m) {
					t.Errorf("the output does not name %q:\n%s", m, out)
				}
			}
			if p.calls("func")+p.calls("linux/amd64") > 0 {
				t.Errorf("publish.sh nevertheless began: %s", p.read("calls"))
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		p := play(t)
		if out, code := p.publish(nil, "--check"); code != 0 || out != "" {
			t.Errorf("exit code %d, output %q; want 0 and no output", code, out)
		}
	})
	t.Run("the right to assign roles, only to publish", func(t *testing.T) {
		p := play(t)
		p.write("may-assign", "0")
		if out, code := p.publish(nil, "app"); code != 0 {
			t.Errorf("exit code %d, want 0; output:\n%s", code, out)
		}
	})
}

// An invalid name is refused before any program is called.
func TestPublishRefusesAName(t *testing.T) {
	for _, args := range [][]string{{""}, {"app' || '1"}, {"--help"}, {}, {"a", "b"}} {
		p := play(t)
		out, code := p.publish(nil, args...)
		if code != 1 || p.read("calls") != "" || !strings.HasPrefix(out, "publish.sh: ") {
			t.Errorf("%q: exit code %d, want 1 before any call; output:\n%s\ncalls:\n%s", args, code, out, p.read("calls"))
		}
	}
}

// At its end, publish.sh prints the next commands.
func TestPublishPrintsTheNextCommands(t *testing.T) {
	p := play(t)
	out, code := p.publish(nil, "app")
	if code != 0 {
		t.Fatalf("exit code %d, want 0; output:\n%s", code, out)
	}
	for _, want := range []string{
		"KEY=$(az functionapp keys list --subscription " + subscription + " --resource-group rg-app --name app --query functionKeys.default --output tsv)",
		"https://app.example/api/console/",
		`curl -H "x-functions-key: $KEY" https://app.example/api/health` + "\n",
		`curl -X POST https://app.example/api/scans -H "x-functions-key: $KEY" -d '{"source":{"table":"TABLE"},"action":{"type":"count"}}'`,
		`--role "Storage $service Data Contributor" --scope /subscriptions/S/resourceGroups/rg-app/providers/Microsoft.Storage/storageAccounts/stapp; done`,
		"tablesweep tables list --connection https://stapp.table.example/",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
}

// An older azd deletes data, so azure.yaml refuses it. "azd deploy" must publish the app with publish.sh.
func TestAzdProject(t *testing.T) {
	project, err := os.ReadFile(filepath.Join(root, "azure.yaml"))
	proof.Must(t, err)
	for _, want := range []string{
		`(?m)^requiredVersions:\n(  #.*\n)*  azd: ">= 1\.24\.1"$`,
		`(?m)^  preprovision:\n(    .*\n)*    run: scripts/publish\.sh --check$`,
		`(?m)^  postdeploy:\n(    .*\n)*    run: scripts/publish\.sh "\$FUNCTION_APP"$`,
	} {
		if !regexp.MustCompile(want).Match(project) {
			t.Errorf("azure.yaml does not match %s", want)
		}
	}
}
