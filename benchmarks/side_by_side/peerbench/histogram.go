package main

import "time"

// histogram counts durations in 128 steps for each power of two of a nanosecond: 0.8 % wide.
type histogram [64 * 128]uint64

func (h *histogram) add(d time.Duration) {
	value, shift := uint64(max(d, 0).Nanoseconds()), 0
	for value>>shift >= 256 {
		shift++
	}
	h[min(shift*128+int(value>>shift), len(h)-1)]++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// ms is the lower edge of the step that holds the given share of all durations; 0 for none.
func (h *histogram) ms(share float64) float64 {
	var total, below uint64
	for _, n := range h {
		total += n
	}
	for i, n := range h {
		below += n
		if n > 0 && float64(below) >= share*float64(total) {
			return float64(lowerEdge(i)) / 1e6
		}
	}
	return 0
}

func lowerEdge(step int) uint64 {
	if step < 256 {
		return uint64(step)
	}
	shift := step/128 - 1
	return uint64(step-shift*128) << shift
}
