package engine_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// storedLine is a line of testdata/stored.jsonl: the storage of an app that an earlier
// version of the program (commit c034fa5) left with twenty scans in it, and what that
// version answered about them. One of the fields is set.
type storedLine struct {
	// Scan names a scan; Status, Ranges and Failed are the answers, without what depends on
	// the time.
	Scan                   string
	Status, Ranges, Failed map[string]any
	// Message is a message in a queue. Its body is that of the pending step.
	Message *struct{ Queue, Scan, Step string }
	// Entity is a row of the state table. A property is its name, its type and its text; the
	// type is JSON for a Binary one that holds JSON.
	Entity *struct {
		Partition, Row string
		Properties     [][3]string
	}
	// Table is a destination, Keys has the rows that were copied to it.
	Table string
	Keys  []string
}

// stored is the storage that the earlier version left.
type stored struct {
	*world
	scans  []storedLine
	loaded []storage.Entity // the rows of the state table
	since  float64          // seconds from the earlier version's answers to this one's; 0 until it is known
}

// loadStored loads it. The sources are not in the file: they are plain rows.
func loadStored(t *testing.T) *stored {
	t.Helper()
	s := &stored{world: newWorld(t, emulator.Options{})}
	source, taken := plainRows(30, 6), plainRows(30, 6)[30:42]
	for i := range taken {
		taken[i].Properties = taken[i].Properties[:1] // other contents: mode fail refuses them
	}
	s.fill("Source", source)
	s.fill("Wide", plainRows(300, 1))
	s.fill("Deep", plainRows(2, 80))
	s.fill("Taken", taken)
	if err := s.queue("work").Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/stored.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bodies := map[string][]byte{} // by scan and step
	var messages []storedLine
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line storedLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Scan != "":
			s.scans = append(s.scans, line)
		case line.Message != nil:
			messages = append(messages, line)
		case line.Table != "":
			s.loadTable(line)
		default:
			e := s.loadEntity(line)
			s.loaded = append(s.loaded, e)
			bodies[e.Key.Partition+strings.TrimPrefix(e.Key.Row, "p|")] = e.Bytes("Message")
		}
	}
	for _, m := range messages {
		body := bodies[m.Message.Scan+m.Message.Step]
		if err := s.queue(m.Message.Queue).Put(t.Context(), base64.StdEncoding.EncodeToString(body)); err != nil || len(body) == 0 {
			t.Fatalf("message %+v has body %q: %v", m.Message, body, err)
		}
	}
	if len(s.scans) != 20 || len(messages) == 0 {
		t.Fatalf("%d scans, %d messages", len(s.scans), len(messages))
	}
	return s
}

func (s *stored) loadEntity(line storedLine) storage.Entity {
	s.Helper()
	e := storage.Entity{Key: key.Key{Partition: line.Entity.Partition, Row: line.Entity.Row}}
	for _, p := range line.Entity.Properties {
		name, text := p[0], p[2]
		switch p[1] {
		case "Edm.String":
			e.Properties = append(e.Properties, storage.StringProperty(name, text))
		case "Edm.Int64":
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				s.Fatal(err)
			}
			e.Properties = append(e.Properties, storage.Int64Property(name, n))
		case "Edm.DateTime":
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				s.Fatal(err)
			}
			e.Properties = append(e.Properties, storage.TimeProperty(name, at))
		case "Edm.Binary":
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				s.Fatal(err)
			}
			e.Properties = append(e.Properties, storage.BinaryProperty(name, b))
		case "JSON":
			e.Properties = append(e.Properties, storage.BinaryProperty(name, []byte(text)))
		default:
			s.Fatalf("property %v", p)
		}
	}
	if err := s.account.Table("tablesweep").Write(s.Context(), storage.Op{Kind: storage.Insert, Entity: e}); err != nil {
		s.Fatal(err)
	}
	return e
}

// loadTable fills a destination with copies of source rows, or with their keys.
func (s *stored) loadTable(line storedLine) {
	s.Helper()
	source := s.rows("Source")
	if line.Table == "TargetWide" {
		source = s.rows("Wide")
	}
	var rows []storage.Entity
	for _, k := range line.Keys {
		partition, row, _ := strings.Cut(k, " ")
		e := storage.Entity{Key: key.Key{Partition: partition, Row: row}}
		if i := slices.IndexFunc(source, func(of storage.Entity) bool { return of.Key == e.Key }); i >= 0 {
			e.Properties = source[i].Properties
		} else if line.Table != "TargetKeys" {
			s.Fatalf("table %s has no source row for key %q", line.Table, k)
		}
		rows = append(rows, e)
	}
	s.fill(line.Table, rows)
}

