package load

import (
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"

	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// people returns a catalog in a new process.
func people(t *testing.T, a *storage.Account, keys, row string) *catalog.Catalog {
	t.Helper()
	schema, err := index.Parse(keys, row)
	proof.Must(t, err)
	return catalog.New(catalog.Options{Name: "people", Index: a.Table("People"), Log: a.Table("PeopleWAL"), Schema: schema})
}

func importFile(t *testing.T, c *catalog.Catalog, path string, o ImportOptions) (Note, error) {
	t.Helper()
	file, err := os.Open(path)
	proof.Must(t, err)
	defer file.Close()
	return Import(t.Context(), c, file, o)
}

// checkpoint opens the checkpoint in a file, or creates the file.
func checkpoint(t *testing.T, path string) *journal.File {
	t.Helper()
	f, err := journal.Read(path)
	if errors.Is(err, os.ErrNotExist) {
		f, err = journal.New(path, []byte(`{}`))
	}
	proof.Must(t, err)
	return f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	proof.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// content returns a file's text, "" if there is no file.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestImportIsResumed kills an import at many of its requests. The next run continues after the recorded progress. In the end,
// the catalog must contain each record once, and the file of failed rows each refused row once.
func TestImportIsResumed(t *testing.T) {
	t.Parallel()
	var text, refused strings.Builder
	text.WriteString("eid,npi,lastname\n")
	refused.WriteString("eid,npi,lastname\n")
	for i := range 35 {
		row := fmt.Sprintf("%03d,%d,x\n", i, i%4)
		if i%10 == 3 {
			row = fmt.Sprintf("%03d,many,\"a, b\"\n", i)
			refused.WriteString(row)
		}
		text.WriteString(row)
	}
	resumed := 0
	for n, died := 2, true; died; n += testsize.Of(26, 13) {
		synctest.Test(t, func(t *testing.T) {
			em := emulatortest.New(t, emulator.Options{})
			path := filepath.Join(t.TempDir(), "people.csv")
			write(t, path, text.String())
			run := func(account *storage.Account) (Note, error) {
				c := people(t, account, "eid,npi", "lastname")
				defer c.Close()
				if err := c.Prepare(t.Context()); err != nil {
					return Note{}, err
				}
				return importFile(t, c, path, ImportOptions{Checkpoint: checkpoint(t, path+".ckpt"), CSV: place.CSV{Types: map[string]storage.Type{"npi": storage.Int64}}, most: 10, Resumed: func(int) { resumed++ }})
			}
			victim := &emulatortest.Process{Next: em.Transport()}
			victim.DieWith(n, n%2 == 0)
			done, err := run(emulatortest.Open(t, em, victim))
			if victim.Dead() && err != nil {
				done, err = run(emulatortest.Open(t, em, nil))
			}
			if err != nil || done.Rows != 35 || done.Failed != 4 || done.Inserted+done.Unchanged != 31 {
				t.Fatalf("died at request %d: the resumed import returns %+v, error %v", n, done, err)
			}
			if left := content(t, path+".failed"); left != refused.String() {
				t.Errorf("died at request %d: the file of failed rows contains %q", n, left)
			}
			c := people(t, emulatortest.Open(t, em, nil), "eid,npi", "lastname")
			if err := c.CompleteAll(t.Context()); err != nil {
				t.Error(err)
			}
			sum, err := check.Run(t.Context(), c, false, func(f catalog.Finding) { t.Errorf("died at request %d: check finds %+v", n, f) })
			if err != nil || sum.Records != 31 {
				t.Errorf("died at request %d: check returns %+v, error %v", n, sum, err)
			}
			died = victim.Dead() && !t.Failed()
		})
	}
	if resumed < testsize.Of(2, 5) {
		t.Errorf("only %d imports were resumed", resumed)
	}
}

// TestImportReplaces imports records that exist in the catalog with other contents.
func TestImportReplaces(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	c := people(t, a, "eid", "at")
	defer c.Close()
	proof.Must(t, c.Prepare(t.Context()))
	path := filepath.Join(t.TempDir(), "people.jsonl")
	for _, tt := range []struct {
		text                                   string
		upsert                                 bool
		inserted, replaced, unchanged, refused int
	}{
		{"{\"eid\":\"1\",\"at\":\"a\"}\n{\"eid\":\"2\",\"at\":\"a\"}\n", true, 2, 0, 0, 0},
		{"{\"eid\":\"1\",\"at\":\"a\",\"n\":1}\n", false, 0, 0, 0, 1},
		{"{\"eid\":\"1\",\"at\":\"a\",\"n\":1}\n{\"eid\":\"2\",\"at\":\"a\"}\n{\"eid\":\"3\",\"at\":\"a\"}\n", true, 1, 1, 1, 0},
	} {
		write(t, path, tt.text)
		done, err := importFile(t, c, path, ImportOptions{Upsert: tt.upsert})
		if err != nil || done.Inserted != tt.inserted || done.Replaced != tt.replaced || done.Unchanged != tt.unchanged || done.Failed != tt.refused {
			t.Errorf("%+v: the import returns %+v, error %v", tt, done, err)
		}
	}
}

// TestImportWaitsForStorage lets the storage be unavailable for longer than the catalog's own deadline for a write.
func TestImportWaitsForStorage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em, a := emulatortest.NewAccount(t, emulator.Options{})
		c := people(t, a, "eid", "at")
		defer c.Close()
		proof.Must(t, c.Prepare(t.Context()))
		path := filepath.Join(t.TempDir(), "people.jsonl")
		write(t, path, `{"eid":"1","at":"x"}`+"\n"+`{"eid":"2","at":"x"}`+"\n")
		proof.Must(t, em.SetFaults("timeout-before p=1 on=batch"))
		go func() {
			time.Sleep(2 * time.Minute)
			if err := em.SetFaults(""); err != nil {
				t.Error(err)
			}
		}()
		began := time.Now()
		done, err := importFile(t, c, path, ImportOptions{Patience: 5 * time.Minute})
		if took := time.Since(began); err != nil || done.Inserted != 2 || took > 135*time.Second {
			t.Errorf("the import returns %+v after %v, error %v", done, took, err)
		}
		proof.Must(t, em.SetFaults("timeout-before p=1 on=batch"))
		write(t, path, `{"eid":"3","at":"x"}`+"\n")
		began = time.Now()
		_, err = importFile(t, c, path, ImportOptions{Patience: 5 * time.Minute})
		if took := time.Since(began); err == nil || took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("the import ended after %v, error %v", took, err)
		}
	})
}
