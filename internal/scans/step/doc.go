// Package step runs the step of a message: it reads rows, does the scan's work with them, commits the step, and sends
// the children's messages. run.go follows a message from top to bottom. A message may be delivered twice, so each step
// is idempotent.
package step
