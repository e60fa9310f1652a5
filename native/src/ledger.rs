//! The hot loops of `gateway/counting/calls/ledger.py` over rows of bytes. What is rare is handed
//! back to Python, row by row and in order.

use std::borrow::Cow;
use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::table::{Keys, Table};

/// `digest.DIGEST_BYTES`, and where a row has what is looked up (`digest._FACT`).
const ROW: usize = 160;
const TRACE: usize = 16;
const OWN: usize = 24;
const PARENT: usize = 24;
const SOURCE: usize = 48;
const SCOPE: usize = 56;
const RESPONSE: usize = 64;
const MARKS: usize = 108;
const GROUP: usize = 112;
const REQUEST: usize = 128;
const CHAINS: usize = 136;
/// Trace, span and parent span id, as the normaliser gives a link; a link's row has the reference
/// of the report before it, too.
const LINK: usize = 32;
const LINK_ROW: usize = 40;
const REF_STEP: u64 = 2;
const AHEAD: usize = 8;
const OPEN: u8 = 0;

fn number(row: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&row[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn rows_of(rows: &[u8], size: usize) -> PyResult<std::slice::ChunksExact<'_, u8>> {
    check_rows(rows, size)?;
    Ok(rows.chunks_exact(size))
}

fn check_rows(rows: &[u8], size: usize) -> PyResult<()> {
    if rows.len() % size != 0 {
        return Err(PyValueError::new_err("not whole rows"));
    }
    Ok(())
}

/// The span above, None for a root.
fn above(row: &[u8]) -> Option<[u8; OWN]> {
    let parent = &row[PARENT..PARENT + 8];
    if parent == [0; 8] {
        return None;
    }
    let mut span = [0; OWN];
    span[..TRACE].copy_from_slice(&row[..TRACE]);
    span[TRACE..].copy_from_slice(parent);
    Some(span)
}

/// Source, scope, and the references of their rows: array("Q") reads them.
type Group<Refs> = (u64, u64, Refs);
/// The rows that are kept, and their groups.
type Counted<'py> = (Bound<'py, PyBytes>, Vec<Group<Bound<'py, PyBytes>>>);

#[derive(Default)]
struct Groups {
    found: Vec<Group<Vec<u8>>>,
    places: HashMap<(u64, u64), usize>,
}

impl Groups {
    fn add(&mut self, source: u64, scope: u64, of: u64, rows_left: usize) {
        let place = match self.found.last() {
            Some((s, c, _)) if (*s, *c) == (source, scope) => self.found.len() - 1,
            _ => *self.places.entry((source, scope)).or_insert_with(|| {
                let room = if self.found.is_empty() {
                    rows_left * 8
                } else {
                    8
                };
                self.found.push((source, scope, Vec::with_capacity(room)));
                self.found.len() - 1
            }),
        };
        self.found[place].2.extend_from_slice(&of.to_ne_bytes());
    }
}

/// The ledger's tables, and its loops over them.
#[pyclass(module = "gateway._native", frozen)]
pub struct CallTables {
    keys: Keys,
    spans: Py<Table>,
    children: Py<Table>,
    responses: Py<Table>,
    requests: Py<Table>,
}

/// Of a row's span, and of the span above it.
type RowKeys = (u64, Option<u64>);

struct Looked {
    prev_child: u64,
    prev_response: u64,
    prev_request: u64,
}

impl CallTables {
    /// Takes one row into the tables beside that of spans.
    fn look(&self, py: Python<'_>, row: &[u8], above: Option<u64>, of: u64) -> PyResult<Looked> {
        let (response, request) = (number(row, RESPONSE), number(row, REQUEST));
        Ok(Looked {
            prev_child: match above {
                Some(key) => self.children.borrow_mut(py).swap(key, of)?,
                None => 0,
            },
            prev_response: if response == 0 {
                0
            } else {
                self.responses.borrow_mut(py).swap(response, of)?
            },
            prev_request: if request == 0 {
                0
            } else {
                self.requests.borrow_mut(py).swap(request, of)?
            },
        })
    }

    /// Keys of each of up to `AHEAD` rows and of the span above it, whose cells are fetched at once.
    fn keys_of(&self, py: Python<'_>, rows: &[u8]) -> [RowKeys; AHEAD] {
        let (spans, children) = (self.spans.borrow(py), self.children.borrow(py));
        let (responses, requests) = (self.responses.borrow(py), self.requests.borrow(py));
        let mut touched = 0;
        let mut keys = [(0, None); AHEAD];
        for (row, keys) in rows.chunks_exact(ROW).zip(&mut keys) {
            let (own, above) = self.row_keys(row);
            touched ^= spans.touch(own) ^ above.map_or(0, |key| children.touch(key));
            touched ^=
                responses.touch(number(row, RESPONSE)) ^ requests.touch(number(row, REQUEST));
            *keys = (own, above);
        }
        std::hint::black_box(touched);
        keys
    }

    fn row_keys(&self, row: &[u8]) -> RowKeys {
        (
            self.keys.of(&row[..OWN]),
            above(row).map(|span| self.keys.of(&span)),
        )
    }
}

#[pymethods]
impl CallTables {
    #[new]
    fn new(
        keys: &SpanKeys,
        spans: Py<Table>,
        children: Py<Table>,
        responses: Py<Table>,
        requests: Py<Table>,
    ) -> Self {
        CallTables {
            keys: keys.0.clone(),
            spans,
            children,
            responses,
            requests,
        }
    }

    /// `Ledger._count_calls`: the rows that are kept, and for each source and scope the references
    /// of its rows.
    ///
    /// *special*: marks of rows that are noted. *payload* is asked `is_news(i, ref)` for a span that
    /// is known, and takes `note(i, ref, prev_response, prev_request)` of a row that is special or
    /// related.
    fn count<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyBytes>,
        first: u64,
        special: u16,
        payload: &Bound<'py, PyAny>,
    ) -> PyResult<Counted<'py>> {
        let bytes = rows.as_bytes();
        let all = rows_of(bytes, ROW)?.len();
        let mut groups = Groups::default();
        let mut written: Option<Vec<u8>> = None;
        let mut of = first;
        let mut keys = [(0, None); AHEAD];
        for (i, row) in bytes.chunks_exact(ROW).enumerate() {
            if i % AHEAD == 0 {
                keys = self.keys_of(py, &bytes[i * ROW..all.min(i + AHEAD) * ROW]);
            }
            let (own, above) = keys[i % AHEAD];
            let is_new = self.spans.borrow_mut(py).add(own, of)?;
            if !is_new && !payload.call_method1("is_news", (i, of))?.is_truthy()? {
                if written.is_none() {
                    written = Some(bytes[..i * ROW].to_vec());
                }
                continue;
            }
            let found = self.look(py, row, above, of)?;
            let is_chained = (found.prev_child | found.prev_response | found.prev_request) != 0;
            if is_chained && written.is_none() {
                written = Some(bytes[..i * ROW].to_vec());
            }
            if let Some(out) = written.as_mut() {
                out.extend_from_slice(&row[..CHAINS]);
                if is_chained {
                    for chain in [found.prev_child, found.prev_response, found.prev_request] {
                        out.extend_from_slice(&chain.to_le_bytes());
                    }
                } else {
                    out.extend_from_slice(&row[CHAINS..]);
                }
            }
            let marks = u16::from_le_bytes([row[MARKS], row[MARKS + 1]]);
            if (found.prev_response | found.prev_request) != 0 || marks & special != 0 {
                payload.call_method1("note", (i, of, found.prev_response, found.prev_request))?;
            }
            groups.add(number(row, SOURCE), number(row, SCOPE), of, all - i);
            of += REF_STEP;
        }
        let facts = match written {
            Some(out) => PyBytes::new(py, &out),
            None => rows.clone(),
        };
        let groups = groups
            .found
            .iter()
            .map(|(s, c, refs)| (*s, *c, PyBytes::new(py, refs)))
            .collect();
        Ok((facts, groups))
    }

    /// `Ledger._remember`: the tables know *rows*, the first of which stands at *first*; indexes of
    /// those that are one of a product's ways to report.
    fn remember(&self, py: Python<'_>, rows: &[u8], first: u64) -> PyResult<Vec<usize>> {
        check_rows(rows, ROW)?;
        let mut grouped = Vec::new();
        let mut of = first;
        for (block, rows) in rows.chunks(AHEAD * ROW).enumerate() {
            let keys = self.keys_of(py, rows);
            for (i, (row, (own, above))) in rows.chunks_exact(ROW).zip(keys).enumerate() {
                self.spans.borrow_mut(py).add(own, of)?;
                self.look(py, row, above, of)?;
                if number(row, GROUP) != 0 {
                    grouped.push(block * AHEAD + i);
                }
                of += REF_STEP;
            }
        }
        Ok(grouped)
    }

    /// `Ledger._count_links`: the rows of the links that lead upwards. *ways_up*: span -> the span
    /// above it, where that is of interest.
    fn count_links<'py>(
        &self,
        py: Python<'py>,
        links: &[u8],
        first: u64,
        ways_up: Option<&Bound<'py, Table>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut children = self.children.borrow_mut(py);
        let mut rows = Vec::with_capacity(links.len() / LINK * LINK_ROW);
        let mut of = first;
        for link in rows_of(links, LINK)? {
            let Some(span) = above(link) else { continue };
            let key = self.keys.of(&span);
            let prev = children.swap(key, of)?;
            if let Some(ways_up) = ways_up {
                ways_up.borrow_mut().add(self.keys.of(&link[..OWN]), key)?;
            }
            rows.extend_from_slice(link);
            rows.extend_from_slice(&prev.to_le_bytes());
            of += REF_STEP;
        }
        Ok(PyBytes::new(py, &rows))
    }

    /// Indexes of the open calls of a chunk below which a report stands, or above which a call.
    fn near_others(
        &self,
        py: Python<'_>,
        facts: Cow<'_, [u8]>,
        outcomes: Cow<'_, [u8]>,
    ) -> PyResult<Vec<usize>> {
        let (spans, children) = (self.spans.borrow(py), self.children.borrow(py));
        let mut near = Vec::new();
        let mut touched = 0;
        check_rows(&facts, ROW)?;
        for (block, rows) in facts.chunks(AHEAD * ROW).enumerate() {
            let keys: Vec<RowKeys> = rows
                .chunks_exact(ROW)
                .map(|row| self.row_keys(row))
                .collect();
            for (own, above) in &keys {
                touched ^= children.touch(*own) ^ above.map_or(0, |key| spans.touch(key));
            }
            for (i, (own, above)) in keys.into_iter().enumerate() {
                let idx = block * AHEAD + i;
                let is_near =
                    || children.find(own) != 0 || above.is_some_and(|key| spans.find(key) != 0);
                if outcomes.get(idx) == Some(&OPEN) && is_near() {
                    near.push(idx);
                }
            }
        }
        std::hint::black_box(touched);
        Ok(near)
    }
}

/// The keys of this process.
#[pyclass(module = "gateway._native", frozen)]
pub struct SpanKeys(Keys);

#[pymethods]
impl SpanKeys {
    #[new]
    fn new() -> Self {
        SpanKeys(Keys::new())
    }

    /// 63 bits, never 0.
    fn key(&self, identity: &[u8]) -> u64 {
        self.0.of(identity)
    }
}

pub fn export(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add_class::<SpanKeys>()?;
    module.add_class::<CallTables>()
}
