// Package outagetest provides a proxy before an emulator. Tests use it to check what clients do during an outage of the storage.
package outagetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Mode determines how the proxy treats connections.
type Mode int

// The modes.
const (
	Forward Mode = iota
	Refuse       // the proxy does not listen, and closes open connections
	Hang         // connections are accepted, but never get an answer
	Drop         // connections are accepted and closed
)

// Proxy forwards to an account's endpoints. It is safe for concurrent use.
type Proxy struct {
	// Connection is a connection string that leads to the account through the proxy.
	Connection string

	t     testing.TB
	doors []*door

	mu    sync.Mutex
	mode  Mode
	conns map[net.Conn]bool // both ends of each connection
}

// door is the part of the proxy for one endpoint.
type door struct {
	address, target string
	listener        net.Listener // nil if the proxy does not listen
}

var endpoint = regexp.MustCompile(`(?:Table|Queue|Blob)Endpoint=http://([^/;]+)`)

// New returns a proxy that forwards to the endpoints of a connection string until the test ends.
func New(t testing.TB, connection string) *Proxy {
	t.Helper()
	p := &Proxy{Connection: connection, t: t, conns: map[net.Conn]bool{}}
	for _, found := range endpoint.FindAllStringSubmatch(connection, -1) {
		d := &door{target: found[1]}
		p.open(d)
		p.doors = append(p.doors, d)
		p.Connection = strings.ReplaceAll(p.Connection, "http://"+d.target, "http://"+d.address)
	}
	if len(p.doors) == 0 {
		t.Fatal("the connection string has no endpoints")
	}
	t.Cleanup(func() { p.Set(Refuse) })
	return p
}

// Set changes the mode. It closes the open connections, unless the mode changes from Forward to Hang.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == p.mode {
		return
	}
	if p.mode != Forward || m != Hang {
		for c := range p.conns {
			c.Close()
		}
	}
	p.mode = m
	for _, d := range p.doors {
		switch {
		case m == Refuse:
			d.listener.Close()
			d.listener = nil
		case d.listener == nil:
			p.open(d)
		}
	}
}

// For sets a mode for the duration d, and then Forward.
func (p *Proxy) For(d time.Duration, m Mode) {
	p.Set(m)
	time.Sleep(d)
	p.Set(Forward)
}

// open listens at the door's address, and retries if another process temporarily uses the address. The first time, it chooses a port below those of outgoing
// connections, because an outgoing connection could occupy the port.
func (p *Proxy) open(d *door) {
	var err error
	for range 100 {
		address := d.address
		if address == "" {
			address = fmt.Sprintf("127.0.0.1:%d", 16384+rand.IntN(16384))
		}
		if d.listener, err = net.Listen("tcp", address); err == nil {
			d.address = d.listener.Addr().String()
			go p.accept(d.listener, d.target) // ends when the listener is closed
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Errorf("the proxy cannot listen: %v", err)
}

func (p *Proxy) accept(l net.Listener, target string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go p.serve(client, target) // ends with the connection
	}
}

func (p *Proxy) serve(client net.Conn, target string) {
	defer p.close(client)
	if mode := p.add(client); mode == Drop || mode == Refuse {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer p.close(server)
	p.add(server)
	go func() {
		p.pass(client, server)
		p.close(client)
	}()
	p.pass(server, client)
}

// pass copies bytes from one end to the other, except while the proxy hangs.
func (p *Proxy) pass(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		if mode == Hang {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// add records an open connection, and returns the proxy's mode.
func (p *Proxy) add(c net.Conn) Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return p.mode
}

func (p *Proxy) close(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}
