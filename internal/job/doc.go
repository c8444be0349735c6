// Package job does a command's work with the rows of a place, without a command line. Its options are plain values. [Process] has the
// meter, streams and limits of the process.
//
// A job is prepared, and then runs:
//
//	j, err := job.Copy(ctx, options)                // opens and tries its places, and decides its facts
//	record, err := checkpoint.Begin(given, j.Facts) // or a record without a journal
//	result, err := j.Run(ctx, record)
//	err = j.Close(err)
//
// Preparing changes nothing in storage. The facts that a job decides itself are in its [Facts] before the journal begins: the addresses of its
// places, a digest of its list of rows, and the window of changed rows. A [Checkpoint] stores them, and a resumed job gets them back.
//
// Before the run, a caller may ask for confirmation, or show with [Job.Estimate] what the job would do. After the run, it prints
// the result, and removes the checkpoint.
//
// [Copy] copies a table, an export, or rows in any order, to a table or to files. [Verify] compares places. [Sync] makes a table equal to another
// place. [Enqueue] puts messages, and [Delete] deletes rows. [Tables] runs a job for each of many tables, several at once.
//
// An invalid option causes a [Refusal], which names the option. An error with advice is a [Hinted].
package job
