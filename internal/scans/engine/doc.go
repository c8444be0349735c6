// Package engine runs scans. Each queue message runs one step.
//
// A message is delivered at least once, and a process may die at any point. The next delivery or [life.Upkeep.Maintain]
// completes interrupted work. DESIGN.md describes the life of a message, and lists what each crash leaves behind.
// step/run.go follows a message from top to bottom.
//
// # Parts
//
// [Engine] consists of these parts. Each part uses only the parts below it:
//
//   - [step.Steps] runs the step of a message: it reads rows, does the work, and commits. On the same level,
//     [schedule.Scheduler] starts the scans of schedules, and records and deletes backups.
//   - [life.Upkeep] finds lost steps, and removes rows whose retention is over.
//   - [life.Life] starts, retries and ends scans and groups. [life.Checker] checks whether a scan may start.
//   - [status.Reader] reads the status of scans, lists, ranges, timelines and failed rows.
//   - [scans.Scans] contains what all these parts share: requests, messages, limits, the app's own tables.
//   - [ledger.Ledger] records which steps are pending and which are done.
//
// # Which steps are lost
//
// When a host dies, the messages that it had received stay hidden for ten minutes. No setting in host.json changes the
// ten minutes. So heartbeats, and not the age of a message, show whether a step is lost. A process that has held a
// step for 5 seconds writes a heartbeat every 5 seconds. The heartbeat is a row that names all steps of the process.
//
// Maintain observes the scans twice, 10 seconds apart. Each time, it reads the pending steps, peeks into the queues,
// and reads the heartbeats. A step is lost if neither observation saw the step's message, and if no process named the
// step in a heartbeat between the two observations.
//
//   - After an outage, no process counts as dead until every living process has had time to write a heartbeat. A failed heartbeat is tried again after
//     one second, without the SDK's growing pauses.
//   - Clocks are never compared. A process counts as living if its heartbeat's row has changed between two observations.
//     If a step fails, its process names the step in its heartbeats until the host has delivered the step again.
//   - A step younger than 10 s may have a message that is not yet visible. If such a step seems lost, Maintain observes a third time.
//   - A peek shows the 32 messages that have been visible for longest. Queues nearly preserve the order of messages. So if
//     one of the 32 was put into the queue more than 10 seconds after the step was recorded, or more than 30 seconds after
//     the step failed, the step's message is either among the 32 or not in the queue. If the step's row has not changed for
//     12 minutes, Maintain resends the message even if it may be in the queue. The limit of 12 minutes
//     doubles with each resend.
//
// If the first observation shows steps that may be lost, Maintain stores this observation in the ledger. If Maintain's
// next run begins within two minutes, it uses the stored observation as its first observation. So lost steps are found
// even if every process dies within 10 seconds of its start.
//
// The pauses between messages for the same step double, from 30 s to 16 minutes. A second message is harmless, because
// a step is committed once. If a request takes at most 200 ms, heartbeats and observations add at most 1 % to the
// number of requests (sim.TestFindingLostStepsIsCheap). With slower requests, they may add more, but only if the process
// makes fewer than 100 requests in 5 seconds.
//
// # Steps that cannot be done
//
// A step may kill its process. To count the killed processes, every delivery except the first is marked in the pending
// row before the step begins. If the step ends with an error, this mark is removed. When five processes have begun the
// step and none has ended it, the scan fails with an error that names the step. The first delivery is not marked, so
// it counts as one of the five unless it is known to have ended with an error. If the step's first message was never
// sent, there was no first delivery, but the count still includes one.
//
// A storage failure never fails a scan by itself. After five deliveries, the host moves the message into the poison
// queue. Maintain deletes the message there. The step is then lost, so Maintain sends a new message. If a step has been
// lost for 4 hours, the scan fails with the reason of the step's last failure. Any other failure of a step fails the
// scan at the fifth delivery.
//
// # Start requests
//
// [life.Life.RequestStart] puts a start request into the ledger, under the scan's id. An instance carries out the request
// when it gets the request's message, when another scan ends, or when it runs Maintain. A start inserts rows and never
// replaces any, so all instances may try to start the scan. For an export, the API makes a start request, and then
// claims the place. If the API's process dies, another instance carries out the request, even if the place is already claimed for
// the same id.
//
// A command does not have the app's connections. Therefore it requests a start by [life.Life.RequestCheckedStart], which
// leaves the checks to the app. It requests a retry by [life.Life.RequestRetry].
//
// # Newer versions
//
// During a deployment, two versions of the program run side by side. An instance drops a message that a newer version
// wrote. The step stays pending, until Maintain of the newer version resends the message. If a scan or its hints need a
// newer version, an instance also drops the scan's messages. Maintain of any version resends these messages, because any
// version can read them.
//
// # Handing writes over
//
// If a step has children and more than 200 transactions to write, it hands over consecutive pages to CopyRows, so its
// children need not wait for the writes. A message to CopyRows contains the open interval between the first and the
// last partition of these pages. CopyRows reads the rows of this interval again. Handing over a page costs about
// seven requests, including the one that sends the message. The first and last partition may continue on other pages,
// so the step writes their rows itself. A step of a delete hands over nothing, because its children begin before it
// deletes rows.
package engine
