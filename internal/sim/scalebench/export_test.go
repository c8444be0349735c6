package scalebench

// For tests.
const FunctionTimeout = functionTimeout

// HostQueues is for tests.
var HostQueues = hostQueues
