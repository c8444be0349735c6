// Package scans has what all that happens to a scan has in common: its request and what that comes to, the messages of its steps, its limits,
// the tables that no scan may change, hints and notes, and the forms in which these are stored. It begins and ends nothing.
package scans
