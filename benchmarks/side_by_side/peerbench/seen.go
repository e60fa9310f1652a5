package main

// seen keeps one bit for each number, so that loss and repeats are exact.
type seen struct {
	bits                     []uint64
	unique, repeats, unknown uint64
}

// mark notes the number in id; an id without idBase is none of a run's.
func (s *seen) mark(id uint64) {
	if id>>56 != idBase>>56 {
		s.unknown++
		return
	}
	number := id & (1<<56 - 1)
	at, bit := number>>6, uint64(1)<<(number&63)
	for at >= uint64(len(s.bits)) {
		s.bits = append(s.bits, make([]uint64, max(1<<14, len(s.bits)))...)
	}
	if s.bits[at]&bit != 0 {
		s.repeats++
		return
	}
	s.bits[at] |= bit
	s.unique++
}
