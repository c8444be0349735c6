package scale

// HostQueues is for tests.
var HostQueues = hostQueues
