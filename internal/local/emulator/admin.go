package emulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

func isAdmin(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/_emulator/") }

func (e *Emulator) administer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/_emulator/counts":
		e.serveCounts(w, r)
	case "/_emulator/faults":
		e.serveFaults(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (e *Emulator) serveCounts(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
		e.ResetCounts()
	default:
		http.Error(w, "use GET or DELETE", http.StatusMethodNotAllowed)
		return
	}
	writeJSON(w, e.Counts())
}

func (e *Emulator) serveFaults(w http.ResponseWriter, r *http.Request) {
	spec, err := "", error(nil)
	switch r.Method {
	case http.MethodPut:
		var body []byte
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(e.clientTime))
		if body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10)); err == nil {
			spec = string(body)
			err = e.SetFaults(spec)
		}
	case http.MethodDelete:
		err = e.SetFaults("")
	case http.MethodGet:
	default:
		http.Error(w, "use GET, PUT or DELETE", http.StatusMethodNotAllowed)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, struct {
		Spec  string         `json:"spec"`
		Fired map[string]int `json:"fired"`
	}{e.injector.Load().String(), e.FaultCounts()})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
