// Package sweep runs a scan within one process, and an action over its rows. It
// is to the command line what the engine is to the cloud: it runs the same steps,
// with goroutines in the place of messages and a [Checkpoint] in the place of the
// ledger.
//
// What is left of a sweep is its frontier: the steps not read yet, and the pages
// read whose rows are not all done, in table order. One goroutine owns it (loop.go)
// and starts queries and units of work in others, as many at once as pay (package
// pace). It reads the first step that waits, so that the frontier stays short, and
// reads none while the pages in memory exceed a budget.
//
// A run is what one process does of a sweep, from its start or a resume to its end (loop.go, read.go). Its
// plan decides which queries there are (plan.go), its pacer how many at once and how much memory
// pages take (pacer.go). Its state keeps the frontier, the totals and the checkpoint, which change
// together (state.go).
//
// Strategies split the scan as they do in the cloud. By default none does: idle workers cut into what others
// have left ([adaptive.Workers]), by the same model of how dense keys are.
//
// # A sweep that dies
//
// The checkpoint's lines are a journal: each finished unit of work has one. A page that a
// kill has cut is read again by the same token, and only its own rows count. If a killed
// deletion had already removed rows of it, they are missing now, and count as deleted. A theft
// is journaled before the thieves' first queries, with the victim's new end. What must be
// read again is bounded, since reading ahead ends at two page times of work. A process locks a
// file beside the checkpoint while it works on it. The checkpoint holds the addresses of its
// tables and queue, but no keys and no signatures.
//
// # In table order
//
// Pages that come before their turn wait in the buffer. When it is full, workers wait, too, but for the one that
// reads what has the next turn. So a sweep in order of large pages has fewer queries under way than another one.
//
// # A list of rows
//
// A list of keys may have any order ([Keys]), and takes at most 256 MiB of memory. One query looks for up to 100
// keys of a partition, from the first of them to the last. If its page ends early, many other
// rows lie in between, and two halves look for the rest. So a list costs at most a query a
// key, and two requests for 100 neighbouring rows. The checkpoint has the keys that were
// looked for, and a digest of the list: the list may have moved, but not changed.
//
// # Busy tables
//
// Nobody steals while requests wait for a limit that the caller has set, or while enough is read for the target, beyond the pace, without room for a page, or
// from a range within a partition that throttles: more queries gain nothing there. A busy
// partition that stands first delays what is behind it in a list of rows, and in a copy with
// few workers.
//
// # What is not known
//
// A sweep shows no share done of what it reads. Workers believe something about what is left,
// which is good enough to steal by and not to show: docs/measurements.md has how wrong it is.
//
// The package does not know what an action does with the rows. If the action is a
// [Comparison] of two tables, it counts and keeps the differences found.
package sweep
