// Package scans contains what the packages step, life, status and schedule share: requests with their places, messages
// of steps, limits, hints and notes, and the stored form of each. The package refuses scans that would change the app's
// own tables. It does not start or end scans.
package scans
