package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// plan is what a run sends. Without a rate it is a closed loop: each connection sends its next
// request when the last one is answered. With one it is an open loop: request k is due at k/rate,
// and its latency counts from then, so that a stall is not left out.
type plan struct {
	address     string
	template    *Template
	zipped      [][]byte // nil for plain bodies
	connections int
	duration    time.Duration
	requests    uint64
	rate        float64
	first       uint64
}

// report is what the sender saw, as one line of JSON on standard output.
type report struct {
	Requests      uint64         `json:"requests"`
	AckedRequests uint64         `json:"acked_requests"`
	AckedItems    uint64         `json:"acked_items"`
	Statuses      map[int]uint64 `json:"statuses"`
	Broken        uint64         `json:"broken"`
	ElapsedS      float64        `json:"elapsed_s"`
	P50Ms         float64        `json:"p50_ms"`
	P99Ms         float64        `json:"p99_ms"`
	P999Ms        float64        `json:"p999_ms"`
	MaxMs         float64        `json:"max_ms"`
	CPUS          float64        `json:"cpu_s"`
	BodyBytes     uint64         `json:"body_bytes"`
	NextNumber    uint64         `json:"next_number"`
	LastRefusal   string         `json:"last_refusal"`
}

// tally is what connections saw.
type tally struct {
	latency     histogram
	statuses    map[int]uint64
	broken      uint64
	bodyBytes   uint64
	lastRefusal string
}

func (t *tally) merge(other *tally) {
	t.latency.merge(&other.latency)
	for status, n := range other.statuses {
		t.statuses[status] += n
	}
	t.broken += other.broken
	t.bodyBytes += other.bodyBytes
	if other.lastRefusal != "" {
		t.lastRefusal = other.lastRefusal
	}
}

func (p *plan) run() report {
	var next atomic.Uint64
	var lock sync.Mutex
	var group sync.WaitGroup
	total := tally{statuses: map[int]uint64{}}
	cpuBefore, start := cpuSeconds(), time.Now()
	for range p.connections {
		group.Add(1)
		go func() {
			defer group.Done()
			c := newConnection(p, start)
			c.run(&next)
			lock.Lock()
			defer lock.Unlock()
			total.merge(&c.tally)
		}()
	}
	group.Wait()
	return p.report(&total, time.Since(start).Seconds(), cpuSeconds()-cpuBefore, next.Load())
}

func (p *plan) report(total *tally, elapsed, cpu float64, taken uint64) report {
	answered := uint64(0)
	for _, n := range total.statuses {
		answered += n
	}
	items := uint64(p.template.Items)
	return report{
		Requests: answered + total.broken, AckedRequests: total.statuses[200], AckedItems: total.statuses[200] * items,
		Statuses: total.statuses, Broken: total.broken, ElapsedS: elapsed,
		P50Ms: total.latency.ms(.5), P99Ms: total.latency.ms(.99), P999Ms: total.latency.ms(.999), MaxMs: total.latency.ms(1),
		CPUS: cpu, BodyBytes: total.bodyBytes, NextNumber: p.first + min(taken, p.requests)*items, LastRefusal: total.lastRefusal,
	}
}

func runLoad(args []string) error {
	f := flag.NewFlagSet("load", flag.ExitOnError)
	p := &plan{}
	f.StringVar(&p.address, "address", "127.0.0.1:4318", "host:port of the receiver")
	path := f.String("template", "", "file with the request, as benchmarks/side_by_side/template.py writes it")
	f.IntVar(&p.connections, "connections", 16, "keep-alive connections")
	seconds := f.Float64("seconds", 10, "at most")
	f.Uint64Var(&p.requests, "requests", 1<<62, "at most")
	f.Float64Var(&p.rate, "rate", 0, "requests a second, open loop; 0: closed loop")
	f.Uint64Var(&p.first, "first", 0, "number of the first item")
	zip := f.Bool("gzip", false, "compressed bodies, built before the run")
	pool := f.Uint64("pool", 4000, "with -gzip: bodies to build; the run ends with them")
	if err := f.Parse(args); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	var err error
	if p.template, err = readTemplate(*path); err != nil {
		return err
	}
	p.duration = time.Duration(*seconds * float64(time.Second))
	if *zip {
		p.requests = min(*pool, p.requests)
		if p.zipped, err = p.template.compressed(p.first, p.requests); err != nil {
			return err
		}
	}
	fmt.Println(`{"ready":true}`)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p.run())
}
