// Package scalebench runs scans of millions of rows in virtual time, as they would run in
// the cloud, and tells how long they take, what they cost, and what holds them up.
//
// The code that runs is the real handler: router, envelope, engine, ledger, storage clients
// and the host's listener, over three embedded storage accounts. Around it stands a model of
// what the cloud limits: requests an account, a partition and a queue take a second, how long
// each takes, connections and processor of an instance, cold starts, and a scale controller
// that starts instances. [facts] lists each number of the model with its source.
//
// The source's rows are computed from their numbers when they are read, and the destination
// looks at each row and keeps one bit of it, so that a table of a billion rows needs little
// memory. A run's result has no meaning unless every row arrived, once, as it was sent;
// [Run] checks that.
//
// Time is virtual: a run takes place in a bubble of testing/synctest, whose clock advances
// when everything waits. So the code under test needs no clock of its own, the SDK's
// back-off included. Nothing fails in the model but by its limits; package sim is for faults.
package scalebench