// TestStoredByAnEarlierVersion: this program answers about an earlier version's scans what that
// version answered, and brings each to its exact end. So the names and forms of all that is
// stored and sent are as they were.
func TestStoredByAnEarlierVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // the scans were started in the first hour of synctest's clock
		s := loadStored(t)
		id := map[string]string{}
		for _, want := range s.scans {
			id[want.Scan] = want.Status["id"].(string)
			s.checkAnswers(want, id[want.Scan])
		}
		s.checkList()
		s.checkLedger(id)
		s.checkTimeline(id["folded"])
		r := copyRequest("Source", "TargetNew")
		r.SegmentSize = 10
		id["new"] = s.start(r)              // takes hints that an earlier scan has left
		hidden := []string{"lost", "begun"} // no message of theirs is in a queue
		s.drain()
		for name, id := range id {
			st := s.status(id)
			if running := slices.Contains(hidden, name); running != (st.State == ledger.Running) {
				t.Errorf("%s is %s after its messages were handled", name, st.State)
			}
		}
		for _, name := range []string{"settled", "failed"} {
			if err := s.engine.Retry(t.Context(), id[name]); err != nil {
				t.Errorf("retry %s: %v", name, err)
			}
		}
		for range 3 {
			s.maintain(1)
			s.drain()
		}
		s.checkEnds(id)
	})
}

