// Package sim runs whole scans in virtual time while everything around them fails. It
// checks that no row is lost and none is counted twice.
//
// The code under test is the real handler: router, envelope, engine, ledger and storage clients. Around it stand the
// storage emulator with a fault spec, and a model of the Functions host: machines that call a handler process, and die.
// They poll the queues by the local host's own listener, [host.Poll]. A [Plan] has everything that a seed decides.
// [Run] carries it out and returns what is wrong.
//
// The nouns: a machine is an instance of the app, with listeners and one handler process at a time. A wire carries the
// storage requests of one machine or process, which dies there. The operator starts, cancels and retries scans. The
// witness reads the ledger; that takes no time, and faults don't apply.
//
// A seed repeats its run exactly. Every storage request takes a time of its own, drawn from its content: no two things
// happen at once. That requires one goroutine at a time (GOMAXPROCS=1) and seeded random numbers in the SDK and in
// crypto/rand. A run's test provides both.
//
// After each run, the destination equals what a naive twin computes, row by row. Every counter is exact. The scan has
// succeeded, or failed with the reason that the plan holds. Nothing is pending, listed as open, or left in a queue; the
// ledger holds no stray row, and each end was written once. A fifth of the plans are calm: nothing fails, and Maintain
// must find nothing to repair. docs/contributing.md has the commands.
package sim
