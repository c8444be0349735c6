package scale

import "time"

// Processor times of an instance. Those of requests are three times what BenchmarkCosts measures for a request, seven times
// for what is sent, and four fifths for what is received: 0.4 ms too little a page of 200 KiB.
const (
	requestCost   = 220 * time.Microsecond // on each request to storage
	sentCost      = 27 * time.Microsecond  // on each KiB of a request's body
	receivedCost  = 11 * time.Microsecond  // on each KiB of an answer's
	executionCost = 2 * time.Millisecond   // on each execution, the host's part included
)

const (
	tablePrice = 0.00036 / 10_000 // dollars a request
	queuePrice = 0.0004 / 10_000
)
