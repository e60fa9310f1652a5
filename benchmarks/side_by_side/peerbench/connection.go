package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

const (
	pauseAfterRefusal = 5 * time.Millisecond
	pauseAfterFailure = 10 * time.Millisecond
)

// connection sends one request after the other over one keep-alive connection.
type connection struct {
	plan    *plan
	start   time.Time
	tally   tally
	message []byte // head and body of a plain request, numbered anew for each
	body    []byte // the part of message that is the body
	socket  net.Conn
	reader  *bufio.Reader
}

func newConnection(p *plan, start time.Time) *connection {
	c := &connection{plan: p, start: start, tally: tally{statuses: map[int]uint64{}}}
	head := p.head(len(p.template.Body))
	c.message = append(head, p.template.Body...)
	c.body = c.message[len(head):]
	return c
}

func (p *plan) head(length int) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: peerbench\r\nContent-Length: %d\r\n",
		p.template.Path, p.address, length)
	for name, value := range p.template.Headers {
		fmt.Fprintf(&out, "%s: %s\r\n", name, value)
	}
	if p.zipped != nil {
		out.WriteString("Content-Encoding: gzip\r\n")
	}
	out.WriteString("\r\n")
	return out.Bytes()
}

// run takes numbers of requests from next until the plan is done.
func (c *connection) run(next *atomic.Uint64) {
	defer c.close()
	for {
		k := next.Add(1) - 1
		due, more := c.due(k)
		if !more {
			return
		}
		if err := c.send(k, due); err != nil {
			c.tally.broken++
			c.close()
			time.Sleep(pauseAfterFailure)
		}
	}
}

// due waits until request k is due and returns when its latency begins; false when the run is over.
func (c *connection) due(k uint64) (time.Time, bool) {
	if k >= c.plan.requests {
		return time.Time{}, false
	}
	now := time.Now()
	if c.plan.rate == 0 {
		return now, now.Before(c.start.Add(c.plan.duration))
	}
	after := time.Duration(float64(k) / c.plan.rate * float64(time.Second))
	if after >= c.plan.duration {
		return time.Time{}, false
	}
	due := c.start.Add(after)
	time.Sleep(time.Until(due))
	return due, true
}

func (c *connection) send(k uint64, due time.Time) error {
	if err := c.open(); err != nil {
		return err
	}
	message, bodyBytes := c.request(k)
	if _, err := c.socket.Write(message); err != nil {
		return err
	}
	got, err := readAnswer(c.reader)
	if err != nil {
		return err
	}
	c.tally.latency.add(time.Since(due))
	c.tally.statuses[got.status]++
	c.tally.bodyBytes += uint64(bodyBytes)
	if got.status != 200 {
		c.tally.lastRefusal = strings.ToValidUTF8(got.text, "?")
		time.Sleep(pauseAfterRefusal)
	}
	if got.closes {
		c.close()
	}
	return nil
}

func (c *connection) request(k uint64) (message []byte, bodyBytes int) {
	if c.plan.zipped != nil {
		zipped := c.plan.zipped[k]
		return append(c.plan.head(len(zipped)), zipped...), len(zipped)
	}
	c.plan.template.number(c.body, c.plan.first+k*uint64(c.plan.template.Items))
	return c.message, len(c.body)
}

func (c *connection) open() error {
	if c.socket != nil {
		return nil
	}
	socket, err := net.Dial("tcp", c.plan.address)
	if err != nil {
		return err
	}
	c.socket, c.reader = socket, bufio.NewReaderSize(socket, 4096)
	return nil
}

func (c *connection) close() {
	if c.socket != nil {
		c.socket.Close()
		c.socket = nil
	}
}
