package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

func verifyRequest(from, to scans.TableRef) scans.Request {
	return scans.Request{Source: from, Action: scans.Action{Type: scans.Verify, Destination: &to}}
}

// A second scan verifies a copy, or proves an export. The status of each of the two scans shows the other. A group has one verification for all its
// tables.
func TestVerifyAfterCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 3)
		w.fill("Target", plainRows(9, 1)) // more rows than the source has
		for _, r := range []scans.Request{copyRequest("Table02", "Target"), exportRequest("Table02", "one"), groupExport("all")} {
			r.Verify = true
			id := w.start(r)
			w.must(w.account.Table("Table00").Write(t.Context(), storage.Op{Kind: storage.Replace, Row: storage.Row{Key: key.Key{Partition: "a", Row: cmp.Or(r.Action.Destination.Prefix, "b")}}}))
			w.drain()
			s := w.status(id)
			if s.State != ledger.Succeeded || s.Verification == nil || s.Verification.ID != id.Verification() || s.Verification.State != ledger.Succeeded {
				t.Fatalf("the copy is %s with error %q and verification %+v", s.State, s.Error, s.Verification)
			}
			if v := w.status(id.Verification()); v.Verifies != id || v.Rows.Scanned != s.Rows.Scanned || v.Differences.Missing+v.Differences.Different+v.Differences.Extra != 0 {
				t.Errorf("the verification has rows %+v and differences %+v, want %d rows and none", v.Rows, v.Differences, s.Rows.Scanned)
			}
			w.fill("Table03", plainRows(1, 1))                                                                  // a group's verification has the same tables as the group
			for _, q := range []status.ListQuery{{Top: 1}, {Top: 2}, {Top: 50}, {Top: 5, Action: scans.Copy}} { // pages end at any scan
				if got := w.listedStatus(q, id); got.Verification == nil || *got.Verification != *s.Verification {
					t.Errorf("the list by %+v shows verification %+v", q, got.Verification)
				}
			}
		}
	})
}

// listedStatus returns a scan's status from the list.
func (w *world) listedStatus(q status.ListQuery, id ledger.ScanID) status.Status {
	w.Helper()
	for {
		l, err := w.observer.List(w.Context(), q)
		w.must(err)
		if i := slices.IndexFunc(l.Scans, func(s status.Status) bool { return s.ID == id }); i >= 0 {
			return l.Scans[i]
		}
		if q.Cursor = l.Cursor; q.Cursor == "" {
			w.Fatalf("%s is not listed", id)
		}
	}
}

// A proof must find a page that has changed since it was written, and a missing data file. Differences to the source are only information.
func TestProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 40, 3)
		for i, damage := range []func(objects *place.Blobs) string{
			func(*place.Blobs) string {
				w.remove("Source", w.rows("Source")[7].Key)
				return ""
			},
			func(objects *place.Blobs) string {
				name, content := w.dataOf(objects)
				content = content[:len(content)-1] + "x"
				w.must(objects.Delete(t.Context(), name))
				_, err := objects.Put(t.Context(), name, []byte(content))
				w.must(err)
				return "has changed since it was written"
			},
			func(objects *place.Blobs) string {
				name, _ := w.dataOf(objects)
				w.must(objects.Delete(t.Context(), name))
				return name
			},
		} {
			r := exportRequest("Source", fmt.Sprint("p", i))
			r.Verify = true
			id := w.start(r)
			want, done := "", false
			w.onMessage = func(body []byte) {
				if strings.Contains(string(body), string(id.Verification())) && !done {
					want, done = damage(w.objects(fmt.Sprint("p", i))), true
				}
			}
			w.drain()
			for range 10 {
				time.Sleep(time.Minute)
				w.must(w.engine.Maintain(t.Context()))
				w.drain()
			}
			v := w.status(id.Verification())
			if state := map[bool]ledger.State{true: ledger.Succeeded, false: ledger.Failed}[want == ""]; !done || v.State != state || !strings.Contains(v.Error, want) {
				t.Errorf("the proof is %s with error %q, want %q; the differences are %+v", v.State, v.Error, want, v.Differences)
			}
			if i == 0 && *v.Differences != (status.Differences{Extra: 1}) {
				t.Errorf("got differences %+v, want one extra row", v.Differences)
			}
		}
	})
}

