// Package life begins scans and groups of them, retries and ends them, seals exports, and judges comparisons. Its [Upkeep] completes what
// crashes have left.
package life
