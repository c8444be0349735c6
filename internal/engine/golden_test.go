package engine_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the transcripts in testdata; read the diff before committing it")

// TestTranscripts plays the scenarios in testdata. Each block of a scenario is a command. Below
// its dashes stands what it changes in the ledger and the queues. If the test fails, run it with -rewrite and read the
// diff. Commit the diff only if you understand and want every line of it.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t)
				for block := range strings.SplitSeq(strings.TrimSpace(string(want)), "\n\n") {
					command, _, _ := strings.Cut(block, "\n----")
					fmt.Fprintf(&got, "%s\n----\n%s\n", command, p.play(command))
				}
			})
			text := strings.TrimSuffix(got.String(), "\n")
			if *rewrite {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := gocmp.Diff(string(want), text); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// play is a scenario with one scan of table Source to table Target.
type play struct {
	*world
	id     string            // the scan's
	names  map[string]string // of steps, by id and by message: A, B, C …
	before map[string]string // lines about the ledger's rows and the queues, by key
	out    strings.Builder
}

func newPlay(t *testing.T) *play {
	return &play{world: newWorld(t, emulator.Options{}), names: map[string]string{}, before: map[string]string{}}
}

// play plays one command and returns what came of it.
func (p *play) play(command string) string {
	p.Helper()
	p.out.Reset()
	lines := strings.Split(command, "\n")
	words := strings.Fields(lines[len(lines)-1]) // those before are comments
	argument := ""
	if len(words) > 1 {
		argument = words[1]
	}
	var err error
	switch words[0] {
	case "start": // ROWS: fills Source and starts a copy of ten rows a step
		err = p.begin(argument)
	case "deliver": // [die|twice]
		p.deliverOne(argument)
	case "maintain":
		err = p.engine.Maintain(p.Context())
	case "cancel":
		err = p.engine.Cancel(p.Context(), p.id)
	case "retry":
		err = p.engine.Retry(p.Context(), p.id)
	case "forbid": // the service refuses writes to Target
		p.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, body string) bool { return strings.Contains(r.URL.Path+body, "/Target(") })
	case "allow":
		p.process.Next = p.emulator.Transport()
	case "wait":
		var d time.Duration
		d, err = time.ParseDuration(argument)
		time.Sleep(d)
	case "status":
		s := p.status(p.id)
		fmt.Fprintf(&p.out, "%s: %d rows scanned, %d written, %d steps pending, %d done\n", s.State, s.Rows.Scanned, s.Rows.Written, s.Steps.Pending, s.Steps.Done)
		fmt.Fprintf(&p.out, "Target has %d of %d rows\n", len(p.rows("Target")), len(p.rows("Source")))
	default:
		p.Fatalf("there is no command %q", words[0])
	}
	if err != nil {
		fmt.Fprintf(&p.out, "error: %v\n", err)
	}
	p.changes()
	return p.out.String()
}

func (p *play) begin(rows string) error {
	n, err := strconv.Atoi(rows)
	if err != nil {
		return err
	}
	p.fill("Source", plainRows(1, n))
	r := copyRequest("Source", "Target")
	r.Strategy, r.SegmentSize = "serial", 10
	p.id, err = p.engine.Start(p.Context(), r)
	return err
}

// deliverOne takes a visible message and has it handled: by a process that dies before it sends a message, twice, or, if
// how is empty, as usual.
func (p *play) deliverOne(how string) {
	p.Helper()
	for _, function := range []string{engine.ScanPrefix, engine.ScanPartition, engine.CopyRows} {
		q, messages := p.take(function, 1)
		if len(messages) == 0 {
			continue
		}
		if how == "die" {
			p.process.DieWhen(func(r *http.Request) bool {
				return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages")
			})
		}
		p.handle(q, messages[0], function)
		if how == "twice" {
			messages[0].DequeueCount++
			p.handle(q, messages[0], function)
		}
		return
	}
	p.out.WriteString("no message is visible\n")
}

