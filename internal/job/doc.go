// Package job does a command's work with the rows of a place. It parses no command line: its options are plain values. [Process] holds the
// meter, streams and limits of the process.
//
// A job is prepared, and then runs:
//
//	j, err := job.Copy(ctx, options)                // opens and tries its places, and decides its facts
//	record, err := checkpoint.Begin(given, j.Facts) // or a record without a journal
//	result, err := j.Run(ctx, record)
//	err = j.Close(err)
//
// The preparation changes nothing in storage. It decides the job's [Facts]: the addresses of its places, a digest of its list of rows, and the window
// of changed rows. A [Checkpoint] stores these facts, and a resumed job uses the stored facts.
//
// Before the run, a caller may request confirmation, or use [Job.Estimate] to show what the job would do. After the run, the caller prints the
// result, and removes the checkpoint.
//
// [Copy] copies a table, an export, or rows in any order, to a table or to files. [Verify] compares places. [Sync] makes a table equal to another
// place. [Enqueue] puts a message into a queue for each row. [Delete] deletes rows. [Tables] runs the same job for each of many tables, several
// tables at a time.
//
// An invalid option causes a [Refusal], which names the option. An error with advice is a [Hinted].
package job
