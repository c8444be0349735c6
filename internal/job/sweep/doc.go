// Package sweep runs a scan within one process, and applies an action to its rows. It
// is the command line's counterpart of the engine: it runs the same steps,
// with goroutines instead of messages and a [Checkpoint] instead of the
// ledger.
//
// The unfinished part of a sweep is its frontier: the unread steps, and the pages whose rows are not all done, in table order.
// One goroutine owns the frontier (loop.go) and starts queries and units of work in other goroutines, as many at once as are
// worthwhile (package pace). It reads the first waiting step, so that the frontier stays short, and reads none while the pages in
// memory exceed a budget.
//
// A run is one process's part of a sweep, from its start or a resume to its end (loop.go, read.go). Its
// plan decides which queries are made (plan.go). Its pacer decides how many run at once, and how much memory
// pages use (pacer.go). Its state has the frontier, the totals and the checkpoint, which change
// together (state.go).
//
// Strategies divide the scan as they do in the cloud. By default, a sweep has no strategy. Instead, idle workers divide the
// remaining ranges of others ([adaptive.Workers]). They use the same model of how dense keys are.
//
// # A sweep that dies
//
// The checkpoint's lines are a journal, with a line for each finished unit of work. A page that was unfinished when the process
// died is read again with the same token, and only the rows that it had at first count. If a killed deletion had already removed
// some of them, they are missing now, and count as deleted. A theft is journaled before the thieves' first queries, with the
// victim's new end. The amount that must be read again is bounded, because the sweep reads ahead by at most two page times of
// work. A process locks a file beside the checkpoint while it works on it. The checkpoint has the addresses of its tables and
// queue, but no keys and no signatures.
//
// # In table order
//
// Pages that arrive before their turn wait in the buffer. When it is full, all workers wait except the one that
// reads the next page in order. So a sweep of large pages in order makes fewer queries at once than other sweeps.
//
// # A list of rows
//
// A list of keys may have any order ([Keys]), and uses at most 256 MiB of memory. One query searches for up to 100
// keys of a partition, from the first of them to the last. If its page ends early, many other
// rows are in between, and two queries search for the two halves of the rest. So a list costs at most a query for each
// key, and two requests for 100 neighbouring rows. The checkpoint has the keys that were
// searched for, and a digest of the list. The list may be moved, but must not change.
//
// # Busy tables
//
// No worker steals when more queries would gain nothing: while requests wait for a limit that the caller has set, while enough
// rows have been read to keep the target busy, while the pace allows no more queries, and while there is no memory for a page.
// For the same reason, no worker steals from a range within a throttled partition. A busy partition at the front delays the rows
// after it in a list of rows, and in a copy with few workers.
//
// # What is not known
//
// A sweep does not show which share of the rows is read. Workers have an estimate of the remaining rows,
// which is good enough for stealing but not for display. docs/measurements.md has its errors.
//
// The package does not know what an action does with the rows. If the action is a
// [Comparison] of two tables, the package counts the differences, and keeps the first ones.
package sweep
