// Package status reports on scans: their status, lists, ranges, timelines, rates and failed rows. It changes nothing.
package status
