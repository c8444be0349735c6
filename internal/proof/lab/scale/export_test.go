package scale

// HostQueues is exported for tests.
var HostQueues = hostQueues