func (p *play) handle(q *storage.Queue, m storage.Message, function string) {
	p.Helper()
	report, err := "", error(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		report, err = p.engine.Run(p.Context(), p.bodyOf(m), m.DequeueCount)
	}()
	synctest.Wait()
	fmt.Fprintf(&p.out, "%s, delivery %d: ", function, m.DequeueCount)
	if p.process.Dead() {
		fmt.Fprintf(&p.out, "the process dies\n")
		p.restart()
		return
	}
	<-ended
	if err != nil {
		report = fmt.Sprintf("%s: %v", fates[problem.FateOf(err)], err)
	}
	if _, rest, found := strings.Cut(report, ": read "); found { // without the ids and the time
		rest, _, _ = strings.Cut(rest, "; took")
		report = "read " + rest
	}
	fmt.Fprintln(&p.out, report)
	if problem.FateOf(err) == problem.Done {
		if err := q.Delete(p.Context(), m); err != nil && !storage.NotFound(err) {
			p.Fatal(err)
		}
	}
}

var fates = map[problem.Fate]string{problem.Done: "done", problem.Retry: "retry", problem.Poison: "poison"}

// changes reports what has changed in the ledger and the queues since the last call.
func (p *play) changes() {
	p.Helper()
	now := map[string]string{}
	rows := p.rows("tablesweep")
	p.nameSteps(rows)
	for _, row := range rows {
		key := p.name(row.Key.Row)
		if row.Key.Partition == "scans" {
			key = "list " + key
		}
		now[key] = strings.TrimSpace(fmt.Sprintf("%-10s %s", key, p.describe(row)))
	}
	for _, function := range slices.Sorted(maps.Keys(engine.Queues)) {
		messages, err := p.queue(engine.Queues[function]).Peek(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		for _, m := range messages {
			key := "message " + p.names[string(p.bodyOf(m))]
			now[key] = key + " in the queue of " + function
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.before)) {
		if now[key] != p.before[key] {
			fmt.Fprintf(&p.out, "  - %s\n", p.before[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if now[key] != p.before[key] {
			fmt.Fprintf(&p.out, "  + %s\n", now[key])
		}
	}
	p.before = now
}

// nameSteps gives letters to steps that are pending for the first time, in the order of their pages.
func (p *play) nameSteps(rows []storage.Entity) {
	var pending []storage.Entity
	for _, row := range rows {
		id, ok := strings.CutPrefix(row.Key.Row, "p|")
		if ok && p.names[id] == "" {
			pending = append(pending, row)
		}
	}
	slices.SortFunc(pending, func(a, b storage.Entity) int { return cmp.Compare(p.step(a).Page, p.step(b).Page) })
	for _, row := range pending {
		letter := string(rune('A' + len(p.names)/2))
		p.names[strings.TrimPrefix(row.Key.Row, "p|")], p.names[string(row.Bytes("Message"))] = letter, letter
	}
}

// step returns a pending row's step.
func (p *play) step(row storage.Entity) scan.Step {
	var m struct{ Step scan.Step }
	if err := json.Unmarshal(row.Bytes("Message"), &m); err != nil {
		p.Fatal(err)
	}
	return m.Step
}

// name returns a row key without ids and times.
func (p *play) name(row string) string {
	parts := strings.Split(row, "|")
	switch {
	case parts[0] == "d" && len(parts) == 3:
		return "d|" + p.names[parts[2]]
	case parts[0] == "p":
		return "p|" + p.names[parts[1]]
	case len(parts) > 1 && parts[1] == p.id:
		parts[1] = "scan"
	}
	return strings.Join(parts, "|")
}

// describe returns the properties of a row that are not zero, but for those that are of no interest here.
func (p *play) describe(row storage.Entity) string {
	var words []string
	for _, property := range row.Properties {
		switch name, text := property.Name, property.Text(); {
		case name == "Message":
			words = append(words, fmt.Sprintf("Page=%d", p.step(row).Page))
		case slices.Contains([]string{"Version", "Request", "Note", "Millipages"}, name):
		case property.Type == storage.DateTime:
			words = append(words, fmt.Sprintf("%s=%v", name, row.Time(name).Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))))
		case text != "0" && text != "":
			words = append(words, name+"="+text)
		}
	}
	return strings.Join(words, " ")
}
