package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStorageSettings(t *testing.T) {
	t.Parallel()
	environ := []string{"MINE=UseDevelopmentStorage=true", "THEIRS__accountName=a", "THEIRS__credential=managedidentity", "THEIRSTOO=x"}
	tests := []struct {
		name, storage string
		want          map[string]string
		bad           bool
	}{
		{"embedded", "embedded", nil, false},
		{"the usual setting", "AzureWebJobsStorage", nil, false},
		{"development storage", "UseDevelopmentStorage=true", map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}, false},
		{"URL", "https://a.table.core.windows.net", map[string]string{"AzureWebJobsStorage": "https://a.table.core.windows.net"}, false},
		{"a setting", "MINE", map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}, false},
		{"a setting's identity form", "THEIRS", map[string]string{
			"AzureWebJobsStorage__accountName": "a", "AzureWebJobsStorage__credential": "managedidentity",
		}, false},
		{"no setting", "THEIR", nil, true},
		{"mistyped", "Embedded", nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := storageSettings(test.storage, environ)
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.bad {
				t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
			}
		})
	}
}
