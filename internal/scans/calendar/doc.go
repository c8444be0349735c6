// Package calendar decides when scans start by themselves, and which of their backups are kept. It knows no clock, no storage and no scans:
// the engine tells what has been, and carries out what is decided.
package calendar
