//go:build race

package demo

const race = true