// A table may be deleted before or during the proof of its export. Then the proof counts the table as empty, and reads the export to its end. The
// proof reports that the table is gone, even if the export has no rows and there is no other difference. If there is a new table without rows, there
// is no difference at all.
func TestProofWithoutTheTable(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		for _, rows := range []int{0, 3} {
			for _, how := range []string{"deleted", "deleted during the proof", "being deleted", "made again"} {
				if how != "deleted during the proof" || rows > 0 && !many {
					synctest.Test(t, func(t *testing.T) { proofOfNothing(t, many, rows, how) })
				}
			}
		}
	}
}

func proofOfNothing(t *testing.T, many bool, rows int, how string) {
	w := newWorld(t, emulator.Options{})
	w.fill("Source", plainRows(rows, 1))
	w.fill("Sourced", nil)
	source := `"table":"Source"`
	if many {
		source = `"tables":"Sourc*"`
	}
	w.startSchedules(strings.NewReplacer(`"request":{`, `"request":{"verify":true,"strategy":"serial","segmentSize":1,"segmentsPerInvocation":1,`, `"table":"Source"`, source).Replace(keeping("")))
	messages, at := 0, 1 // the proof's messages so far, and the message at which the table is deleted
	if how == "deleted during the proof" {
		at = 3
	}
	w.onMessage = func(body []byte) {
		if !strings.Contains(string(body), `-v"`) {
			return
		}
		if messages++; messages != at {
			return
		}
		if how == "being deleted" {
			w.must(w.emulator.SetFaults("seed=1; deletion=400s"))
		}
		w.must(w.account.Table("Source").Delete(t.Context()))
		if how == "made again" {
			w.fill("Source", nil)
		}
	}
	w.passNight()
	d, state, note := status.Differences{Extra: int64(rows), Tables: 1}, schedule.Differs, "the source no longer has the table"
	switch {
	case how == "made again" && rows == 0:
		d, state, note = status.Differences{}, schedule.Proved, ""
	case how == "made again":
		d, note = status.Differences{Extra: int64(rows)}, ""
	case many:
		note = "the source no longer has these tables: Source"
	case how == "deleted during the proof":
		d.Extra = 2 // these rows were not read
	}
	b := w.backups()[0]
	v := w.status(b.Proof.ID)
	if messages < at || v.State != ledger.Succeeded || *v.Differences != d || v.Note != note {
		t.Errorf("many tables %t, %s, %d rows: %s %q with differences %+v and note %q, want %+v and %q", many, how, rows, v.State, v.Error, v.Differences, v.Note, d, note)
	}
	if b.Proof.State != state || b.Proof.Note != note {
		t.Errorf("many tables %t, %s, %d rows: got proof %+v, want %s", many, how, rows, b.Proof, state)
	}
}

// A proof of many tables fails if a restore would be refused, whether tables.json was damaged before or during the proof.
func TestProofOfManyTables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before bool
		damage func(text string) string // returns the new content of tables.json; "" deletes the file
		want   string
	}{
		{true, func(text string) string { return text }, ""},
		{true, func(string) string { return "" }, "it has no tables.json"},
		{false, func(string) string { return "" }, "it has no tables.json"},
		{true, flipped, "tables.json"},
		{false, flipped, "tables.json"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := withTables(t, 3)
			r := groupExport("p")
			r.Source.Tables, r.Verify = "Table*", true
			id := w.start(r)
			done := false
			w.onMessage = func(body []byte) {
				mark := string(id.Verification()) + "-0000"
				if tt.before {
					mark = `"start":"` + string(id.Verification()) + `"`
				}
				if done || !strings.Contains(string(body), mark) {
					return
				}
				done = true
				objects := w.objects("p")
				text := tt.damage(w.blobs("p")["tables.json"])
				w.must(objects.Delete(t.Context(), "tables.json"))
				if text != "" {
					w.putBlob("p", "tables.json", text)
				}
			}
			w.drain()
			v := w.runToEnd(id.Verification())
			if failed := v.State == ledger.Failed; !done || failed != (tt.want != "") || !strings.Contains(v.Error, tt.want) || *v.Members != (ledger.Members{All: 3, Succeeded: 3}) {
				t.Errorf("the proof is %s with error %q and members %+v, want error %q", v.State, v.Error, v.Members, tt.want)
			}
			if s := w.status(id); s.Verification.State != v.State || s.Verification.Error != v.Error {
				t.Errorf("the copy shows verification %+v, want the proof's state and error", s.Verification)
			}
		})
	}
}

