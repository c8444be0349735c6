// Package calendar decides when schedules start scans, and which backups of a schedule are kept. It uses no clock and
// no storage: package schedule passes the times and schedules to package calendar, and carries out its decisions.
package calendar