// checkAnswers compares what this version tells of a scan with what the earlier one told.
func (s *stored) checkAnswers(want storedLine, id string) {
	s.Helper()
	ranges, err := s.observer.Ranges(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	failed, err := s.observer.Failed(s.Context(), id, 5, "")
	if err != nil {
		s.Fatal(err)
	}
	for _, answer := range []struct {
		name      string
		got, want any
	}{{"status", s.status(id), want.Status}, {"ranges", ranges, want.Ranges}, {"failed rows", failed, want.Failed}} {
		got := timeless(s, answer.got)
		s.checkSeconds(want.Scan, got, answer.want.(map[string]any))
		if diff := cmp.Diff(answer.want, got); diff != "" {
			s.Errorf("%s of scan %s (-the earlier version +this one):\n%s", answer.name, want.Scan, diff)
		}
	}
}

// checkSeconds compares for how long a scan has run, and takes that from the answers. All that
// run have run longer by the same time.
func (s *stored) checkSeconds(scan string, got, want map[string]any) {
	s.Helper()
	now, _ := got["seconds"].(float64)
	was, _ := want["seconds"].(float64)
	longer := now - was
	if got["state"] == "running" {
		if s.since == 0 {
			s.since = longer
		}
		longer -= s.since
	}
	if math.Abs(longer) > 1 { // the service's clock shows whole seconds
		s.Errorf("scan %s: has run for %v s, and had for %v; the scans that run have done it for %v s since", scan, now, was, s.since)
	}
	delete(got, "seconds")
	delete(want, "seconds")
}

// checkList compares the list of scans with what the earlier version told of each.
func (s *stored) checkList() {
	s.Helper()
	list, err := s.observer.List(s.Context(), 50)
	if err != nil {
		s.Fatal(err)
	}
	slices.Reverse(list)
	if len(list) != len(s.scans) {
		s.Fatalf("%d scans are listed, want %d", len(list), len(s.scans))
	}
	for i, want := range s.scans {
		delete(want.Status, "leased") // the list has none
		got := timeless(s, list[i])
		delete(got, "seconds") // compared before
		if diff := cmp.Diff(want.Status, got); diff != "" {
			s.Errorf("listed scan %s (-the earlier version +this one):\n%s", want.Scan, diff)
		}
	}
}

// checkLedger looks at what the ledger keeps and no answer shows.
func (s *stored) checkLedger(id map[string]string) {
	s.Helper()
	ctx, l := s.Context(), ledger.New(s.account.Table("tablesweep"))
	for _, name := range []string{"hinted", "launching"} {
		if hints, err := l.Hints(ctx, id[name]); err != nil || len(hints) == 0 {
			s.Errorf("%s has %d bytes of hints, %v", name, len(hints), err)
		}
	}
	for name, want := range map[string]struct{ sends, begun int }{"lost": {1, 0}, "begun": {0, 1}, "failed": {0, 0}, "serial": {0, 0}} {
		pending, err := l.FirstPending(ctx, id[name])
		if err != nil || len(pending) != 1 {
			s.Fatalf("%s: %d pending steps, %v", name, len(pending), err)
		}
		p := pending[0]
		if p.Sends != want.sends || p.Begun != want.begun || (p.Lost > 0) != (want.sends > 0) {
			s.Errorf("%s: sent again %d times, first %v ago; begun %d times; want %+v", name, p.Sends, p.Lost, p.Begun, want)
		}
	}
	beats, err := l.Beats(ctx)
	if err != nil || len(beats) != 1 || beats[0].Scan(0) != id["serial"] {
		s.Errorf("%+v, %v; want one process, and in its hands a step of scan %s", beats, err, id["serial"])
	}
	for name, id := range id {
		if found, err := l.Snapshot(ctx, id); err != nil {
			s.Errorf("%s: %v", name, err)
		} else if _, _, told := found.Sums.Pending(); !told {
			s.Errorf("%s: its done rows do not tell how many steps are pending", name)
		}
	}
	var ended, settled []string
	for _, row := range s.loaded {
		if id, ok := strings.CutPrefix(row.Key.Row, "t|"); ok {
			ended = append(ended, id)
			if len(row.Properties) > 0 {
				settled = append(settled, id)
			}
		}
	}
	found, _, err := l.Ended(ctx, time.Time{})
	if err != nil || len(found) != len(ended) || len(settled) != 1 {
		s.Fatalf("%d scans are to be tidied up, want %d, of which %d are settled; %v", len(found), len(ended), len(settled), err)
	}
	for _, e := range found {
		if e.Settled != slices.Contains(settled, e.ID) || !slices.Contains(ended, e.ID) {
			s.Errorf("%+v; want one of %q, settled if one of %q", e, ended, settled)
		}
	}
}

// checkTimeline: folded rows know when their steps were done.
func (s *stored) checkTimeline(id string) {
	s.Helper()
	var want, got, all int64
	for _, row := range s.loaded {
		if row.Key.Partition == id && strings.HasPrefix(row.Key.Row, "d|-") {
			want += row.Int("Rows")
		}
	}
	timeline, err := s.observer.Timeline(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range timeline.Points {
		all += p.Rows
		if p.At.Before(time.Now().Add(-time.Minute)) {
			got += p.Rows
		}
	}
	if scanned := s.status(id).Rows.Scanned; got != want || want == 0 || all != scanned {
		s.Errorf("the timeline has %d rows, %d of them from before this version; want %d, and the %d of the folded rows", all, got, scanned, want)
	}
}

// TestStoredNames: today's messages have every name that those of an earlier version have. Without this test a
// renamed field could go unnoticed: a strategy ignores names that it does not know.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		today := map[string]bool{}
		w := newWorld(t, emulator.Options{})
		w.onMessage = func(body []byte) { addNames(t, today, body) }
		w.fill("Source", plainRows(30, 6))
		w.fill("Wide", plainRows(300, 1))
		w.fill("Deep", plainRows(2, 80))
		for _, strategy := range []string{"adaptive", "adaptive", "prefix"} { // the second time with hints
			r := copyRequest("Source", "Target")
			r.Strategy, r.SegmentSize, r.Range.Before = strategy, 10, "x"
			w.run(r)
		}
		for table, size := range map[string]int{"Wide": 280, "Deep": 10} {
			r := copyRequest(table, "Target")
			r.SegmentSize = size
			w.run(r)
		}
		stored := map[string]bool{}
		for _, row := range loadStored(t).loaded {
			if body := row.Bytes("Message"); len(body) > 0 {
				addNames(t, stored, body)
			}
		}
		if len(stored) < 30 {
			t.Errorf("only %d names are stored: %v", len(stored), stored)
		}
		for name := range stored {
			if !today[name] {
				t.Errorf("no message has %s any more", name)
			}
		}
	})
}

