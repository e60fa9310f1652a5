package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// spanRequest is an ExportTraceServiceRequest of that many spans; the span ids are at the offsets.
func spanRequest(spans int) (body []byte, offsets []int) {
	field := func(number byte, content []byte) []byte {
		return append([]byte{number<<3 | 2, byte(len(content))}, content...)
	}
	var scope []byte
	for range spans {
		scope = append(scope, field(2, field(2, make([]byte, 8)))...)
	}
	body = field(1, field(2, scope))
	for i := range spans {
		offsets = append(offsets, len(body)-len(scope)+i*12+4)
	}
	return body, offsets
}

func spanTemplate(spans int) *Template {
	body, offsets := spanRequest(spans)
	t := &Template{Path: tracesPath, Headers: map[string]string{"Content-Type": "application/x-protobuf"}, Body: body, Items: spans}
	for i, at := range offsets {
		t.Patches = append(t.Patches, [3]int{at, i, 0})
	}
	return t
}

func sinkCounts(t *testing.T, s *sink) counts {
	t.Helper()
	recorder := httptest.NewRecorder()
	s.writeCounts(recorder)
	var got counts
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEveryItemThatIsSentIsCountedOnceAndASecondTimeAsARepeat(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		s := newSink("span_id", false)
		server := httptest.NewServer(s)
		p := &plan{address: strings.TrimPrefix(server.URL, "http://"), template: spanTemplate(3), connections: 4,
			duration: time.Minute, requests: 50}
		if zipped {
			var err error
			if p.zipped, err = p.template.compressed(0, p.requests); err != nil {
				t.Fatal(err)
			}
		}
		got := p.run()
		if c := sinkCounts(t, s); got.AckedItems != 150 || c.Unique != 150 || c.Repeats != 0 || c.Unknown != 0 {
			t.Fatalf("zipped %v: sent %+v, counted %+v", zipped, got, c)
		}
		p.run()
		if c := sinkCounts(t, s); c.Unique != 150 || c.Repeats != 150 {
			t.Fatalf("zipped %v, sent again: %+v", zipped, c)
		}
		server.Close()
	}
}

func TestASinkThatRefusesCountsNothing(t *testing.T) {
	s := newSink("span_id", true)
	server := httptest.NewServer(s)
	defer server.Close()
	p := &plan{address: strings.TrimPrefix(server.URL, "http://"), template: spanTemplate(1), connections: 1,
		duration: time.Minute, requests: 2}
	got := p.run()
	if c := sinkCounts(t, s); got.AckedItems != 0 || got.Statuses[503] != 2 || c.Unique != 0 || c.Refused != 2 {
		t.Fatalf("sent %+v, counted %+v", got, c)
	}
}

func TestAnOpenLoopSendsItsRateForItsTimeAndCountsLatencyFromWhenARequestWasDue(t *testing.T) {
	server := httptest.NewServer(newSink("span_id", false))
	defer server.Close()
	p := &plan{address: strings.TrimPrefix(server.URL, "http://"), template: spanTemplate(1), connections: 2,
		duration: 200 * time.Millisecond, requests: 1 << 62, rate: 500}
	if got := p.run(); got.Requests != 100 || got.AckedRequests != 100 {
		t.Fatalf("%+v", got)
	}
	c := newConnection(p, time.Now().Add(-time.Second))
	if due, more := c.due(50); !more || !due.Equal(c.start.Add(100*time.Millisecond)) {
		t.Fatalf("due %v after the start, more: %v", due.Sub(c.start), more)
	}
}

func TestNumbersStandInBytesAndInHexDigits(t *testing.T) {
	t1 := &Template{Body: make([]byte, 8+24+12), Items: 2, Patches: [][3]int{{0, 0, 0}, {8, 1, 24}, {32, 1, 12}}}
	if err := t1.check(); err != nil {
		t.Fatal(err)
	}
	body := bytes.Clone(t1.Body)
	t1.number(body, 0x1234)
	if got := hex.EncodeToString(body[:8]) + " " + string(body[8:32]) + " " + string(body[32:]); got !=
		"a100000000001234 00000000a100000000001235 000000001235" {
		t.Fatal(got)
	}
	for _, patch := range [][3]int{{40, 0, 8}, {0, 2, 0}, {-1, 0, 0}, {0, 0, 33}} {
		bad := &Template{Body: t1.Body, Items: 2, Patches: [][3]int{patch}}
		if bad.check() == nil {
			t.Fatalf("patch %v was taken", patch)
		}
	}
}

func TestRecordsAreFoundByTheirField(t *testing.T) {
	body := []byte(`{"records":[{"span_id":"a100000000000007","parent_span_id":"a100000000000009"},` +
		`{"span_id":"a1"},{"response_id":"chatcmpl-00000000a100000000000008"}]}`)
	for field, want := range map[string]seen{"span_id": {unique: 1, unknown: 1}, "response_id": {unique: 1}} {
		var s seen
		found := recordIDs(body, field, s.mark)
		if uint64(found) != want.unique+want.unknown || s.unique != want.unique || s.unknown != want.unknown {
			t.Fatalf("%s: %d found, %+v", field, found, s)
		}
	}
}

func TestABodyThatIsNoProtobufIsBad(t *testing.T) {
	body, _ := spanRequest(2)
	for _, damaged := range [][]byte{body[:len(body)-1], {0x0a, 0x05, 0x01}, {0x07}} {
		if spanIDs(damaged, func(uint64) {}) == nil {
			t.Fatalf("%x was taken", damaged)
		}
	}
}

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	for share, want := range map[float64]float64{.5: 500, .99: 990, .999: 999, 1: 1000} {
		if got := h.ms(share); got > want || got < want*.99 {
			t.Fatalf("%v: %v ms, not %v", share, got, want)
		}
	}
	if empty := (&histogram{}).ms(.5); empty != 0 {
		t.Fatal(empty)
	}
}
