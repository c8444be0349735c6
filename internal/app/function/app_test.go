package function_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/function"
	"tablesweep/internal/proof"
)

const root = "../../.." // the app's root

type binding struct {
	Type, Direction, Name, QueueName, Connection, Schedule, Route, AuthLevel string
	Methods                                                                  []string
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	proof.Must(t, err)
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("file %s: error %v", file, err)
	}
}

// Each function of the list has a folder, and each folder has a function.
func TestEachFunctionHasAFolder(t *testing.T) {
	functions := function.Functions(function.App{})
	var names []string
	for _, f := range functions {
		names = append(names, f.Name)
		t.Run(f.Name, func(t *testing.T) {
			var config struct{ Bindings []binding }
			readJSON(t, f.Name+"/function.json", &config)
			in := config.Bindings[0]
			want := binding{Type: string(f.Trigger), Direction: "in", Name: in.Name}
			switch f.Trigger {
			case function.Queue:
				want.QueueName, want.Connection = f.Queue, "AzureWebJobsStorage"
			case function.Timer:
				want.Schedule = f.Schedule
			case function.HTTP:
				want.Route, want.AuthLevel = f.Route, "function"
				if f.Anonymous {
					want.AuthLevel = "anonymous"
				}
				for _, m := range f.Methods {
					want.Methods = append(want.Methods, strings.ToLower(m))
				}
				if out := config.Bindings[1]; out.Type != "http" || out.Direction != "out" || out.Name != "res" {
					t.Errorf("the second binding is %+v, want http out res, without which the host does not proxy requests or pass on the error", out)
				}
			}
			if diff := cmp.Diff(want, in); diff != "" {
				t.Errorf("trigger (-want +got)\n%s", diff)
			}
		})
	}
	folders, err := filepath.Glob(filepath.Join(root, "*", "function.json"))
	proof.Must(t, err)
	if len(folders) != len(functions) {
		t.Errorf("got %d function folders and %d functions; error %v", len(folders), len(functions), names)
	}
}