// The proof after an export has the tables in the export's tables.json, whichever tables the account now has. A proof that a user starts has the
// account's tables, and its note says so.
func TestProofMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTables(t, 4)
		r := groupExport("p")
		id := w.start(r)
		w.drain()
		w.checkCounts(id, ledger.Succeeded, 14, 14, 0)
		w.must(w.account.Table("Table03").Delete(t.Context()))
		byUser := scans.Request{Source: scans.TableRef{Tables: "*"}, Action: scans.Action{Type: scans.Verify, Proof: true, Destination: r.Action.Destination}}
		proof := func(id ledger.ScanID, tables int, note string) {
			t.Helper()
			v := w.status(id)
			if v.State != ledger.Succeeded || v.Members.Succeeded != int64(tables) || !strings.Contains(v.Note, note) || (v.Note == "") != (note == "") {
				t.Errorf("the proof is %s with error %q, members %+v and note %q", v.State, v.Error, v.Members, v.Note)
			}
		}
		const note = "compares the tables that the source has now"
		proof(w.run(byUser).ID, 3, note)
		w.fill("Table04", nil)
		if v := w.run(byUser); v.State != ledger.Failed || !strings.Contains(v.Error, "Table04: ") || !strings.Contains(v.Note, note) {
			t.Errorf("a proof of a table without an export is %s with error %q and note %q", v.State, v.Error, v.Note)
		}
		time.Sleep(time.Second)
		w.run(byUser)
		list, err := w.list(1)
		if err != nil || len(list) != 1 || !strings.Contains(list[0].Note, note) {
			t.Errorf("the list has %+v, %v, want one scan with its note", list, err)
		}
		w.must(w.engine.RequestStart(t.Context(), id.Verification(), byUser))
		w.drain()
		proof(id.Verification(), 4, "no longer has these tables: Table03")
	})
}

// flipped changes the middle byte of a text.
func flipped(text string) string {
	b := []byte(text)
	b[len(b)/2] ^= 1
	return string(b)
}

// dataOf returns the name and content of a data file of an export.
func (w *world) dataOf(objects *place.Blobs) (name, content string) {
	w.Helper()
	err := objects.List(w.Context(), place.DataPrefix, func(found string, bytes int64) error {
		text, err := objects.Get(w.Context(), found, 0, bytes)
		name, content = found, string(text)
		return err
	})
	w.must(err)
	return name, content
}

// A scan counts all differences, even if there are more than it lists. Each listed difference shows what differs. A comparison leaves no hints.
func TestManyDifferences(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	w := withSource(t, 3000, 1)
	other := storage.Entity{Key: w.rows("Source")[0].Key, Properties: []storage.Property{storage.StringProperty("Name", "other")}}
	extra := storage.Entity{Key: key.Key{Partition: "a", Row: "b"}}
	w.fill("Target", []storage.Entity{extra, other})
	r := verifyRequest(scans.TableRef{Table: "Source"}, scans.TableRef{Table: "Target"})
	r.SegmentSize, r.SegmentsPerInvocation = 100, 1
	s := w.run(r)
	failed, err := w.observer.Failed(t.Context(), s.ID, 1000, "")
	w.must(err)
	if *s.Differences != (status.Differences{Missing: 2999, Extra: 1, Different: 1}) || failed.Total != 3001 || failed.Kept < 1000 || failed.Kept > 1200 {
		t.Errorf("got differences %+v, %d listed of %d", s.Differences, failed.Kept, failed.Total)
	}
	if !strings.HasPrefix(s.Error, "missing rows: 2999, extra: 1, different: 1; one of them: PartitionKey") {
		t.Errorf("got error %q", s.Error)
	}
	var reasons []string
	for _, g := range failed.Groups {
		reasons = append(reasons, g.Code)
	}
	if want := []string{"missing", `different: Name is Edm.String "other", but the source has Edm.String "xxxxxxxxxxxxxxxxxxxx"; Number is missing`, "extra"}; !slices.Equal(reasons, want) {
		t.Errorf("the reasons are %q, want %q", reasons, want)
	}
	w.fill("Twin", plainRows(3000, 1))
	w.succeed(verifyRequest(scans.TableRef{Table: "Source"}, scans.TableRef{Table: "Twin"}))
	if left := w.ledgerRows("hints", ""); len(left) > 0 {
		t.Errorf("a comparison left %d hints", len(left))
	}
	if err := w.engine.Retry(t.Context(), s.ID); problem.Of(err).Kind != problem.Conflict {
		t.Errorf("a retry of a comparison without pending steps: got error %v, want a conflict", err)
	}
}
