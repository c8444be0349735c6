// Package job does what a command does with the rows of a place, without a command line: its options are plain values, and what it
// needs of its surroundings is in [Process].
//
// A job is prepared, and then runs:
//
//	j, err := job.Copy(ctx, options, destination)  // opens what it reads, tries it, decides what is open
//	record, err := checkpoint.Begin(given, j.Facts) // or a record without a journal
//	result, err := j.Run(ctx, record)
//	err = j.Close(err)
//
// Preparing changes nothing in storage. What a job decides itself is in its [Facts] before the journal begins: the addresses of its places,
// a digest of its list of rows, the window of rows that have changed. A [Checkpoint] keeps them, and they are given back to the job that
// goes on.
//
// Between the two, a caller may ask whether the job is meant, or show by [Job.Estimate] what it would do. Behind them, it prints the
// result, and removes the checkpoint.
//
// [Copy] goes to a table, from a table, an export, or rows in any order; [Export] to files; [Verify] compares; [Sync] makes equal;
// [Enqueue] and [Delete] do what they say. [Tables] runs as many jobs as there are tables, several at once.
//
// An option that can't be as it is makes a [Refusal], which names it. Advice is a [Hinted].
package job
