// Package scale runs scans of millions of rows in virtual time, as they would run in
// the cloud. It reports how long they take, what they cost, and what limits them.
//
// The code that runs is the real handler: router, envelope, engine, ledger, storage clients
// and the host's listener, over three embedded storage accounts. Around it stands a model of
// the cloud's limits: requests a second of an account, a partition and a queue, the latency of
// each request, connections and processor of an instance, cold starts, and a scale controller
// that starts instances. [facts] lists each number of the model with its source.
//
// The source computes a row from its number when it is read. The destination
// checks each row and keeps one bit of it. So a table of a billion rows needs little
// memory. [Run] fails unless every row arrived once and unchanged.
//
// Time is virtual: a run takes place in a bubble of testing/synctest, whose clock advances
// when everything waits. So the code under test, with the SDK's back-off, needs no clock of its
// own. In the model only limits refuse requests; package sim is for faults.
//
// A limit is a bucket that holds one second's tokens. After a rest, twice a second's requests
// pass in the first second; in the long run, no more than the limit. A count can start with most
// rows read: steps are committed and folded as a scan would have, and the range begins behind them.
//
// The model does not know how often the scale controller decides, and how fast it starts
// instances; how the service throttles beyond 503 above the target, and how it moves warm
// partitions between servers; how latencies grow near a limit; what the host takes of an
// instance's processor; what other tenants do. It takes no instance away during a run.
package scale
