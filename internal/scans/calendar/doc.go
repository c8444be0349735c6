// Package calendar decides when schedules start scans, and which backups of a schedule are kept. It uses no clock and
// no storage. Package schedule passes the times and the schedules to package calendar, and carries out the decisions.
package calendar
