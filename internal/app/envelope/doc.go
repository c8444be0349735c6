// Package envelope holds the bytes that the local Functions host and a custom handler
// exchange: the JSON document of an invocation, and the answer, as the host reads it.
// What the real host sends is in the tests of package function. The package sends nothing.
package envelope
