// Package engine runs scans by queue messages. Each message runs one step.
//
// A message is delivered at least once, and a process may die at any point. DESIGN.md describes the life of a message, and lists what each crash
// leaves behind. The next delivery or [life.Upkeep.Maintain] completes the interrupted work. step/run.go follows a message from top to bottom.
//
// # Parts
//
// [Engine] puts the parts together. Each part uses only the parts below it:
//
//   - [step.Steps] runs the step of a message: it reads rows, does the work, and commits. On the same level, [schedule.Scheduler] starts the scans of
//     schedules, and records and deletes backups.
//   - [life.Upkeep] does the work of Maintain: it finds lost steps, and removes rows whose retention is over.
//   - [life.Life] starts, retries and ends scans and groups. [life.Checker] checks whether a scan may start.
//   - [status.Reader] reports on scans: status, lists, ranges, timeline, failed rows.
//   - [scans.Scans] contains the code that all these parts share: requests, messages, limits, the app's own tables.
//   - [ledger.Ledger] records which steps are pending and which are done.
//
// # Which steps are lost
//
// When a host dies, the messages that it had received stay hidden for ten minutes. No setting in host.json changes that. So the age of a message does
// not show whether its step is lost, but heartbeats do. A process that has held a step for 5 seconds writes a heartbeat every 5 seconds: a row that
// names all its steps. Short steps cause no heartbeats.
//
// Maintain observes the scans twice, 10 seconds apart. It reads the pending steps, peeks into the queues, and reads the heartbeats. A step is lost
// if neither observation saw its message, and no heartbeat written between the observations names the step.
//
//   - After an outage, no process counts as dead until every living process has had time to write a heartbeat. A failed heartbeat is tried again after
//     one second, without the SDK's growing pauses.
//   - Clocks are never compared. A heartbeat counts if its row has changed. In its heartbeats, a process names a failed step until the host
//     has delivered the step again.
//   - A step younger than 10 s may have a message that is not yet visible. If such a step seems lost, Maintain observes a third time.
//   - A peek shows the 32 messages that have been visible for longest. Queues nearly preserve the order of messages. So if one of these messages was
//     put into the queue 10 seconds after the step was recorded (or 30 seconds after the step failed), the step's message cannot come after these 32
//     messages. After 12 minutes, Maintain resends a step's message in any case. This delay doubles with each resend.
//
// If Maintain's first observation shows steps that may be lost, Maintain stores the observation in the ledger. For two minutes, the stored
// observation counts as the first observation of the next Maintain. So lost steps are found even if no process lives for 10 seconds.
//
// The pauses between messages for the same step double, from 30 s to 16 minutes. A second message is harmless, because a step is committed once. If a request
// takes at most 200 ms, heartbeats and observations add at most 1 % to the number of requests (sim.TestFindingLostStepsIsCheap). They add more only if steps
// are long and the process makes fewer than 100 requests in 5 seconds.
//
// # Steps that cannot be done
//
// A step may kill its process. So every delivery except the first is marked in the pending row before the step begins. If the step ends with an
// error, this mark is removed. Before a sixth process begins the step, the scan fails with an error that names the step. If the first message was never
// sent, the scan fails before a fifth process begins the step, because the missing message counts as the death of a first process.
//
// A storage failure never fails a scan by itself. After five deliveries, the message is in the poison queue. Maintain removes this message,
// and resends it because the step is lost. If a step has been lost for 4 hours, the scan fails with the step's last reason. Any other
// failure of a step fails the scan at the fifth delivery.
//
// # Start requests
//
// [life.Life.RequestStart] puts a start request into the ledger, under the scan's id. Any instance may fulfil the request. It does so when it gets the
// request's message, when another scan ends, or when it runs Maintain. A start inserts rows and never replaces any, so all instances may try to start
// the scan. For an export, the API makes a start request, and then claims the place. If the process dies before or soon after the claim, another
// instance fulfils the request. If this instance finds the place already claimed for the same id, it continues.
//
// A command without the app's connections makes such requests by [life.Life.RequestCheckedStart] and [life.Life.RequestRetry].
//
// # Newer versions
//
// Two versions of the program run side by side during a deployment. An instance drops a message that a newer version wrote. The
// step stays pending. Maintain of the newer version resends the message, and an older Maintain ignores the step. An instance also
// drops a message whose scan needs a newer version, or has hints of a newer version. Any Maintain resends such a message.
//
// # Handing writes over
//
// A page of more than 200 transactions is handed over to CopyRows if the step has children, so that the children need not wait for the writes.
// A message to CopyRows contains a key range: the open interval between the first and the last partition of consecutive pages. CopyRows reads the
// range again, which costs about seven requests, including the message. The first and last partition may continue on other pages, so the
// step writes their rows itself. A step of a delete does not hand over pages, because its children begin before it deletes rows.
package engine
