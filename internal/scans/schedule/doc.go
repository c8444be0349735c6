// Package schedule starts the scans of the app's schedules, and keeps and deletes the backups that they make. Package calendar decides which
// are due and which are kept.
package schedule
