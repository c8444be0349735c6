package scale

import (
	"fmt"
	"strings"
)

// grid is a Markdown table.
type grid struct{ strings.Builder }

func newGrid(columns ...string) *grid {
	t := &grid{}
	t.row(columns...)
	t.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	return t
}

func (t *grid) row(cells ...string) { fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | ")) }

// Markdown returns the result as a table.
func (r Result) Markdown() string {
	o, limit := r.Options, r.Options.limit()
	t := newGrid(fmt.Sprintf("%s of %d rows, %d a partition", o.Action, o.Rows, o.PerPartition), "")
	t.row("time", fmt.Sprintf("%.0fs", r.Took.Seconds()))
	t.row("rows a second", fmt.Sprintf("%.0f", float64(o.Rows)/r.Took.Seconds()))
	t.row("the account's limit allows", fmt.Sprintf("%.0fs", limit))
	t.row("time ÷ limit", fmt.Sprintf("%.2f", r.Took.Seconds()/limit))
	t.row("instances", fmt.Sprint(r.Instances))
	for i, account := range []string{"the app's own account", "the source", "the destination"} {
		a := r.Accounts[i]
		t.row("requests to "+account+"; refused by its limit; by a partition's", fmt.Sprintf("%d; %d; %d", a.Requests, a.RefusedByAccount, a.RefusedByPartition))
	}
	return t.String()
}

// Facts returns the numbers of the model, each with its source, as a Markdown table.
func (o Options) Facts() string {
	const assumed = "**assumption**: " // for a number that is not documented
	perInstance := hostQueues.BatchSize + hostQueues.NewBatchThreshold
	t := newGrid("what", "value", "source")
	t.row("requests a second of an account", fmt.Sprint(o.AccountLimit), "Microsoft Learn, Scalability and performance targets for Table storage; some regions give 40,000")
	t.row("entities a second of a partition, messages of a queue", fmt.Sprint(partitionLimit), "the same, and Scalability targets for Queue storage")
	t.row("over a limit", fmt.Sprintf("503 after %v, not counted", refusalLatency), assumed+"the service refuses what is beyond a second's tokens: in the first second after a rest, twice the limit passes")
	t.row("a query", fmt.Sprintf("%v and %v a row", queryLatency, queryRowLatency), "the published serial scan: 3,560 pages of 1,000 rows in 6 min, 101 ms each (joelverhagen.com, How to run a distributed scan of Azure Table Storage)")
	t.row("a row read, a row or transaction written, a further row in it, a queue request", fmt.Sprintf("%v, %v, %v, %v", pointLatency, writeLatency, writeRowLatency, queueLatency), assumed+"Microsoft promises no latency")
	t.row("what varies", "0.6 to 1.4 times that; one request in a hundred 5 times as long", assumed+"no distribution is documented")
	t.row("processor of an instance", "1 core", "Microsoft Learn, Flex Consumption plan: 2,048 MB")
	t.row("processor time", fmt.Sprintf("%v a request, %v a KiB sent, %v a KiB received", requestCost, sentCost, receivedCost), assumed+"over HTTP without TLS the clients were measured to take 80 µs, 4 µs and 13 µs; TLS and slower cores take the rest")
	t.row("processor time of an execution", executionCost.String(), assumed+"the host's part; nobody has measured it")
	t.row("messages received together", fmt.Sprintf("%d when no more than %d run", hostQueues.BatchSize, hostQueues.NewBatchThreshold), "host.json")
	t.row("pause between polls of an empty queue", fmt.Sprintf("100 ms to %v", hostQueues.MaxPolling), "host.json, and the queue extension's source")
	t.row("instances wanted", fmt.Sprintf("messages ÷ %d", perInstance), "QueueTargetScaler of the queue extension")
	t.row("instances added", fmt.Sprintf("at most %d every %v for each group", o.Step, o.Decide), "4 a decision: Microsoft Learn, Target-based scaling. "+assumed+"how often it decides; none is taken away during a run")
	t.row("instances in all", fmt.Sprint(mostInstances), "Microsoft Learn, Event-driven scaling: Flex 100 unless set")
	t.row("groups of instances", "one for each queue, one for the rest", "Microsoft Learn, Flex Consumption plan: per-function scaling")
	t.row("a cold start", coldStart.String(), assumed+"the handler itself is ready 0.3 s after its host; what the platform needs is not documented")
	return t.String()
}
