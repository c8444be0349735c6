// Package scans has the parts of a scan that step, life, status and schedule share: its request, the opened places and work of a request, the
// messages of its steps, its limits, the tables that no scan may change, hints and notes, and their stored forms. It begins and ends no scans.
package scans
