package scalebench

import "time"

// Costs are what the processor of an instance spends.
type Costs struct {
	Request    time.Duration // on each request to storage
	SentKB     time.Duration // on each KiB of a request's body
	ReceivedKB time.Duration // on each KiB of an answer's
	Execution  time.Duration // on each execution, the host's part included
}

// assumedCosts are two to three times what BenchmarkCosts measures, but for what is received.
var assumedCosts = Costs{Request: 220 * time.Microsecond, SentKB: 27 * time.Microsecond, ReceivedKB: 11 * time.Microsecond, Execution: 2 * time.Millisecond}

const (
	tablePrice = 0.00036 / 10_000 // dollars a request
	queuePrice = 0.0004 / 10_000
)
