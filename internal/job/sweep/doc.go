// Package sweep runs a scan within one process, and applies an action to its rows. It runs the same steps as the app's engine, but with goroutines
// instead of messages and with a [Checkpoint] instead of the ledger.
//
// The unfinished part of a sweep is its frontier: the unread steps, and the pages whose rows are not all done, in table order. One goroutine owns the
// frontier (loop.go) and starts queries and units of work in other goroutines. Package pace decides how many queries and units run concurrently. The
// goroutine always reads the first waiting step, so the frontier stays short. It reads no step while the pages in memory exceed a budget.
//
// A run is one process's part of a sweep, from its start or a resume to its end (loop.go, read.go). Its plan decides which queries are made
// (plan.go). Its pacer decides how many queries run concurrently, and how much memory pages use (pacer.go). Its state consists of the frontier, the
// totals and the checkpoint, which change together (state.go).
//
// A sweep can use a [scan.Strategy] to divide its range into steps, as the app does. By default, it uses no strategy. Instead, an idle worker takes
// a part of another worker's unread range ([adaptive.Workers]). This is called stealing: the step that reads the part is the thief, and the step
// that loses the part is the victim. To choose the part, the workers estimate where keys lie, as the adaptive strategy does.
//
// # A sweep that dies
//
// The checkpoint's lines are a journal, with a line for each finished unit of work. If the process dies before a page is done, the page is read again with
// the same token. The journal already contains the number of the page's rows, so these rows are not counted again. If the process was deleting the page's
// rows, the second reading does not find the rows that were already deleted. These rows count as deleted. When a thief has taken a part of a range, the journal records the range's
// new end before the thief makes its first query. The sweep reads ahead only as many rows as it can process in the time that two queries take. So after a
// crash, it reads few pages again. While a process uses the checkpoint, it locks a file beside the checkpoint. The checkpoint contains the addresses of its
// tables and queue, but no account keys and no signatures.
//
// # In table order
//
// Pages that arrive before their turn wait in memory. When the memory budget is used up, only the worker that reads the next page in order continues.
// So a sweep of large pages in order makes fewer concurrent queries than other sweeps.
//
// # A list of rows
//
// A list of keys may have any order ([Keys]), and uses at most 256 MiB of memory. One query searches for up to 100 keys of a partition, and reads the
// range from the first to the last of these keys. If the page ends early, the range contains many other rows, and two further queries search for the
// two halves of the remaining keys. Each query finds or excludes at least one key, unless its page ends early without any row. Without such pages, a
// list of n keys costs at most n queries. For 100 neighbouring rows, one query and one transaction are enough.
// The checkpoint contains the keys that were searched for, and a digest of the list. The list may be moved, but must not change.
//
// # Busy tables
//
// Workers do not steal when a further query would be useless. A query is useless when it would exceed the caller's limit or the pace, when the rows
// that were already read keep the target busy, or when memory has no room for a page. No worker steals from a range within a throttled partition,
// because the partition would throttle the thief too. A busy partition delays the rows after it if the sweep processes a list of rows, or if a
// copy has few workers.
//
// # What is not known
//
// A sweep does not know what share of the rows has been read. Workers estimate the remaining rows when they steal, but these estimates are too poor to
// be shown. docs/measurements.md describes the error of the best known estimate.
//
// The package does not depend on the action, with one exception: for a [Comparison] of two tables, it counts the differences and keeps the first ones
// in table order.
package sweep
