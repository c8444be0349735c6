// Package life starts, retries and ends scans and groups, completes exports, and decides how comparisons end. Its
// [Upkeep] completes work that crashes interrupted.
package life
