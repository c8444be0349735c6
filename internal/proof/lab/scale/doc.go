// Package scale runs scans of millions of rows in virtual time, against a model of the limits that
// the cloud sets: how long do they take, and how near do many instances come to an account's limit?
//
// The code that runs is the real handler: router, envelope, engine, ledger, storage clients
// and the host's listener, over three embedded storage accounts. Around it stands the
// model: requests a second of an account, a partition and a queue, the latency of
// each request, the processor of an instance, cold starts, and a scale controller
// that starts instances. [Options.Facts] lists each number of the model with its source.
//
// The source computes a row from its number when it is read, and the destination counts what it
// gets. So a table of millions of rows needs little memory. That rows arrive unchanged, and exactly once, is for package sim to show.
//
// Time is virtual: a run takes place in a bubble of testing/synctest, whose clock advances
// when everything waits. So the code under test, with the SDK's back-off, needs no clock of its
// own. In the model only limits refuse requests: faults are package sim's, too.
//
// The model does not know how often the scale controller decides, and how fast it starts
// instances; how the service throttles beyond 503 above the target, and how it moves warm
// partitions between servers; how latencies grow near a limit; what the host takes of an
// instance's processor; what other tenants do. It takes no instance away during a run.
package scale
