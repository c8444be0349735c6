package loopback_test

import (
	"testing"

	"tablesweep/internal/input/loopback"
)

func TestIs(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:7071": true, "127.0.0.1": true, "127.0.0.1:1": true, "127.9.9.9": true,
		"[::1]": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":80": false, "evil.example": false, "evil.example:80": false, "10.1.2.3:80": false, "0.0.0.0": false, "[::]:80": false,
		"localhost.evil.example": false, "127.0.0.1.evil.example": false, "localhost, evil.example": false, "evil.example@localhost": false,
		"127.1": false, "2130706433": false, "localhost:80:80": false,
	} {
		if got := loopback.Is(host); got != want {
			t.Errorf("Is(%q) = %v, want %v", host, got, want)
		}
	}
}
