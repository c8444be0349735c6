// Package step runs the step of a message: it reads rows, does the scan's work with them, commits the step, and sends the children's messages.
// run.go follows a message from top to bottom. Each step is idempotent, because a message may be delivered twice.
package step
