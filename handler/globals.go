package main

import (
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/loopback"
)

// addGlobals gives every command the flags --quiet and --pprof.
func addGlobals(root *cobra.Command) {
	var addr string
	quiet := root.PersistentFlags().BoolP("quiet", "q", false, "print only errors on stderr")
	root.PersistentFlags().StringVar(&addr, "pprof", "", "while the command runs, serve profiles for go tool pprof at this loopback address, such as 127.0.0.1:6060")
	_ = root.PersistentFlags().MarkHidden("pprof") // fails only if the flag is missing
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if *quiet {
			sharedBy(c).meter.Quiet()
		}
		if err := noEmptyFlags(c); err != nil || addr == "" {
			return err
		}
		_, err := servePprof(addr)
		return err
	}
}

// servePprof serves the process's profiles until the process ends. Because the profiles show what the process works on, only programs
// on this machine can read them. The command line, which may contain secrets, is not served.
func servePprof(addr string) (net.Addr, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usagef("--pprof: %w", err)
	}
	if !loopback.Is(l.Addr().String()) {
		_ = l.Close()
		return nil, usagef("--pprof %s can be reached from other machines; give a loopback address, such as 127.0.0.1:6060", addr)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := loopback.Foreign(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: own, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with the process
	return l.Addr(), nil
}
