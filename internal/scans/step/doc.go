// Package step makes the step of a message: it reads rows, does the scan's work with them, commits both, and sends the children's messages.
// run.go follows a message from top to bottom. Each step is idempotent: a message may come twice.
package step
