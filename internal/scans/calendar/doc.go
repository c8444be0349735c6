// Package calendar decides when schedules start scans, and which backups of a schedule are kept. It uses no clock and
// no storage. Package schedule supplies the facts and carries out the decisions.
package calendar
