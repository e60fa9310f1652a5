//! `gateway/counting/calls/table.py` in Rust: a compact table of 63-bit keys, in two generations.
//!
//! The same bounds and answers. A key's slot is of a number drawn for each table, so nobody can aim
//! at one.

use std::hash::{BuildHasher, RandomState};

use memmap2::MmapMut;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

const CELL: usize = 8;
const MASK: u64 = (1 << 63) - 1;

/// One fixed-size table, never more than three quarters full. Untouched pages cost no memory.
struct Generation {
    cells: MmapMut,
    count: usize,
}

impl Generation {
    fn new(slots: usize, step: usize) -> PyResult<Self> {
        let cells = MmapMut::map_anon(slots * step * CELL)
            .map_err(|e| PyMemoryError::new_err(e.to_string()))?;
        Ok(Generation { cells, count: 0 })
    }

    fn cell(&self, at: usize) -> u64 {
        let mut bytes = [0; CELL];
        bytes.copy_from_slice(&self.cells[at * CELL..(at + 1) * CELL]);
        u64::from_ne_bytes(bytes)
    }

    fn set(&mut self, at: usize, value: u64) {
        self.cells[at * CELL..(at + 1) * CELL].copy_from_slice(&value.to_ne_bytes());
    }
}

/// Fingerprint -> value, or a set of fingerprints; never more than `max_keys`; the older generation
/// goes when the young one is full.
#[pyclass(module = "gateway._native")]
pub struct Table {
    slots: usize,
    step: usize,
    spread: u64,
    young: Generation,
    old: Option<Generation>,
    /// Keys forgotten because the table was full.
    #[pyo3(get)]
    evicted: usize,
}

enum Slot {
    Of(usize),
    Free(usize),
}

impl Table {
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(self.spread) >> (u64::BITS - self.slots.trailing_zeros())) as usize
    }

    fn slot(&self, generation: &Generation, key: u64) -> Slot {
        let mut slot = self.home(key);
        loop {
            match generation.cell(slot * self.step) {
                0 => return Slot::Free(slot),
                found if found == key => return Slot::Of(slot),
                _ => slot = (slot + 1) & (self.slots - 1),
            }
        }
    }

    fn value(&self, generation: &Generation, key: u64) -> u64 {
        match self.slot(generation, key) {
            Slot::Of(slot) if self.step == 2 => generation.cell(slot * 2 + 1),
            Slot::Of(_) => 1,
            Slot::Free(_) => 0,
        }
    }

    fn in_old(&self, key: u64) -> u64 {
        self.old.as_ref().map_or(0, |old| self.value(old, key))
    }

    fn put(&mut self, slot: usize, key: u64, value: u64) -> PyResult<()> {
        self.young.set(slot * self.step, key);
        if self.step == 2 {
            self.young.set(slot * 2 + 1, value);
        }
        self.young.count += 1;
        if self.young.count >= self.limit() {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> PyResult<()> {
        let young = Generation::new(self.slots, self.step)?;
        let full = std::mem::replace(&mut self.young, young);
        if let Some(old) = self.old.replace(full) {
            self.evicted += old.count;
        }
        Ok(())
    }

    /// Brings the cells of *key* into the processor's cache; of use some keys ahead.
    pub fn touch(&self, key: u64) -> u64 {
        let slot = self.home(key);
        self.young.cell(slot * self.step)
            ^ self
                .old
                .as_ref()
                .map_or(0, |old| old.cell(slot * self.step))
    }
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (max_keys, *, with_values))]
    fn new(max_keys: usize, with_values: bool) -> PyResult<Self> {
        let mut slots: usize = 1 << 8;
        while slots * 2 * 3 / 4 * 2 <= max_keys {
            slots *= 2;
        }
        let step = if with_values { 2 } else { 1 };
        let spread = RandomState::new().hash_one(slots) | 1;
        let young = Generation::new(slots, step)?;
        Ok(Table {
            slots,
            step,
            spread,
            young,
            old: None,
            evicted: 0,
        })
    }

    /// Keys that one generation holds.
    #[getter]
    fn limit(&self) -> usize {
        self.slots * 3 / 4
    }

    fn __len__(&self) -> usize {
        self.young.count + self.old.as_ref().map_or(0, |old| old.count)
    }

    #[pyo3(signature = (key, value = 1))]
    pub fn add(&mut self, key: u64, value: u64) -> PyResult<bool> {
        match self.slot(&self.young, key) {
            Slot::Of(slot) if self.step == 2 && self.young.cell(slot * 2 + 1) == 0 => {
                self.young.set(slot * 2 + 1, value);
            }
            Slot::Free(slot) if self.in_old(key) == 0 => self.put(slot, key, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn swap(&mut self, key: u64, value: u64) -> PyResult<u64> {
        match self.slot(&self.young, key) {
            Slot::Of(slot) => {
                let before = self.young.cell(slot * 2 + 1);
                self.young.set(slot * 2 + 1, value);
                Ok(before)
            }
            Slot::Free(slot) => {
                let before = self.in_old(key);
                self.put(slot, key, value)?;
                Ok(before)
            }
        }
    }

    pub fn find(&self, key: u64) -> u64 {
        match self.slot(&self.young, key) {
            Slot::Of(slot) if self.step == 2 => self.young.cell(slot * 2 + 1),
            Slot::Of(_) => 1,
            Slot::Free(_) => self.in_old(key),
        }
    }

    /// (key, value) of what is remembered, each key with its last value.
    fn items(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::with_capacity(self.__len__());
        for generation in [Some(&self.young), self.old.as_ref()].into_iter().flatten() {
            for slot in 0..self.slots {
                let key = generation.cell(slot * self.step);
                let is_young = std::ptr::eq(generation, &self.young);
                if key != 0 && (is_young || matches!(self.slot(&self.young, key), Slot::Free(_))) {
                    found.push((key, self.value(generation, key)));
                }
            }
        }
        found
    }
}

/// The tables' key of a span: of this process, so nobody can aim at it.
#[derive(Clone)]
pub struct Keys(RandomState);

impl Keys {
    pub fn new() -> Self {
        Keys(RandomState::new())
    }

    pub fn of(&self, identity: &[u8]) -> u64 {
        use std::hash::Hasher;
        let mut hasher = self.0.build_hasher();
        hasher.write(identity);
        match hasher.finish() & MASK {
            0 => 1,
            key => key,
        }
    }
}
