// Package envelope defines what the local Functions host and a custom handler exchange: the JSON document of an invocation, and
// the answer as the host reads it. It sends no requests. The tests of package function contain the real host's requests.
package envelope
