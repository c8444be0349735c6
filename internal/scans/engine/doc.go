// Package engine runs scans by queue messages: one message, one step.
//
// A message is delivered at least once, and a process may die at any point. DESIGN.md has the six steps of a message,
// and the table of what a crash leaves in between: the next delivery or [life.Upkeep.Maintain] completes that. step/run.go
// follows a message from top to bottom.
//
// # One way
//
// [Engine] puts the rooms together. Each uses those below it alone:
//
//   - [step.Steps] make the step of a message: they read, do the work, and commit. [schedule.Scheduler] stands beside them: schedules and backups.
//   - [life.Upkeep] is Maintain: it finds lost steps, and removes what is not kept any more.
//   - [life.Life] starts scans and groups, retries and ends them. [life.Checker] finds out whether a scan may start.
//   - [status.Reader] tells of scans: status, lists, ranges, timeline, failed rows.
//   - [scans.Scans] has what all share: requests and what they come to, messages, limits, the app's own tables.
//   - [ledger.Ledger] records which steps are pending and which are done.
//
// # Which steps are lost
//
// When a host dies, the messages that it had taken stay hidden for ten minutes, whatever host.json says. So a
// message's age proves nothing. Instead, a process that has had a step in hand for 5 seconds writes a heartbeat every 5
// seconds: a row that names all its steps. Short steps cost no heartbeat.
//
// Maintain observes twice, 10 seconds apart. It reads the pending steps, peeks into the queues, and reads the heartbeats. A
// step is lost if both times its message was not visible, and no process that wrote a heartbeat in between named the step.
//
//   - After an outage, no process counts as dead before an interval in which every living process could write a heartbeat.
//     A failed heartbeat is tried again after a second, without the SDK's growing pauses.
//   - No clock is compared: a heartbeat counts if its row has changed. A process names a failed step until the host has
//     delivered it again.
//   - A step younger than 10 s may still have its message on the way. If it seems lost, Maintain observes a third time.
//   - A peek shows the 32 messages that have been visible for longest. A step's message is not behind them if one of
//     them was put into the queue 10 seconds after the step was recorded (30 seconds after it failed): queues nearly
//     keep the order of messages. After 12 minutes Maintain sends a step's message again in any case, and each time
//     waits twice as long.
//
// Maintain keeps its first observation in the ledger, if it shows steps that may be lost. For two minutes it counts as a first one
// for the next Maintain. So lost steps are found although no process lives for 10 seconds.
//
// The pauses between messages for the same step double, from 30 s to 16 minutes. A second message is harmless: a step
// is committed once. Heartbeats and observations make at most 1 % more requests while a request takes up to 200 ms
// (sim.TestWatchingIsCheap), and more only if a process makes fewer than 100 requests in 5 seconds over longer steps.
//
// # Steps that cannot be done
//
// A step may kill its process. So every delivery but the first is recorded in the pending row before it starts the
// step, and taken back if the step ends with an error. The scan fails, and names the step, before a sixth process
// begins the step. If the first message was never sent, it fails before a fifth: nobody can tell that from a first
// process that died.
//
// A storage failure never fails a scan by itself. After five deliveries the message is in the poison queue. Maintain
// removes it; the step is lost, and sent again. The scan fails, with the last reason, only when a step has been lost
// for 4 hours. Any other failure of a step fails the scan at the fifth delivery.
//
// # Start requests
//
// [life.Life.RequestStart] leaves a request in the ledger, under the scan's id, and any instance starts it: at its message, at the
// end of another scan, or in Maintain. Starting inserts and never replaces, so all may try. An export's place may be
// claimed already, by the same id. A start by the API asks for an export, too, before it claims the place.
//
// A command without the app's connections leaves such requests by [life.Life.RequestCheckedStart] and [life.Life.RequestRetry].
//
// # Newer versions
//
// Two versions of the program run side by side during a deployment. An instance drops a message that a newer version
// wrote. The step stays pending; Maintain of the newer version sends it again, and an older Maintain leaves it alone.
// An instance also drops a message whose scan needs a newer version, or has its hints. Any Maintain sends that again.
//
// # Handing writes over
//
// A page of more than 200 transactions is handed over to CopyRows if the step has children, so they need not wait for
// the writes. A message to CopyRows is a key range: the open interval between the first and last partition of pages
// without a gap. CopyRows reads the range again. That costs about seven requests, message included. The page may have
// cut its first and last partition, so the step writes these itself. A delete hands nothing over: its children are
// released before it deletes.
package engine
