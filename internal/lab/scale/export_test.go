package scale

// For tests.
const FunctionTimeout = functionTimeout

// HostQueues is for tests.
var HostQueues = hostQueues
