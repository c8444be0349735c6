package main

import (
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/spf13/cobra"
)

// addPprof gives every command the flag --pprof.
func addPprof(root *cobra.Command) {
	var addr string
	root.PersistentFlags().StringVar(&addr, "pprof", "", "serve profiles for go tool pprof at this address, such as 127.0.0.1:6060, while the command runs")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := noEmptyFlags(c); err != nil || addr == "" {
			return err
		}
		_, err := servePprof(addr)
		return err
	}
}

// servePprof serves the process's profiles until it ends. It leaves out the command line,
// which may hold secrets.
func servePprof(addr string) (net.Addr, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usagef("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with the process
	return l.Addr(), nil
}
