// Package schedule starts the scans of the app's schedules, and records and deletes the backups that these scans make. Package calendar
// decides which scans are due and which backups are kept.
package schedule
