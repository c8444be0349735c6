// Package scale runs scans of millions of rows in virtual time, against a model of the cloud's
// limits. It shows how long the scans take, and how close many instances come to an account's limit.
//
// The code that runs is the real handler: router, envelope, engine, ledger, storage clients
// and the host's listener, over three embedded storage accounts. The model around it
// consists of the requests a second of an account, a partition and a queue, the latency of
// each request, the processor of an instance, cold starts, and a scale controller
// that starts instances. [Options.Facts] lists each number of the model with its source.
//
// The source computes a row from its number when it is read, and the destination only counts
// rows, so a table of millions of rows needs little memory. Package sim tests that rows arrive unchanged and exactly once.
//
// Time is virtual, because a run takes place in a bubble of testing/synctest, whose clock advances
// when everything waits. So the code under test needs no clock of its own, and neither does the SDK's
// back-off. In the model, requests are refused only because of limits. Package sim tests other faults.
//
// The model does not include how often the real scale controller decides and how fast it starts
// instances; how the service throttles beyond answering 503 above the target; how it moves warm
// partitions between servers; how latencies grow near a limit; how much of an instance's processor
// the host uses; and what other tenants do. The model removes no instance during a run.
package scale
