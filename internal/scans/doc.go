// Package scans contains the parts that packages step, life, status and schedule share: requests, the places and the work that a request
// opens, messages of steps, limits, hints and notes, with the stored form of each. It also refuses scans that would change the app's own
// tables. It does not start or end scans.
package scans
