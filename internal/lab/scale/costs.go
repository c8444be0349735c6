package scale

import "time"

// costs are processor times of an instance.
type costs struct {
	Request    time.Duration // on each request to storage
	SentKB     time.Duration // on each KiB of a request's body
	ReceivedKB time.Duration // on each KiB of an answer's
	Execution  time.Duration // on each execution, the host's part included
}

// assumedCosts are three times what BenchmarkCosts measures for a request, seven times for what is sent, and four fifths
// for what is received: 0.4 ms too little a page of 200 KiB.
var assumedCosts = costs{Request: 220 * time.Microsecond, SentKB: 27 * time.Microsecond, ReceivedKB: 11 * time.Microsecond, Execution: 2 * time.Millisecond}

const (
	tablePrice = 0.00036 / 10_000 // dollars a request
	queuePrice = 0.0004 / 10_000
)
