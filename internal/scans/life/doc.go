// Package life starts, retries and ends scans and groups, seals exports, and decides how comparisons end. Its [Upkeep] completes the work that
// crashes interrupted.
package life