// addNames adds the paths of the names in a message.
func addNames(t *testing.T, names map[string]bool, message []byte) {
	t.Helper()
	var content any
	if err := json.Unmarshal(message, &content); err != nil {
		t.Fatal(err)
	}
	strategy := "adaptive "
	if bytes.Contains(message, []byte(`"prefix"`)) {
		strategy = "prefix "
	}
	var add func(path string, v any)
	add = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				add(path, x)
			}
		case map[string]any:
			for name, x := range v {
				names[path+name] = true
				add(path+name+".", x)
			}
		}
	}
	add(strategy, content)
}

// timeless returns an answer as JSON without what depends on the time.
func timeless(s *stored, answer any) map[string]any {
	s.Helper()
	text, err := json.Marshal(answer)
	if err != nil {
		s.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{"at", "rate", "phase", "secondsLeft"} {
		delete(fields, name)
	}
	if leased, ok := fields["leased"].(map[string]any); ok {
		delete(leased, "until")
	}
	return fields
}

// checkEnds compares the scans with what they must come to.
func (s *stored) checkEnds(id map[string]string) {
	s.Helper()
	for name, want := range map[string]struct {
		state         ledger.State
		scanned, made int64
		table         string // the destination, if it must equal the source
	}{
		"settled":   {ledger.Succeeded, 180, 0, ""},
		"lost":      {ledger.Succeeded, 180, 0, ""},
		"begun":     {ledger.Succeeded, 180, 0, ""},
		"ended":     {ledger.Succeeded, 180, 180, "TargetEnded"},
		"hinted":    {ledger.Succeeded, 180, 180, "TargetHinted"},
		"adaptive":  {ledger.Succeeded, 144, 144, ""},
		"prefix":    {ledger.Succeeded, 180, 180, "TargetPrefix"},
		"serial":    {ledger.Succeeded, 180, 180, "TargetSerial"},
		"handed":    {ledger.Succeeded, 300, 300, ""},
		"refused":   {ledger.Failed, 180, 168, ""},
		"failed":    {ledger.Succeeded, 180, 180, "TargetFailed"},
		"retried":   {ledger.Succeeded, 180, 180, "TargetRetried"},
		"keys":      {ledger.Succeeded, 150, 30, ""},
		"enqueue":   {ledger.Succeeded, 180, 180, ""},
		"filtered":  {ledger.Succeeded, 90, 0, ""},
		"folded":    {ledger.Succeeded, 180, 0, ""},
		"ranged":    {ledger.Succeeded, 144, 0, ""},
		"launching": {ledger.Succeeded, 144, 0, ""},
		"fresh":     {ledger.Succeeded, 160, 0, ""},
		"deep":      {ledger.Succeeded, 160, 0, ""},
		"new":       {ledger.Succeeded, 180, 180, "TargetNew"},
	} {
		st := s.status(id[name])
		if st.State != want.state || st.Rows.Scanned != want.scanned || st.Rows.Written != want.made || st.Steps.Pending != 0 {
			s.Errorf("%s: %s, %d rows scanned, %d written, %d steps pending; want %s, %d and %d", name, st.State, st.Rows.Scanned, st.Rows.Written, st.Steps.Pending, want.state, want.scanned, want.made)
		}
		if first := "12 rows could not be written; the first: "; (st.State == ledger.Failed) != strings.HasPrefix(st.Error, first) || strings.HasSuffix(st.Error, first) {
			s.Errorf("%s: error %q", name, st.Error)
		}
		if want.table != "" {
			s.equalTables("Source", want.table)
		}
		if most := map[string]int64{"hinted": 21, "new": 21, "launching": 17}[name]; most > 0 && st.Queries > most { // 30 without hints
			s.Errorf("%s: %d queries for %d rows, want at most %d", name, st.Queries, want.scanned, most)
		}
	}
	s.equalTables("Wide", "TargetWide")
	messages := 0
	for {
		got, err := s.queue("work").Get(s.Context(), storage.MaxGetMessages, time.Hour)
		if err != nil {
			s.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		messages += len(got)
	}
	if want := 180 - 82; messages != want { // the earlier version put the first ones there
		s.Errorf("%d messages were enqueued, want %d", messages, want)
	}
	if n, want := len(s.rows("TargetAdaptive")), 144; n != want {
		s.Errorf("%d rows were copied up to the range's end, want %d", n, want)
	}
}
