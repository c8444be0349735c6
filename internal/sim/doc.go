// Package sim runs whole scans in virtual time while everything around them goes
// wrong, and checks that nothing is lost and nothing counted twice.
//
// The code under test is the real handler: router, envelope, engine, ledger and
// storage clients. Around it stand the storage emulator with a fault spec, and a
// model of the Functions host: machines that poll the queues, hold a message's
// lease, call a handler process, and die. A [Plan] holds all that one seed decides;
// [Run] carries it out and returns what does not hold.
//
// The nouns: a machine is an instance of the app, with the host's listeners and one
// handler process at a time. A wire carries the storage requests of one of them, and
// is where it dies. The operator is who starts, cancels and retries scans. The
// witness reads the ledger at no cost in time and past all faults.
//
// A run is repeated exactly by its seed: every storage request takes a time of its
// own, drawn from what it asks, so that no two things happen at once. That takes
// one goroutine at a time (GOMAXPROCS=1) and seeded random numbers in the SDK and in
// crypto/rand, which a run's test provides.
package sim
