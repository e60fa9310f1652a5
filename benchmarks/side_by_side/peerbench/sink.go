package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	tracesPath  = "/v1/traces"
	recordsPath = "/v2/ai-telemetry/records"
)

// counts is what came so far, as /_counts states it.
type counts struct {
	Unique    uint64  `json:"unique"`
	Repeats   uint64  `json:"repeats"`
	Unknown   uint64  `json:"unknown"`
	Requests  uint64  `json:"requests"`
	Refused   uint64  `json:"refused"`
	Bad       uint64  `json:"bad"`
	BodyBytes uint64  `json:"body_bytes"`
	CPUS      float64 `json:"cpu_s"`
}

// sink is the upstream: OTLP/HTTP in protobuf on one path, a cost service on the other.
type sink struct {
	lock    sync.Mutex
	seen    seen
	counts  counts
	field   string // of a record, holds the item's number
	refuses atomic.Bool
	buffers sync.Pool
}

func newSink(field string, refuses bool) *sink {
	s := &sink{field: field, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
	s.refuses.Store(refuses)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/_counts":
		s.writeCounts(w)
	case "/_refuse", "/_accept":
		s.refuses.Store(r.URL.Path == "/_refuse")
	case tracesPath, recordsPath:
		s.take(w, r)
	default:
		if r.Method == http.MethodGet {
			w.Write([]byte(`{"insights":[]}`))
			return
		}
		http.Error(w, `{"message":"no such path"}`, http.StatusNotFound)
	}
}

func (s *sink) writeCounts(w http.ResponseWriter) {
	s.lock.Lock()
	defer s.lock.Unlock()
	now := s.counts
	now.Unique, now.Repeats, now.Unknown, now.CPUS = s.seen.unique, s.seen.repeats, s.seen.unknown, cpuSeconds()
	json.NewEncoder(w).Encode(now)
}

func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	buffer := s.buffers.Get().(*bytes.Buffer)
	defer s.buffers.Put(buffer)
	buffer.Reset()
	err := readBody(buffer, r)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.counts.Requests++
	if s.refuses.Load() {
		s.counts.Refused++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.counts.BodyBytes += uint64(buffer.Len())
	if err == nil && r.URL.Path == tracesPath {
		err = spanIDs(buffer.Bytes(), s.seen.mark)
	}
	if err != nil {
		s.counts.Bad++
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == tracesPath {
		w.Header().Set("Content-Type", "application/x-protobuf")
		return
	}
	accepted := recordIDs(buffer.Bytes(), s.field, s.seen.mark)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, `{"accepted":%d,"rejected":[]}`, accepted)
}

func readBody(buffer *bytes.Buffer, r *http.Request) error {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		from = zipped
	}
	_, err := buffer.ReadFrom(from)
	return err
}

func runSink(args []string) error {
	f := flag.NewFlagSet("sink", flag.ExitOnError)
	field := f.String("field", "span_id", "of a record, holds the item's number in its last 16 hex digits")
	refuses := f.Bool("refuse", false, "answer 503 until /_accept")
	if err := f.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("{\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, newSink(*field, *refuses)) }()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		return nil
	case err := <-failed:
		return err
	}
}
