//go:build !race

package demo

const race = false
