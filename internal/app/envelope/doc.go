// Package envelope defines the data that the local Functions host and a custom handler exchange: the JSON document of an
// invocation, and the answer as the host reads it. The tests of package function contain the real host's requests. This package
// sends no requests.
package envelope
