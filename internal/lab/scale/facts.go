package scale

import "fmt"

// fact is a number of the model and where it comes from.
type fact struct{ What, Value, Source string }

// assumed marks numbers that no documentation has.
const assumed = "**assumption**: "

// facts lists the numbers of the model.
func (o Options) facts() []fact {
	l := o.Latency
	return []fact{
		{"requests a second of an account", fmt.Sprint(o.Limits.Account), "Microsoft Learn, Scalability and performance targets for Table storage; some regions give 40,000"},
		{"entities a second of a partition, messages of a queue", fmt.Sprint(o.Limits.Partition), "the same, and Scalability targets for Queue storage"},
		{"over a limit", "503 after " + l.Refusal.String() + ", not counted", assumed + "the service refuses what is beyond the last second's tokens"},
		{"a query", fmt.Sprintf("%v and %v a row", l.Query, l.QueryRow), "the published serial scan: 3,560 pages of 1,000 rows in 6 min, 101 ms each (joelverhagen.com, How to run a distributed scan of Azure Table Storage)"},
		{"a row read, a row or transaction written, a further row in it, a queue request", fmt.Sprintf("%v, %v, %v, %v", l.Point, l.Write, l.WriteRow, l.Queue), assumed + "Microsoft promises no latency"},
		{"what varies", "0.6 to 1.4 times that; one request in a hundred 5 times as long", assumed + "no distribution is documented"},
		{"connections of an instance to a host", fmt.Sprint(connections), "package storage; Consumption allows 600 in all (Microsoft Learn, Manage connections in Azure Functions)"},
		{"processor of an instance", fmt.Sprintf("%v cores", cores), "Microsoft Learn, Flex Consumption plan: 512, 2,048 and 4,096 MB have 0.25, 1 and 2 cores"},
		{"processor time", fmt.Sprintf("%v a request, %v a KiB sent, %v a KiB received", requestCost, sentCost, receivedCost), "the clients take 80 µs, 4 µs and 13 µs over HTTP without TLS (go test -run '^$' -bench Costs ./internal/lab/scale). " + assumed + "so much more a request covers TLS and slower cores"},
		{"processor time of an execution", executionCost.String(), assumed + "the host's part; nobody has measured it"},
		{"messages taken at once", fmt.Sprintf("%d when no more than %d run", hostQueues.BatchSize, hostQueues.NewBatchThreshold), "host.json"},
		{"pause between polls of an empty queue", fmt.Sprintf("100 ms to %v", hostQueues.MaxPolling), "host.json, and the queue extension's source"},
		{"instances wanted", fmt.Sprintf("messages ÷ %d", hostQueues.BatchSize+hostQueues.NewBatchThreshold), "QueueTargetScaler of the queue extension"},
		{"instances added", fmt.Sprintf("at most %d every %v for each group", o.Step, o.Decide), "4 a decision: Microsoft Learn, Target-based scaling. " + assumed + "how often it decides; none is taken away during a run"},
		{"instances in all", fmt.Sprint(mostInstances), "Microsoft Learn, Event-driven scaling: Flex 100 unless set"},
		{"groups of instances", "one for each queue, one for the rest", "Microsoft Learn, Flex Consumption plan: per-function scaling"},
		{"a cold start", coldStart.String(), assumed + "the handler itself is ready 0.3 s after its host; what the platform needs is not documented"},
		{"a GB-second, a million executions", fmt.Sprintf("$%v, $%.2f", gbSecond, million), "azure.microsoft.com, Azure Functions pricing, East US, without the free grant"},
		{"10,000 requests to tables, to queues", fmt.Sprintf("$%v, $%v", tablePrice*10_000, queuePrice*10_000), assumed + "an old price page's; the present one depends on region and redundancy"},
	}
}

// Facts returns the numbers of the model as a Markdown table.
func (o Options) Facts() string {
	t := newGrid("what", "value", "source")
	for _, f := range o.facts() {
		t.row(f.What, f.Value, f.Source)
	}
	return t.String()
}
