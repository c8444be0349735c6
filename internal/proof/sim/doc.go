// Package sim runs whole scans in virtual time while everything around them fails. It checks that no row is lost or counted twice.
//
// The code under test is the real handler: router, envelope, engine, ledger and storage clients. It runs with the storage emulator, which has a fault spec,
// and with a model of the Functions host. The model consists of machines that call a handler process and die. They poll the queues with the local host's own
// listener, [host.Poll]. A [Plan] has everything that a seed decides. [Run] carries it out and returns the violations.
//
// A machine is an instance of the app, with listeners and one handler process at a time. A wire carries the storage requests of one machine or process, which
// dies during one of them. The operator starts, cancels and retries scans. The witness reads the ledger. Its reads take no time, and faults do not apply to
// them.
//
// A seed repeats its run exactly. Every storage request takes a different time, which is drawn from its content, so no two requests happen at the same time. That
// requires one goroutine at a time (GOMAXPROCS=1) and seeded random numbers in the SDK and in crypto/rand. A run's test provides both.
//
// After each run, the destination equals what a naive twin computes, row by row. Every counter is exact. The scan has succeeded, or failed for a reason that
// the plan contains. Nothing is pending, listed as open, or left in a queue. The ledger has no stray row, and each end was written once. A fifth of the plans
// are calm: nothing fails, and Maintain must find nothing to repair. docs/contributing.md has the commands.
package sim
